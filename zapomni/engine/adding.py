"""Adding and changing memories."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import trio

from zapomni.engine.context import PATIENCE, refresh
from zapomni.engine.metadata import recognise
from zapomni.engine.passages import WHOLE, Setting, batches, cut, model_of, prepare
from zapomni.errors import EmbeddingError, ValidationError
from zapomni.log import get_logger
from zapomni.models import MAX_TEXT_LENGTH, NewChunk, NewMemory
from zapomni.store.values import check_json
from zapomni.team import open_team
from zapomni.terms import title_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from zapomni.config import Settings
    from zapomni.embed import Embedder
    from zapomni.models import Chunk, MemoryResult
    from zapomni.store.workspace import Workspace

    Progress = Callable[[float, float | None, str | None], Awaitable[None]]

AHEAD = 2  # batches that are prepared while one is being written

log = get_logger("engine")


def new_memory(
    memory_id: str,
    text: str,
    metadata: Mapping[str, Any],
    *,
    key: str | None = None,
    stored_at: datetime | None = None,
    distinct: bool = False,
    expected_version: int | None = None,
) -> NewMemory:
    """Return a memory to be stored, as of now where no other moment is given. Raises `ValidationError`."""
    if not text.strip():
        raise ValidationError("text cannot be empty or whitespace-only")
    if len(text) > MAX_TEXT_LENGTH:
        raise ValidationError(f"text exceeds maximum length of {MAX_TEXT_LENGTH:,} characters")
    check_json(metadata)  # before anybody follows it down to its end
    known = recognise(metadata)
    return NewMemory(
        id=memory_id,
        text=text,
        metadata=metadata,
        created_at=stored_at or datetime.now(UTC),
        timestamp=known.timestamp,
        key=key,
        tags=known.tags,
        source=known.source,
        distinct=distinct,
        expected_version=expected_version,
    )


@attrs.frozen
class Writer:
    """Puts texts into a workspace."""

    workspace: Workspace
    embedder: Embedder
    settings: Settings
    on_deferred: Callable[[], None] = attrs.field(default=lambda: None)
    """Called when passages were left without vectors, which somebody has to make later."""
    on_stale: Callable[[Workspace, str], None] = attrs.field(default=lambda workspace, memory_id: None)
    """Called when what follows a memory is still found by its old words, which somebody has to mend later."""

    async def add(
        self, text: str, metadata: Mapping[str, Any], *, key: str | None = None, progress: Progress | None = None
    ) -> MemoryResult:
        """Store a text; it is durable, and found by the next search, when this returns."""
        return await self.write(new_memory(str(uuid.uuid4()), text, metadata, key=key), progress)

    async def write(self, memory: NewMemory, progress: Progress | None = None) -> MemoryResult:
        """Store a memory with its passages, a large one in batches that nobody sees before the last."""
        chunks = await cut(memory.text, tokens=self.settings.chunk_tokens, overlap=self.settings.chunk_overlap)
        memory, embedder = await self._with_model(memory)
        replaced = None if memory.key is None else await self.workspace.find_key(memory.key)
        memory, setting = await self._placed(memory, replaced)
        receipt = await self._store(memory, chunks, setting, embedder, progress)
        if receipt.replaced:
            await self._refresh(receipt.memory_id)
        return receipt

    async def _store(
        self,
        memory: NewMemory,
        chunks: Sequence[Chunk],
        setting: Setting,
        embedder: Embedder | None,
        progress: Progress | None,
        *,
        update: bool = False,
    ) -> MemoryResult:
        if len(chunks) <= WHOLE:
            ready = await self._prepare(chunks, setting.before, setting, embedder)
            try:
                return await (self.workspace.update if update else self.workspace.add)(memory, ready)
            finally:  # also of what was cancelled: it may be stored
                self._tell_what_lacks(ready)
        async with self.workspace.open_draft(memory, len(chunks), update=update) as draft:
            if (seen := await draft.seen()) is not None:
                return seen
            done, lacking = 0, list[NewChunk]()
            async with open_team() as team:
                send, receive = trio.open_memory_channel[list[NewChunk]](AHEAD)
                team.start_soon(self._produce, chunks, setting, embedder, send)
                async with receive:
                    async for ready in receive:
                        await draft.append(ready)
                        lacking += (chunk for chunk in ready if chunk.vector is None)
                        done += len(ready)
                        if progress is not None:
                            await progress(done, len(chunks), f"{done:,} of {len(chunks):,} passages stored")
            try:
                return await draft.publish()
            finally:
                self._tell_what_lacks(lacking)

    async def change(self, memory: NewMemory, progress: Progress | None = None) -> MemoryResult:
        """Give a memory a new text or new metadata; what it was becomes history."""
        chunks = await cut(memory.text, tokens=self.settings.chunk_tokens, overlap=self.settings.chunk_overlap)
        memory, embedder = await self._with_model(memory)
        memory, setting = await self._placed(memory, memory.id)
        receipt = await self._store(memory, chunks, setting, embedder, progress, update=True)
        if receipt.replaced:
            await self._refresh(memory.id)
        return receipt

    async def _refresh(self, memory_id: str) -> None:
        if not await refresh(self.workspace, memory_id, patience=PATIENCE):
            self.on_stale(self.workspace, memory_id)

    async def _produce(
        self,
        chunks: Sequence[Chunk],
        setting: Setting,
        embedder: Embedder | None,
        send: trio.MemorySendChannel[list[NewChunk]],
    ) -> None:
        before = setting.before
        async with send:
            for batch in batches(chunks):
                await send.send(await self._prepare(batch, before, setting, embedder))
                before = batch[-1].text

    async def _prepare(
        self, chunks: Sequence[Chunk], before: str, setting: Setting, embedder: Embedder | None
    ) -> list[NewChunk]:
        try:
            return await prepare(chunks, before, setting, embedder)
        except EmbeddingError as error:
            if not self.settings.defer_embedding:
                raise
            log.warning("embedding_deferred", error=str(error))
            return await prepare(chunks, before, setting, None)

    def _tell_what_lacks(self, chunks: Sequence[NewChunk]) -> None:
        """Ask for vectors once the passages can be seen; before, nobody would find them lacking."""
        if any(chunk.vector is None for chunk in chunks):
            self.on_deferred()

    async def _with_model(self, memory: NewMemory) -> tuple[NewMemory, Embedder | None]:
        model = await model_of(self.embedder, deferrable=self.settings.defer_embedding)
        return attrs.evolve(memory, model=model), None if model is None else self.embedder

    async def _placed(self, memory: NewMemory, replaced: str | None) -> tuple[NewMemory, Setting]:
        """Find out what the memory will stand after; a version stands where the one before it stood."""
        setting = Setting(timestamp=memory.timestamp, metadata=memory.metadata, title=title_of(memory.text))
        if memory.source is None:
            return memory, setting
        found = await self.workspace.preceding(memory.source, memory_id=replaced)
        if found is None:
            return memory, setting
        return attrs.evolve(memory, after=found.first), attrs.evolve(setting, before=found.text)
