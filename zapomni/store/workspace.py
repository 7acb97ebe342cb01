"""A workspace: everything that can be done with the memories in it.

This is the store's public face; each method is one line that leads to the module that does it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.errors import NotFoundError
from zapomni.models import Filters
from zapomni.store import embedding, reading, rebuilding, reindexing, searching, statistics, trash, upkeep, writing
from zapomni.store.cards import content_hash
from zapomni.store.schema import prepare
from zapomni.store.values import storable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from zapomni.models import (
        EmbeddingModel,
        Follower,
        Memory,
        MemoryPage,
        MemoryResult,
        MemorySummary,
        NewChunk,
        NewMemory,
        Passage,
        Pending,
        Preceding,
        Scores,
        Statistics,
        Vocabulary,
        WorkspaceInfo,
    )
    from zapomni.store.rebuilding import Material
    from zapomni.store.space import Space
    from zapomni.store.writing import Draft

EVERYTHING = Filters()
SWEEP_SECONDS = 0.2
"""How long a write goes on clearing away what others left unfinished."""


@attrs.frozen
class Workspace:
    """One workspace of a store; a handle that costs nothing.

    Every method raises `NotFoundError` when there is no such workspace (the default one is always there),
    `ConfigError` when a newer Zapomni wrote it, and `DatabaseError`.
    """

    _space: Space

    @property
    def name(self) -> str:
        return self._space.name

    async def add(self, memory: NewMemory, chunks: Sequence[NewChunk]) -> MemoryResult:
        """Store a memory with its chunks; it is durable and found by the next search when this returns.

        Chunks cover the text in order and may overlap. The same id again, or without a key the same text again, is
        not written: the receipt says `duplicate` and names the first. With a key that is in use the earlier memory
        becomes history, unless nothing changed; the receipt says `replaced` and names its id, which stays.
        A large memory is written in batches that nobody sees before the last. Cancelled, it may have been stored,
        whole or not at all.
        """
        space = await self._write()
        return await writing.add(space, memory, chunks)

    @asynccontextmanager
    async def open_draft(self, memory: NewMemory, total: int, *, update: bool = False) -> AsyncIterator[Draft]:
        """Write a memory of `total` chunks, or with `update` its next version, as they are made.

        That is: `append` in order, then `publish`.

        What is not published at the end of the block leaves nothing; cancelled while it publishes, it may be stored.
        """
        space = await self._write()
        async with writing.open_draft(space, memory, total, update=update) as draft:
            yield draft

    async def update(self, memory: NewMemory, chunks: Sequence[NewChunk]) -> MemoryResult:
        """Give the memory of this id a new text or new metadata; what it was becomes history.

        The key and the time of creation stay. Raises `NotFoundError`. When nothing changed, nothing is written.
        """
        space = await self._write()
        return await writing.add(space, memory, chunks, update=True)

    async def get(self, memory_id: str, *, trashed: bool = False, damaged: bool = False) -> Memory:
        """Return a memory, with `trashed` also a deleted one, and with `damaged` what is left of one.

        Raises `NotFoundError`, and `DatabaseError` when the text is not what was stored.
        """
        await prepare(self._space)
        return await reading.get(self._space, memory_id, trashed=trashed, damaged=damaged)

    async def find_key(self, key: str) -> str | None:
        """Return the id of the memory that has a key."""
        await prepare(self._space)
        return await reading.find(self._space, self._space.keys.names(key), key) if storable(key) else None

    async def find_text(self, text: str) -> str | None:
        """Return the id of the memory without a key that has exactly this text."""
        await prepare(self._space)
        if not storable(text):
            return None
        text = content_hash(text)
        return await reading.find(self._space, self._space.keys.hashes(text), text)

    async def numbers(self, memory_id: str) -> range:
        """Return the numbers of a memory's passages; raises `NotFoundError`."""
        await prepare(self._space)
        card = await reading.find_card(self._space, memory_id)
        if card is None or card.deleted:
            raise NotFoundError(f"there is no memory {memory_id}")
        return card.numbers

    async def history(
        self, memory_id: str, *, limit: int | None = None, version: int | None = None
    ) -> tuple[Memory, ...]:
        """Return what a memory was before it was updated or replaced, latest first; raises `NotFoundError`.

        At most `limit` versions, and only the one of a number where it is given.
        """
        await prepare(self._space)
        return await reading.history(self._space, memory_id, limit=limit, version=version)

    async def delete(self, memory_id: str, *, now: datetime) -> None:
        """Take a memory out of every search and list; it can be restored until it is purged.

        Raises `NotFoundError`.
        """
        space = await self._write()
        await trash.delete(space, memory_id, now)

    async def restore(self, memory_id: str) -> None:
        """Bring a deleted memory back; its vectors are `pending` and have to be made again.

        Raises `NotFoundError` when it was purged, `ValidationError` when its key belongs to another memory by now.
        """
        space = await self._write()
        await trash.restore(space, memory_id)

    async def trashed(self, *, limit: int = 50) -> tuple[MemorySummary, ...]:
        """Return the deleted memories, last deleted first."""
        await prepare(self._space)
        return await reading.trashed(self._space, limit)

    async def purge(self, *, before: datetime) -> int:
        """Remove for good what was deleted before a moment, and whatever else is to be cleared away.

        Returns the number of memories; nothing of them is left in the store.
        """
        space = await self._write()
        return await trash.purge(space, before)

    async def list(self, *, filters: Filters = EVERYTHING, limit: int = 50, cursor: str | None = None) -> MemoryPage:
        """Return memories, last stored first; raises `ValidationError` for a cursor that is none."""
        await prepare(self._space)
        return await reading.listing(self._space, filters, limit, cursor)

    async def search_words(
        self,
        terms: Mapping[str, float],
        *,
        count: int | None,
        filters: Filters = EVERYTHING,
        k1: float = 0.9,
        b: float = 0.4,
    ) -> Scores:
        """Return the best chunks (all, when `count` is None) by BM25 of terms with weights."""
        await prepare(self._space)
        return await searching.search_words(self._space, terms, count=count, filters=filters, k1=k1, b=b)

    async def vocabulary(self, terms: Iterable[str]) -> Vocabulary:
        """Return how many chunks hold each of the terms, how many there are, and what made their vectors."""
        await prepare(self._space)
        return await searching.vocabulary(self._space, terms)

    async def count(self, filters: Filters = EVERYTHING) -> int:
        """Return how many memories pass a filter."""
        await prepare(self._space)
        return await searching.count(self._space, filters)

    async def search_vectors(
        self, vector: NDArray[np.float32], model: EmbeddingModel, *, count: int, filters: Filters = EVERYTHING
    ) -> Scores:
        """Return the chunks nearest to a vector by cosine; raises `ConfigError` when another model made theirs."""
        await prepare(self._space)
        return await searching.search_vectors(self._space, vector, model, count=count, filters=filters)

    async def similarities(self, vector: NDArray[np.float32], model: EmbeddingModel, numbers: Iterable[int]) -> Scores:
        """Return the cosines of given chunks, best first, as far as they have vectors."""
        await prepare(self._space)
        return await searching.similarities(self._space, vector, model, numbers)

    async def passages(self, numbers: Iterable[int]) -> tuple[Passage, ...]:
        """Return chunks by number with their memories' data, in the order given; what is gone is left out."""
        await prepare(self._space)
        return tuple(await reading.passages(self._space, numbers))

    async def preceding(self, source: str, *, memory_id: str | None = None) -> Preceding | None:
        """Return what the next memory of a source will stand after, or the next version of a given one."""
        return await reindexing.preceding(await self._write(), source, memory_id)

    async def followers(self, memory_id: str) -> Sequence[Follower]:
        """Return the memories that are found by words that stand before them no longer, because of this one.

        Something became of it: it was updated, deleted or restored. Each of them is to be reindexed.
        """
        return await reindexing.followers(await self._write(), memory_id)

    async def stale(self) -> Sequence[Follower]:
        """Return some of the memories that are found by words of deleted ones, or of what is history."""
        return await reindexing.stale(await self._write())

    async def reindex(
        self, follower: Follower, old: Mapping[str, int], new: Mapping[str, int], *, gained: int, length: int
    ) -> bool:
        """Let a memory's first passage be found by other terms, of this length in words, `gained` more than before.

        Nothing else of the memory changes, and it is no new version. False, when it was changed meanwhile.
        """
        space = await self._write()
        return await reindexing.reindex(space, follower, old, new, gained=gained, length=length)

    async def tags(self) -> dict[str, int]:
        """Return every tag in use, and how many memories have it."""
        await prepare(self._space)
        return await statistics.tags(self._space)

    async def info(self) -> WorkspaceInfo:
        """Return how much is in the workspace."""
        await prepare(self._space)
        return await statistics.info(self._space)

    async def statistics(self) -> Statistics:
        """Return what is in the workspace and what it costs."""
        await prepare(self._space)
        return await statistics.statistics(self._space)

    async def model(self) -> EmbeddingModel | None:
        """Return what made the vectors that are searched; None while there are none."""
        await prepare(self._space)
        return (await self._space.about()).model

    async def pending(self, model: EmbeddingModel, *, limit: int = 100, after: int = 0) -> Pending:
        """Return the next passages that have no vector of a model yet; `after` is the last number seen."""
        await prepare(self._space)
        return await embedding.pending(self._space, model, limit, after)

    async def add_vectors(self, model: EmbeddingModel, owing: Pending, vectors: Sequence[NDArray[np.float32]]) -> int:
        """Give pending passages their vectors; return how many were still lacking one. At most about 100."""
        space = await self._write()
        return await embedding.add_vectors(space, model, owing, vectors)

    async def sweep(self) -> int:
        """Clear away what writers that died have left; return how many memories were only begun."""
        return await upkeep.sweep(await self._write())

    async def begin_reembedding(self, model: EmbeddingModel) -> int:
        """Start, or go on, making vectors of another model; return how many are lacking.

        Fill them with `pending` and `add_vectors`, then `finish_reembedding`. Searches use the old ones until then.
        """
        space = await self._write()
        return await embedding.begin(space, model)

    async def finish_reembedding(self, model: EmbeddingModel) -> bool:
        """Search by the new vectors from now on; False, and nothing done, while some are lacking."""
        space = await self._write()
        return await embedding.finish(space, model)

    async def rebuild(
        self,
        count: Callable[[Material], Awaitable[Sequence[NewChunk]]],
        progress: Callable[[int, int], Awaitable[None]],
    ) -> int:
        """Make anew what words the passages are found by, and note that all vectors are lacking; return how many.

        `progress` hears how many memories of how many are done. Interrupted, it leaves the words as they were.
        """
        space = await self._write()
        return await rebuilding.rebuild(space, count, progress)

    async def _write(self) -> Space:
        """Return the workspace for somebody who is going to write."""
        space = attrs.evolve(self._space, fresh=True)
        await prepare(space)
        if space.name not in space.swept:
            space.swept.add(space.name)
            with trio.move_on_after(SWEEP_SECONDS) as scope:
                await upkeep.sweep(space)
            if scope.cancelled_caught:  # there is much of it: the next who writes goes on
                space.swept.discard(space.name)
        return space
