"""Work that nobody waits for: vectors that come later, and what was deleted long enough ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.engine.context import refresh, refresh_stale
from zapomni.engine.passages import WHOLE, Setting, prepare
from zapomni.errors import ConfigError, DatabaseError, EmbeddingError, NotFoundError
from zapomni.log import get_logger
from zapomni.models import EmbeddingModel
from zapomni.terms import title_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zapomni.embed import Embedder
    from zapomni.models import NewChunk, Pending, WorkspaceInfo
    from zapomni.store.rebuilding import Material
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

    Progress = Callable[[float, float | None, str | None], Awaitable[None]]

BATCH = 100
PAUSE_SECONDS = 1.0
RETRY_SECONDS = 30.0
PURGE_SECONDS = 3600.0
LEAST_RETENTION = timedelta(minutes=10)  # whoever began to write before a deletion may still use the deleted words

log = get_logger("engine")


async def embed_pending(workspace: Workspace, embedder: Embedder) -> int:
    """Make the vectors that passages of a workspace lack; return how many. Raises `EmbeddingError`."""
    await embedder.ready()
    model = EmbeddingModel(embedder.name, embedder.dimension)
    return await _fill(workspace, embedder, model, None, 0)


async def embed_memory(workspace: Workspace, embedder: Embedder, memory_id: str) -> bool:
    """Make the vectors that a memory lacks, unless it is a large one; return whether it has them now.

    Raises `EmbeddingError`.
    """
    numbers = await workspace.numbers(memory_id)
    if len(numbers) > WHOLE:
        return False
    await embedder.ready()
    model = EmbeddingModel(embedder.name, embedder.dimension)
    pending = await workspace.pending(model, limit=len(numbers), after=numbers.start - 1)
    own = tuple(passage for passage in pending.passages if passage.number in numbers)
    await _embed(workspace, embedder, model, attrs.evolve(pending, passages=own))
    return True


async def reembed(workspace: Workspace, embedder: Embedder, progress: Progress | None = None) -> int:
    """Make all vectors of a workspace anew with another model; return how many were made.

    Searching goes on with the old ones until the last is made, and what is written meanwhile gets both.
    """
    await embedder.ready()
    model = EmbeddingModel(embedder.name, embedder.dimension)
    total = await workspace.begin_reembedding(model)
    made = await _fill(workspace, embedder, model, progress, total)  # those that the same model owes, too
    while not await workspace.finish_reembedding(model):
        now = await _fill(workspace, embedder, model, progress, total)
        if not now:  # what is lacking belongs to memories that others are writing, or have left half written
            await workspace.sweep()
            await trio.sleep(PAUSE_SECONDS)
        made += now
    return made


async def rebuild(workspace: Workspace, embedder: Embedder, progress: Progress) -> int:
    """Make anew what memories are found by, words and vectors, from their texts; return how many passages that are."""

    async def count(material: Material) -> list[NewChunk]:
        setting = Setting(material.context, material.timestamp, material.metadata, title_of(material.beginning))
        return await prepare(material.chunks, material.context, setting, None)

    async def counting(done: int, total: int) -> None:
        await progress(done, total, f"the words of {done:,} of {total:,} memories counted")

    passages = await workspace.rebuild(count, counting)
    await reembed(workspace, embedder, progress)
    return passages


async def _fill(
    workspace: Workspace, embedder: Embedder, model: EmbeddingModel, progress: Progress | None, total: int
) -> int:
    done, last = 0, 0
    while (pending := await workspace.pending(model, limit=BATCH, after=last)).passages:
        await _embed(workspace, embedder, model, pending)
        last = pending.passages[-1].number
        done += len(pending.passages)
        if progress is not None:
            await progress(done, max(total, done), f"{done:,} of {max(total, done):,} passages embedded")
    return done


async def _embed(workspace: Workspace, embedder: Embedder, model: EmbeddingModel, pending: Pending) -> None:
    if pending.passages:
        vectors = await embedder.embed_documents([passage.text for passage in pending.passages])
        await workspace.add_vectors(model, pending, list(vectors))


async def purge(workspace: Workspace, before: datetime) -> int:
    """Remove for good what was deleted before a moment, and its words from what stood after it; return how many."""
    await refresh_stale(workspace)
    return await workspace.purge(before=before)


@attrs.frozen
class Upkeep:
    """The tasks in the background of an engine; each goes on whatever happens to the other."""

    store: Store
    embedder: Embedder
    retention: timedelta

    async def purge_for_ever(self, catch_up: Callable[[], None]) -> None:
        """Remove for good what was deleted before the retention began, and make what is lacking, now and every hour."""
        while True:
            catch_up()
            try:
                await self.store.finish_removals()
            except (ConfigError, DatabaseError) as error:
                log.warning("upkeep_failed", error=str(error))
            await self._for_each(lambda info: True, self._purge)  # what was never published is cleared away, too
            await trio.sleep(PURGE_SECONDS)

    async def embed_deferred(self) -> None:
        """Make all vectors that are lacking, however often the embedder has to be asked."""
        while True:
            if await self._for_each(lambda info: info.pending, self._embed):
                return
            await trio.sleep(RETRY_SECONDS)

    async def refresh(self, name: str, memory_id: str) -> bool:
        """Index anew what follows a memory; False when it is worth trying again."""
        try:
            return await refresh(self.store.workspace(name), memory_id)
        except (NotFoundError, ConfigError) as error:  # it is gone, or somebody has to change something first
            log.warning("upkeep_left_out", workspace=name, error=str(error))
            return True

    async def _purge(self, workspace: Workspace) -> int:
        return await purge(workspace, datetime.now(UTC) - max(self.retention, LEAST_RETENTION))

    async def _embed(self, workspace: Workspace) -> int:
        return await embed_pending(workspace, self.embedder)

    async def _for_each(
        self, wanted: Callable[[WorkspaceInfo], object], work: Callable[[Workspace], Awaitable[object]]
    ) -> bool:
        """Do some work on every workspace that wants it; False when it is worth trying again.

        Nobody waits for it, so that failures are logged, and one workspace's do not keep another waiting.
        """
        try:
            infos = [info for info in await self.store.list_workspaces() if wanted(info)]
        except (ConfigError, DatabaseError) as error:
            log.warning("upkeep_failed", error=str(error))
            return False
        done = True
        for info in infos:
            try:
                await work(self.store.workspace(info.name))
            except (NotFoundError, ConfigError) as error:  # it is gone, or somebody has to change something first
                log.warning("upkeep_left_out", workspace=info.name, error=str(error))
            except (DatabaseError, EmbeddingError) as error:
                log.warning("upkeep_failed", workspace=info.name, error=str(error))
                done = False
        return done
