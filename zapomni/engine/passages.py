"""From a text to the passages that the store takes: cut, counted and embedded.

Cutting, counting and the bundled model are work for the processor, so they happen in threads, a batch at a time: the
loop goes on answering others, and a cancelled call stops with its batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import trio

from zapomni.chunking import chunk
from zapomni.errors import EmbeddingError
from zapomni.log import get_logger
from zapomni.models import EmbeddingModel, NewChunk
from zapomni.store import writing
from zapomni.terms import indexed_terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from zapomni.embed import Embedder
    from zapomni.models import Chunk

WHOLE = writing.BATCH
"""Passages of a memory that is written at once; a larger one is written in batches."""
BATCH = 32
"""Passages that are made and written together: every question to the store waits for one batch at the most."""
SHORT = 2000  # characters that are cut on the loop's own thread: a hop to another costs more

log = get_logger("engine")


@attrs.frozen
class Setting:
    """What the passages of one memory have in common."""

    before: str = ""
    """The text before it of the same source; an answer often names nothing of the question before it."""
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    title: str = ""
    """What the memory's first line says, which its later passages are about, too."""


async def cut(text: str, *, tokens: int, overlap: int) -> list[Chunk]:
    """Cut a text into passages."""
    if len(text) <= SHORT:
        return chunk(text, tokens=tokens, overlap=overlap)
    return await trio.to_thread.run_sync(lambda: chunk(text, tokens=tokens, overlap=overlap))


def batches(chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
    for start in range(0, len(chunks), BATCH):
        yield chunks[start : start + BATCH]


async def model_of(embedder: Embedder, *, deferrable: bool) -> EmbeddingModel | None:
    """Return the model that vectors will be made with, or None where they have to come later.

    Raises `EmbeddingError` where they must not.
    """
    try:
        await embedder.ready()
    except EmbeddingError as error:
        if not deferrable:
            raise
        log.warning("embedding_deferred", error=str(error))
        return None
    return EmbeddingModel(embedder.name, embedder.dimension)


async def prepare(chunks: Sequence[Chunk], before: str, setting: Setting, embedder: Embedder | None) -> list[NewChunk]:
    """Return a batch of passages as the store takes them; without an embedder they have no vectors."""

    def count() -> list[NewChunk]:
        texts = [before, *(chunk.text for chunk in chunks)]
        return [_counted(chunk, context, setting) for chunk, context in zip(chunks, texts, strict=False)]

    short = sum(len(chunk.text) for chunk in chunks) <= SHORT
    counted = count() if short else await trio.to_thread.run_sync(count)
    if embedder is None:
        return counted
    vectors = await embedder.embed_documents([chunk.text for chunk in chunks])
    return [attrs.evolve(chunk, vector=vector) for chunk, vector in zip(counted, vectors, strict=True)]


def _counted(piece: Chunk, context: str, setting: Setting) -> NewChunk:
    terms = indexed_terms(
        piece.text,
        context=context,
        title=setting.title if piece.index > 1 else "",  # the first two have it in themselves or in their context
        timestamp=setting.timestamp,
        metadata=setting.metadata,
    )
    return NewChunk(piece.start, piece.end, terms.counts, terms.length)
