"""A store to test with: small memories whose words and vectors follow from their text."""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from zapomni.models import EmbeddingModel, NewChunk, NewMemory
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from numpy.typing import NDArray

    from zapomni.config import Settings
    from zapomni.store.workspace import Workspace

MODEL = EmbeddingModel("letters", 8)
NOW = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
LATER = NOW + timedelta(days=1)


@asynccontextmanager
async def own_workspace(settings: Settings) -> AsyncIterator[Workspace]:
    """Open an empty workspace, for the examples of a property, which a fixture would serve only once."""
    async with open_store(settings) as store:
        name = f"test-{uuid.uuid4().hex}"
        await store.create_workspace(name)
        yield store.workspace(name)
        await store.delete_workspace(name)


async def latest_of(workspace: Workspace, source: str) -> str | None:
    """Return the text that came last from a source."""
    preceding = await workspace.preceding(source)
    return None if preceding is None else preceding.text


def vector_of(text: str, dimension: int = MODEL.dimension) -> NDArray[np.float32]:
    seed = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
    return np.random.default_rng(seed).normal(size=dimension).astype(np.float32)


def terms_of(text: str) -> dict[str, int]:
    words = text.split()
    return {word: words.count(word) for word in dict.fromkeys(words)}


def chunks_of(text: str, size: int = 40, *, overlap: int = 0, model: EmbeddingModel | None = MODEL) -> list[NewChunk]:
    """Cut a text into passages of some characters."""
    chunks = []
    for begin in range(0, len(text), size):
        start, end = max(0, begin - overlap), min(len(text), begin + size)
        words = terms_of(text[start:end])
        vector = None if model is None else vector_of(text[start:end], model.dimension)
        chunks.append(NewChunk(start, end, words, sum(words.values()), vector))
    return chunks


def memory_of(text: str, **fields: Any) -> NewMemory:
    return NewMemory(**{"id": str(uuid.uuid4()), "text": text, "created_at": NOW, "model": MODEL, **fields})
