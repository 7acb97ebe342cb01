"""The engine's public face: what can be done with memories, per workspace.

Nothing here waits for the database or the model before the first call, so that a client's handshake does not either.
"""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
import trio

from zapomni.embed import open_embedder
from zapomni.engine.latency import Latency
from zapomni.errors import ConfigError, DatabaseError, EmbeddingError, OutdatedError, ValidationError, ZapomniError
from zapomni.log import get_logger
from zapomni.models import DEFAULT_WORKSPACE, Filters
from zapomni.store.store import open_store
from zapomni.team import open_team

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping

    from zapomni.config import Settings
    from zapomni.embed import Embedder
    from zapomni.engine.adding import Writer
    from zapomni.engine.finding import Finder
    from zapomni.engine.transfer import Imported
    from zapomni.engine.upkeep import Upkeep
    from zapomni.models import (
        Memory,
        MemoryPage,
        MemoryResult,
        MemorySummary,
        SearchResult,
        Statistics,
        WorkspaceInfo,
    )
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace
    from zapomni.transfer import Record

    Progress = Callable[[float, float | None, str | None], Awaitable[None]]

EVERYTHING = Filters()
ATTEMPTS = 5  # at a change while others change the same memory
REFRESH_SECONDS = 1.0
A_LIFETIME = 36_500  # days; more than that cannot be taken off today's date

log = get_logger("engine")


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[MemoryEngine]:
    """Open the engine; at the end everything unwinds in the order in which it was opened.

    Raises `ConfigError` for settings that cannot work.
    """
    async with open_store(settings) as store, open_embedder(settings) as embedder, open_team() as background:
        yield MemoryEngine(settings, store, embedder, background)
        background.cancel_scope.cancel()


@attrs.define
class MemoryEngine:
    """Remembers and finds again.

    Every method takes the workspace it is about, and uses the current one where none is named. Besides what they say,
    all raise `DatabaseError`, `NotFoundError` for a workspace that does not exist, and `ConfigError` where somebody
    has to change something first.
    """

    settings: Settings
    _store: Store
    _embedder: Embedder
    _background: trio.Nursery
    current_workspace: str = attrs.field(init=False)
    _latency: Latency = attrs.field(factory=Latency, init=False)
    _prepared: bool = attrs.field(default=False, init=False)
    _behind: bool = attrs.field(default=False, init=False)
    """Passages may lack vectors that no task has looked for yet."""
    _catching_up: bool = attrs.field(default=False, init=False)
    _stale: dict[tuple[str, str], None] = attrs.field(factory=dict, init=False)
    """Workspaces and memories: what follows these is still found by words that do not stand before it any more."""
    _refreshing: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.current_workspace = self.settings.workspace

    async def ready(self) -> None:
        """Start the database and load the model ahead of the first call, and begin the work in the background.

        What fails is logged: the call that needs it will say so to its caller.
        """
        try:
            await self._store.ready()
            await self._prepare()
            await self._embedder.ready()
        except ZapomniError as error:
            log.warning("not_ready", error=str(error))
        self._background.start_soon(self._upkeep().purge_for_ever, self._catch_up)

    async def add_memory(
        self,
        text: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        workspace: str | None = None,
        key: str | None = None,
        progress: Progress | None = None,
    ) -> MemoryResult:
        """Store a text, verbatim. It is durable, and found by the next search, when this returns.

        The same text again, without a key, returns the first memory's id and says so. A key that is in use replaces
        its memory, which stays readable as history. Cancelled, it may have been stored, whole or not at all; adding
        the text again returns its id. Raises `ValidationError`, `EmbeddingError`.
        """
        with self._latency.timed("add"):
            return await (await self._writer(workspace)).add(text, metadata or {}, key=key, progress=progress)

    async def search_memory(
        self,
        query: str,
        *,
        limit: int = 10,
        filters: Filters = EVERYTHING,
        workspace: str | None = None,
        max_tokens: int | None = None,
    ) -> SearchResult:
        """Return the memories that answer a query best; nothing found is an answer, too."""
        with self._latency.timed("search"):
            finder = await self._finder(workspace)
            return await finder.search(query, limit=limit, filters=filters, max_tokens=max_tokens)

    async def get_memory(self, memory_id: str, *, workspace: str | None = None) -> Memory:
        """Return a memory, whole. Raises `NotFoundError`."""
        return await (await self._workspace(workspace)).get(memory_id)

    async def history(
        self,
        memory_id: str,
        *,
        limit: int | None = None,
        version: int | None = None,
        workspace: str | None = None,
    ) -> tuple[Memory, ...]:
        """Return what a memory was before it was changed, latest first. Raises `NotFoundError`.

        At most `limit` versions, and only the one of a number where it is given.
        """
        return await (await self._workspace(workspace)).history(memory_id, limit=limit, version=version)

    async def update_memory(
        self,
        memory_id: str,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        workspace: str | None = None,
        progress: Progress | None = None,
    ) -> MemoryResult:
        """Give a memory a new text, or new metadata in place of all the old, or both; what it was becomes history.

        Raises `NotFoundError`, `ValidationError`, `EmbeddingError`.
        """
        if text is None and metadata is None:
            raise ValidationError("give a new text, new metadata, or both")
        from zapomni.engine.adding import new_memory

        with self._latency.timed("update"):
            writer = await self._writer(workspace)
            if text is not None and metadata is not None:
                return await writer.change(new_memory(memory_id, text, metadata), progress)
            for attempt in range(1, ATTEMPTS + 1):
                old = await writer.workspace.get(memory_id)
                new = old.text if text is None else text, old.metadata if metadata is None else metadata
                try:
                    # The half that was not given has to be the one that is there when the other is written.
                    return await writer.change(new_memory(memory_id, *new, expected_version=old.version), progress)
                except OutdatedError:
                    if attempt == ATTEMPTS:
                        raise
            raise AssertionError("the last attempt returns or raises")

    async def delete_memory(self, memory_id: str, *, workspace: str | None = None) -> Memory:
        """Take a memory out of every search and list, and return it; it can be restored within the retention.

        Raises `NotFoundError`.
        """
        space = await self._workspace(workspace)
        memory = await space.get(memory_id, damaged=True)
        now = datetime.now(UTC)
        await space.delete(memory_id, now=now)
        await self._refresh(space, memory_id)
        return attrs.evolve(memory, deleted_at=now)

    async def restore_memory(self, memory_id: str, *, workspace: str | None = None) -> Memory:
        """Bring a deleted memory back. Raises `NotFoundError` once it is gone for good, and `ValidationError`."""
        space = await self._workspace(workspace)
        done = False
        try:
            await space.restore(memory_id)
            await self._refresh(space, memory_id)
            done = await self._embed(space, memory_id)
        finally:  # also of what was cancelled: it may be back
            if not done:  # found by its words meanwhile
                self._catch_up()
        return await space.get(memory_id)

    async def list_memories(
        self,
        *,
        filters: Filters = EVERYTHING,
        limit: int = 20,
        cursor: str | None = None,
        workspace: str | None = None,
    ) -> MemoryPage:
        """Return memories, last stored first. Raises `ValidationError` for a cursor that is none."""
        return await (await self._workspace(workspace)).list(filters=filters, limit=limit, cursor=cursor)

    async def trashed(self, *, limit: int = 20, workspace: str | None = None) -> tuple[MemorySummary, ...]:
        """Return the deleted memories that can still be restored, last deleted first."""
        return await (await self._workspace(workspace)).trashed(limit=limit)

    async def tags(self, *, workspace: str | None = None) -> dict[str, int]:
        """Return every tag in use, and how many memories have it."""
        return await (await self._workspace(workspace)).tags()

    async def get_stats(self, *, workspace: str | None = None) -> Statistics:
        """Return what is stored, what it costs, and how long calls have taken since the start."""
        found = await (await self._workspace(workspace)).statistics()
        return attrs.evolve(
            found, workspaces=await self._store.list_workspaces(), latency_ms=self._latency.percentiles()
        )

    async def create_workspace(self, name: str) -> bool:
        """Make a workspace; return whether it is new. Raises `ValidationError` for what is no name."""
        return await self._store.create_workspace(name)

    async def list_workspaces(self) -> tuple[WorkspaceInfo, ...]:
        """Return all workspaces by name, with what is in them."""
        await self._prepare()
        return await self._store.list_workspaces()

    async def workspace_info(self, name: str | None = None) -> WorkspaceInfo:
        """Return how much is in a workspace."""
        return await (await self._workspace(name)).info()

    async def use_workspace(self, name: str) -> WorkspaceInfo:
        """Make a workspace the current one of this engine. Raises `NotFoundError`."""
        found = await self.workspace_info(name)
        self.current_workspace = found.name
        return found

    async def delete_workspace(self, name: str) -> WorkspaceInfo:
        """Remove a workspace and everything in it for good; return what was in it. Raises `NotFoundError`."""
        held = await self._store.delete_workspace(name)
        if self.current_workspace == held.name:
            self.current_workspace = DEFAULT_WORKSPACE
        return held

    async def clear_workspace(self, name: str) -> WorkspaceInfo:
        """Remove every memory of a workspace for good and keep the workspace; return what was in it."""
        return await self._store.empty_workspace(name)

    async def reembed(self, *, workspace: str | None = None, progress: Progress | None = None) -> int:
        """Make all vectors of a workspace anew with the model of the settings; return how many were made.

        Searching goes on meanwhile. Raises `EmbeddingError`.
        """
        from zapomni.engine.upkeep import reembed

        return await reembed(await self._workspace(workspace), self._embedder, progress)

    async def rebuild(self, *, progress: Progress, workspace: str | None = None) -> int:
        """Make everything that memories of a workspace are found by anew from their texts; return how many passages.

        Adding and searching go on meanwhile. Raises `EmbeddingError`.
        """
        from zapomni.engine.upkeep import rebuild

        return await rebuild(await self._workspace(workspace), self._embedder, progress)

    async def export_memories(self, *, workspace: str | None = None) -> AsyncGenerator[Record]:
        """Yield every memory of a workspace with its history, first stored first; those in the trash are left out."""
        from zapomni.engine.transfer import export

        async with aclosing(export(await self._workspace(workspace))) as records:
            async for record in records:
                yield record

    async def import_memory(self, record: Record, *, workspace: str | None = None, dry_run: bool = False) -> Imported:
        """Bring a memory in from elsewhere; where it comes with its id, as it was there, history included.

        What is here already stays. A dry run writes nothing, and takes a workspace that does not exist as an empty
        one. Raises `ValidationError`, `EmbeddingError`.
        """
        from zapomni.engine.transfer import Importer

        importer = Importer(await self._writer(workspace))
        return await (importer.judge(record) if dry_run else importer.bring_in(record))

    async def _workspace(self, name: str | None) -> Workspace:
        await self._prepare()
        return self._store.workspace(name or self.current_workspace)

    async def _prepare(self) -> None:
        """Make the workspace of the settings, where it is not there yet: naming it there is asking for it."""
        if not self._prepared:
            name = self._store.workspace(self.settings.workspace).name
            if name != DEFAULT_WORKSPACE:
                await self._store.create_workspace(name)
            if self.current_workspace == self.settings.workspace:  # as it is spelt everywhere else
                self.current_workspace = name
            self._prepared = True

    async def _writer(self, workspace: str | None) -> Writer:
        from zapomni.engine.adding import Writer

        return Writer(
            await self._workspace(workspace), self._embedder, self.settings, self._catch_up, self._refresh_later
        )

    async def _finder(self, workspace: str | None) -> Finder:
        from zapomni.engine.finding import Finder

        return Finder(await self._workspace(workspace), self._embedder)

    async def _embed(self, space: Workspace, memory_id: str) -> bool:
        """Make the vectors that a memory lacks; False when that has to be done later."""
        from zapomni.engine.upkeep import embed_memory

        try:
            return await embed_memory(space, self._embedder, memory_id)
        except (EmbeddingError, ConfigError, DatabaseError) as error:
            log.warning("embedding_deferred", error=str(error))
            return False

    def _catch_up(self) -> None:
        """Make vectors that are lacking in the background, one task at a time."""
        self._behind = True
        if not self._catching_up:
            self._catching_up = True
            self._background.start_soon(self._make_deferred_vectors)

    async def _make_deferred_vectors(self) -> None:
        try:
            while self._behind:
                self._behind = False
                await self._upkeep().embed_deferred()
        finally:
            self._catching_up = False

    async def _refresh(self, space: Workspace, memory_id: str) -> None:
        from zapomni.engine.context import PATIENCE, refresh

        if not await refresh(space, memory_id, patience=PATIENCE):
            self._refresh_later(space, memory_id)

    def _refresh_later(self, space: Workspace, memory_id: str) -> None:
        """Index anew in the background what follows a memory, one after another."""
        self._stale[space.name, memory_id] = None
        if not self._refreshing:
            self._refreshing = True
            self._background.start_soon(self._refresh_stale)

    async def _refresh_stale(self) -> None:
        try:
            while self._stale:
                name, memory_id = next(iter(self._stale))
                del self._stale[name, memory_id]
                if not await self._upkeep().refresh(name, memory_id):
                    self._stale[name, memory_id] = None
                    await trio.sleep(REFRESH_SECONDS)
        finally:
            self._refreshing = False

    def _upkeep(self) -> Upkeep:
        from zapomni.engine.upkeep import Upkeep

        retention = timedelta(days=min(self.settings.retention_days, A_LIFETIME))
        return Upkeep(self._store, self._embedder, retention)
