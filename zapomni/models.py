"""The values that pass between the layers: frozen, plain, and free of any I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

DEFAULT_WORKSPACE = "default"
MAX_TEXT_LENGTH = 10_000_000
PREVIEW_LENGTH = 100


def preview_of(text: str) -> str:
    """Return the first characters of a text, with an ellipsis where some were left out."""
    return text if len(text) <= PREVIEW_LENGTH else text[:PREVIEW_LENGTH] + "..."


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags in a memory's metadata; one alone may be given as a text."""
    tags = metadata.get("tags") or ()
    return tuple(map(str, tags)) if isinstance(tags, list | tuple) else (str(tags),)


@attrs.frozen
class Chunk:
    """A passage of a memory: ``text == memory.text[start:end]``, offsets in code points."""

    index: int
    start: int
    end: int
    text: str


@attrs.frozen
class Memory:
    """A stored memory, as it was given."""

    id: str
    text: str
    metadata: Mapping[str, Any]
    created_at: datetime
    """When it was stored."""
    timestamp: datetime | None = None
    """When it happened, where the metadata says so."""
    key: str | None = None
    version: int = 1
    """Counts up with every update; older versions stay readable as history."""
    chunks: int = 1
    updated_at: datetime | None = None
    """When this version was stored, where it is not the first."""
    deleted_at: datetime | None = None
    """When it was put into the trash, where it was."""


@attrs.frozen
class EmbeddingModel:
    """What vectors are made by; vectors of two models are never mixed."""

    name: str
    dimension: int


@attrs.frozen(kw_only=True)
class NewMemory:
    """A memory to be stored; its passages are given beside it."""

    id: str
    """A UUID of the caller's choice: writing the same one again changes nothing."""
    text: str
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    """JSON of any depth, kept as given."""
    created_at: datetime
    timestamp: datetime | None = None
    key: str | None = None
    tags: tuple[str, ...] = ()
    source: str | None = None
    after: int | None = None
    """The first chunk of the memory whose words its first passage is also found by."""
    model: EmbeddingModel | None = None
    """What made the vectors; None when all of them come later."""
    distinct: bool = False
    """Write it even where the same text is there already, or as a version that changes nothing."""
    expected_version: int | None = None
    """The version that an update was made from; while another is there, it is refused. None for whichever is there."""


@attrs.frozen(eq=False)
class NewChunk:
    """A passage to be stored: where it stands in the text, and what finds it."""

    start: int
    end: int
    terms: Mapping[str, int]
    """How often each word counts; 255 is the most that is told apart."""
    length: int
    """The number of words, for BM25."""
    vector: NDArray[np.float32] | None = None
    """None when it comes later; the passage is found by its words meanwhile."""


@attrs.frozen
class Passage:
    """A stored chunk with what a reader wants to know of its memory."""

    number: int
    """Names the chunk in its workspace; the neighbours in the same memory are one less and one more."""
    memory_id: str
    index: int
    start: int
    end: int
    text: str
    metadata: Mapping[str, Any]
    created_at: datetime
    timestamp: datetime | None = None
    source: str | None = None
    key: str | None = None
    version: int = 1
    chunks: int = 1
    """How many passages the memory has."""


@attrs.frozen
class Pending:
    """Passages that lack a vector."""

    incarnation: str
    """Whose passages they are: a workspace that is made anew under the same name numbers its own from the beginning."""
    passages: tuple[Passage, ...]


@attrs.frozen
class Vocabulary:
    """How common some terms are in a workspace."""

    frequencies: Mapping[str, int]
    """How many chunks hold each; those on their way in or out count, too."""
    chunks: int
    """How many there are in all."""
    model: EmbeddingModel | None
    """What made the vectors that are searched; None while there are none."""


@attrs.frozen
class Preceding:
    """The memory that stands before another of the same source."""

    first: int
    """Its first chunk."""
    text: str
    """The beginning of it."""


@attrs.frozen
class Follower:
    """A memory that stands after another one now than the one whose words it is found by."""

    memory_id: str
    first: int
    text: str
    """Its first passage."""
    metadata: Mapping[str, Any]
    timestamp: datetime | None
    context: str
    """The words of another that it is found by."""
    preceding: Preceding | None
    """Whose words it should be found by."""


@attrs.frozen(eq=False)
class Scores:
    """Chunk numbers and their scores, best first."""

    numbers: NDArray[np.uint32]
    values: NDArray[np.float32]
    totals: NDArray[np.float32] | None = None
    """By number, the score of every chunk that was looked at, those not among the best included."""


@attrs.frozen
class MemorySummary:
    """A memory in a list: everything but the whole text."""

    id: str
    preview: str
    length: int
    """Of the text, in code points."""
    metadata: Mapping[str, Any]
    created_at: datetime
    timestamp: datetime | None = None
    key: str | None = None
    version: int = 1
    chunks: int = 1
    updated_at: datetime | None = None
    deleted_at: datetime | None = None


@attrs.frozen
class MemoryPage:
    """A part of a list; `cursor` continues it, and is None at the end."""

    memories: tuple[MemorySummary, ...] = ()
    cursor: str | None = None


@attrs.frozen
class MemoryResult:
    """The receipt for a stored memory: it is durable when this exists."""

    memory_id: str
    chunks_created: int
    text_preview: str
    duplicate: bool = False
    """The same text was there already, without a key or with the same; `memory_id` is the first one's."""
    replaced: bool = False
    """An earlier memory of the same key became history."""


@attrs.frozen
class Filters:
    """What a search or a listing is limited to; an empty filter lets everything through."""

    tags: tuple[str, ...] = ()
    """Any of these."""
    all_tags: tuple[str, ...] = ()
    """Every one of these."""
    source: str | None = None
    date_from: datetime | None = None
    """Inclusive, on `timestamp`, or `created_at` where there is none."""
    date_to: datetime | None = None
    """Exclusive."""
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    """Top-level equality."""

    def __bool__(self) -> bool:
        return self != Filters()


@attrs.frozen
class SearchHit:
    """One memory that answers a query, with its best passage."""

    memory_id: str
    text: str
    """The best passage, verbatim."""
    score: float
    created_at: datetime
    timestamp: datetime | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    start: int = 0
    end: int = 0
    """Where in the memory the passage stands."""
    chunks: int = 1
    """How many passages the memory has."""


@attrs.frozen
class SearchResult:
    """The answer to a query; an empty one is an answer, too."""

    hits: tuple[SearchHit, ...] = ()
    notice: str | None = None
    """Something the reader should know, such as that only words could be searched."""
    truncated: bool = False
    """Hits were cut to fit the token budget."""


@attrs.frozen
class WorkspaceInfo:
    """A workspace and how much is in it."""

    name: str
    memories: int = 0
    chunks: int = 0
    trashed: int = 0
    """Deleted memories that can still be restored."""
    pending: int = 0
    """Passages that have no vector yet."""


@attrs.frozen
class Statistics:
    """What is stored, and what it costs."""

    workspace: str
    total_memories: int
    total_chunks: int
    workspaces: tuple[WorkspaceInfo, ...] = ()
    bytes_in_memory: int = 0
    bytes_on_disk: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    embedding_model: str = ""
    embedding_dimension: int = 0
    latency_ms: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    """Per operation, percentiles since the start."""
