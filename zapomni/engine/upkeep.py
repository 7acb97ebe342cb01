"""Work that nobody waits for: vectors that come later, and what was deleted long enough ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.errors import DatabaseError, EmbeddingError, NotFoundError
from zapomni.log import get_logger
from zapomni.models import EmbeddingModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zapomni.embed import Embedder
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

    Progress = Callable[[float, float | None, str | None], Awaitable[None]]

BATCH = 100
RETRY_SECONDS = 30.0
PURGE_SECONDS = 3600.0

log = get_logger("engine")


async def embed_pending(workspace: Workspace, embedder: Embedder) -> int:
    """Make the vectors that passages of a workspace lack; return how many. Raises `EmbeddingError`."""
    await embedder.ready()
    model = EmbeddingModel(embedder.name, embedder.dimension)
    return await _fill(workspace, embedder, model, None, 0)


async def reembed(workspace: Workspace, embedder: Embedder, progress: Progress | None = None) -> int:
    """Make all vectors of a workspace anew with another model; return how many were made.

    Searching goes on with the old ones until the last is made, and what is written meanwhile gets both.
    """
    await embedder.ready()
    model = EmbeddingModel(embedder.name, embedder.dimension)
    made = 0
    total = await workspace.begin_reembedding(model)
    while not await workspace.finish_reembedding(model):
        made += await _fill(workspace, embedder, model, progress, total)
    return made


async def _fill(
    workspace: Workspace, embedder: Embedder, model: EmbeddingModel, progress: Progress | None, total: int
) -> int:
    done, last = 0, 0
    while passages := await workspace.pending(model, limit=BATCH, after=last):
        vectors = await embedder.embed_documents([passage.text for passage in passages])
        await workspace.add_vectors(
            model, {passage.number: vector for passage, vector in zip(passages, vectors, strict=True)}
        )
        last = passages[-1].number
        done += len(passages)
        if progress is not None:
            await progress(done, max(total, done), f"{done:,} of {max(total, done):,} passages embedded")
    return done


@attrs.frozen
class Upkeep:
    """The tasks in the background of an engine; each goes on whatever happens to the other."""

    store: Store
    embedder: Embedder
    retention: timedelta

    async def purge_for_ever(self) -> None:
        """Remove for good what was deleted before the retention began, now and every hour."""
        while True:
            try:
                for info in await self.store.list_workspaces():
                    if info.trashed:
                        await self.store.workspace(info.name).purge(before=datetime.now(UTC) - self.retention)
            except (DatabaseError, NotFoundError) as error:
                log.warning("purge_failed", error=str(error))
            await trio.sleep(PURGE_SECONDS)

    async def embed_deferred(self) -> None:
        """Make all vectors that are lacking, however often the embedder has to be asked."""
        while True:
            try:
                for info in await self.store.list_workspaces():
                    if info.pending:
                        made = await embed_pending(self.store.workspace(info.name), self.embedder)
                        log.info("deferred_embedded", workspace=info.name, passages=made)
            except (EmbeddingError, DatabaseError, NotFoundError) as error:
                log.warning("deferred_embedding_failed", error=str(error))
            else:
                return
            await trio.sleep(RETRY_SECONDS)
