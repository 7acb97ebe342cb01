"""An engine to test with: the real one on the real store, with a model that is as simple as can be."""

from __future__ import annotations

from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import trio

from zapomni.engine import MemoryEngine
from zapomni.errors import EmbeddingError
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from numpy.typing import NDArray

    from zapomni.config import Settings
    from zapomni.embed import Embedder

SAME = {"automobile": "car", "physician": "doctor", "feline": "cat"}
"""Words that mean the same to the model, and share no letters that a search by words would meet in."""


class FakeEmbedder:
    """Every word has its direction, a text the sum of them. It can be down, and it can be kept waiting."""

    weight = 0.4
    multilingual = True

    def __init__(self, name: str = "fake", dimension: int = 32) -> None:
        self.name = name
        self.dimension = dimension
        self.down = False
        self.gate = trio.Event()
        self.gate.set()
        self.waiting = trio.Event()
        """Somebody has come to a gate that is closed."""
        self.embedded = 0

    async def ready(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.down:
            raise EmbeddingError("the model is down")

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        await self.ready()
        if not self.gate.is_set():
            self.waiting.set()
            await self.gate.wait()
        self.embedded += len(texts)
        return np.stack([self._vector(text) for text in texts])

    async def embed_query(self, text: str, *, importance: Mapping[str, float] | None = None) -> NDArray[np.float32]:
        await self.ready()
        return self._vector(text)

    def close_gate(self) -> None:
        self.gate, self.waiting = trio.Event(), trio.Event()

    def _vector(self, text: str) -> NDArray[np.float32]:
        vector = np.full(self.dimension, 0.01, np.float32)
        for word in text.lower().split():
            vector += self._direction(SAME.get(word.strip(".,?!"), word.strip(".,?!")))
        unit: NDArray[np.float32] = vector / np.linalg.norm(vector)
        return unit

    def _direction(self, word: str) -> NDArray[np.float32]:
        seed = int.from_bytes(blake2b((self.name + word).encode("utf-8", "surrogatepass"), digest_size=8).digest())
        return np.random.default_rng(seed).normal(size=self.dimension).astype(np.float32)


@asynccontextmanager
async def open_engine_with(settings: Settings, embedder: Embedder) -> AsyncIterator[MemoryEngine]:
    """Open an engine as `open_engine` does, but with this model."""
    async with open_store(settings) as store, trio.open_nursery() as background:
        yield MemoryEngine(settings, store, embedder, background)
        background.cancel_scope.cancel()


async def found(engine: MemoryEngine, query: str, limit: int = 10) -> list[str]:
    """Return the texts that a search finds, best first."""
    with trio.fail_after(30):
        return [hit.text for hit in (await engine.search_memory(query, limit=limit)).hits]


async def by_words(engine: MemoryEngine, term: str, workspace: str | None = None) -> set[str]:
    """Return the ids of the memories that the word index holds a term for, whatever else finds them."""
    space = engine._store.workspace(workspace or engine.current_workspace)
    scores = await space.search_words({term: 1.0}, count=None)
    return {passage.memory_id for passage in await space.passages(scores.numbers.tolist())}
