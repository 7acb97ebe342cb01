"""The engine's ranking in memory, as a whole and with single steps of it left out or done otherwise.

Everything that ranks is the engine's own: passages, terms, vectors, hints and fusion, called with more or less to work
on. Only the store is left out: arrays are scored instead.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from zapomni.chunking import chunk
from zapomni.engine.finding import CANDIDATES
from zapomni.fusion import Candidate, fuse, vector_weight
from zapomni.models import Passage
from zapomni.store.reindexing import CONTEXT
from zapomni.terms import K1, LETTERS, B, document_terms, hints, importance, indexed_terms, query_terms, title_of, words
from zapomni.terms.indexing import UNIT
from zapomni.terms.words import tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from zapomni.config import Settings
    from zapomni.embed import Embedder

    type Search = Callable[[str], Awaitable[list[str]]]

DEPTH = 100
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECIPROCAL = 60  # the usual constant of reciprocal rank fusion


@attrs.frozen
class Steps:
    """How to rank; what the engine does, unless said otherwise."""

    words: bool = True
    vectors: bool = True
    context: bool = True
    """A passage is found by the words before it, too."""
    title: bool = True
    dates: bool = True
    metadata: bool = True
    rarity: bool = True
    """A query's vector weighs its words by how rare they are."""
    date_hint: bool = True
    speaker_hint: bool = True
    ranks: bool = False
    """Add up reciprocal ranks instead of scores."""
    vectors_of_context: bool = False
    """A passage's vector is also that of the passage before it."""
    weight: float | None = None
    """What vectors count against words, where it is not what the embedder says."""

    @property
    def terms(self) -> tuple[bool, ...]:
        """The part that decides what is indexed."""
        return self.context, self.title, self.dates, self.metadata


BOTH = "both"
VECTORS = Steps(words=False, date_hint=False, speaker_hint=False)
STEPS = {
    BOTH: Steps(),
    "without vectors": Steps(vectors=False),
    "without words": Steps(words=False),
    "vectors count half": Steps(weight=0.5),
    "ranks, not scores": Steps(ranks=True),
    "ranks, vectors count half": Steps(ranks=True, weight=0.5),
    "ranks, vectors count half, without hints": Steps(ranks=True, weight=0.5, date_hint=False, speaker_hint=False),
    "without context words": Steps(context=False),
    "without title words": Steps(title=False),
    "without metadata words": Steps(metadata=False),
    "without date terms": Steps(dates=False),
    "without date hint": Steps(date_hint=False),
    "without date terms and hint": Steps(dates=False, date_hint=False),
    "without speaker hint": Steps(speaker_hint=False),
    "without hints": Steps(date_hint=False, speaker_hint=False),
    "without rarity": Steps(rarity=False),
    "context in vectors": Steps(vectors_of_context=True),
    "vectors alone": VECTORS,
    "vectors alone, without rarity": attrs.evolve(VECTORS, rarity=False),
    "vectors alone, context in them": attrs.evolve(VECTORS, vectors_of_context=True),
}


class WordIndex:
    """BM25 over bags of terms, as the store's postings compute it."""

    def __init__(self, bags: Iterable[tuple[Mapping[str, int], int]], k1: float, b: float) -> None:
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for number, (bag, length) in enumerate(bags):
            lengths.append(length)
            for term, count in bag.items():
                postings[term].append((number, count))
        self.passages = len(lengths)
        self._lists = {term: np.array(pairs, np.int64).T for term, pairs in postings.items()}
        relative = np.array(lengths, np.float32) / max(float(np.mean(lengths)), 1.0)
        self._norms = k1 * (1 - b + b * relative)

    def frequency(self, term: str) -> int:
        return self._lists[term].shape[1] if term in self._lists else 0

    def scores(self, terms: Mapping[str, float]) -> NDArray[np.float32]:
        scores = np.zeros(self.passages, np.float32)
        for term, weight in terms.items():
            if (held := self.frequency(term)) == 0:
                continue
            numbers, counts = self._lists[term]
            rarity = math.log1p((self.passages - held + 0.5) / (held + 0.5))
            scores[numbers] += weight * rarity * counts / (counts + self._norms[numbers])
        return scores


@attrs.frozen
class Placed:
    """A passage and what stands around it."""

    passage: Passage
    before: str
    title: str

    def terms(self, steps: Steps) -> tuple[Mapping[str, int], int]:
        found = indexed_terms(
            self.passage.text,
            context=self.before if steps.context else "",
            title=self.title if steps.title else "",
            timestamp=self.passage.timestamp if steps.dates else None,
            metadata=self.passage.metadata if steps.metadata else None,
        )
        return found.counts, found.length

    def text(self, steps: Steps) -> str:
        """What the vector is made of."""
        return f"{self.before}\n{self.passage.text}" if steps.vectors_of_context else self.passage.text


def place(memories: Iterable[Mapping[str, Any]], settings: Settings) -> list[Placed]:
    """Cut memories into passages, as the engine would that was given them in this order."""
    placed: list[Placed] = []
    last: dict[str, str] = {}
    for memory in memories:
        text, metadata = memory["text"], memory.get("metadata") or {}
        stamp, source = metadata.get("timestamp"), metadata.get("source")
        before = last.get(source, "") if source else ""
        for piece in chunk(text, tokens=settings.chunk_tokens, overlap=settings.chunk_overlap):
            passage = Passage(
                number=len(placed),
                memory_id=memory["_id"],
                index=piece.index,
                start=piece.start,
                end=piece.end,
                text=piece.text,
                metadata=metadata,
                created_at=NOW,
                timestamp=datetime.fromisoformat(stamp).replace(tzinfo=UTC) if stamp else None,
                source=source,
            )
            placed.append(Placed(passage, before, title_of(text) if piece.index > 1 else ""))
            before = piece.text
        if source:
            last[source] = text[:CONTEXT]
    return placed


class Library:
    """A corpus as passages with terms and vectors, made when a way to search it needs them first."""

    def __init__(self, memories: Sequence[Mapping[str, Any]], embedder: Embedder, settings: Settings) -> None:
        self.embedder = embedder
        self.placed = place(memories, settings)
        self.memory_ids = [memory["_id"] for memory in memories]
        self._texts = [memory["text"] for memory in memories]
        self._lines = [text.casefold() for text in self._texts]
        self._indexes: dict[tuple[bool, ...], WordIndex] = {}
        self._vectors: dict[bool, NDArray[np.float32]] = {}
        lengths = [sum(len(word.primary) for word in words(text)) for text in self._texts]
        self._plain = WordIndex(zip(map(document_terms, self._texts), lengths, strict=True), K1 / UNIT, B)
        written = [Counter(_written(text)) for text in self._texts]
        self._written = WordIndex(((bag, bag.total()) for bag in written), K1 / UNIT, B)

    @property
    def ways(self) -> dict[str, Search]:
        """What the engine's ranking is compared with, and itself."""
        return {
            "grep": self.by_grep,
            "plain BM25": self.by_plain_words,
            "vectors": partial(self.rank, steps=VECTORS),
            BOTH: self.rank,
        }

    @property
    def steps(self) -> dict[str, Search]:
        """The engine's ranking and what changes it by a step; at the end the plain one, and what changes that."""
        return {name: partial(self.rank, steps=steps) for name, steps in STEPS.items()} | {
            "plain BM25": self.by_plain_words,
            "plain BM25, words as written": self.by_written_words,
        }

    async def by_grep(self, query: str) -> list[str]:
        """What looking for each telling word as letters gives: most words first, then the order of the files."""
        wanted = {word.strip(".,;:!?\"'()").casefold() for word in query.split()} - {""}
        common = {token.casefold() for token, word in tokens(query) if word.stop}  # the other ways drop them, too
        wanted = wanted - common or wanted
        held = np.array([sum(word in line for word in wanted) for line in self._lines], np.float32)
        return self._named(held)

    async def by_plain_words(self, query: str) -> list[str]:
        """Plain BM25 over whole memories: nothing but their own words."""
        return self._named(self._plain.scores(query_terms(query)))

    async def by_written_words(self, query: str) -> list[str]:
        """The same without stems, stop words, bigrams: words in small letters."""
        return self._named(self._written.scores(Counter(_written(query))))

    async def rank(self, query: str, steps: Steps = STEPS[BOTH]) -> list[str]:
        """What the engine does, by the steps given."""
        index = self._index(steps)
        by_words = index.scores(query_terms(query)) if steps.words else np.zeros(index.passages, np.float32)
        cosines = await self._cosines(query, steps) if steps.vectors else np.zeros(index.passages, np.float32)
        numbers = sorted({*_best(by_words, CANDIDATES), *(_nearest(cosines, CANDIDATES) if steps.vectors else ())})
        if steps.ranks:
            by_words, cosines = reciprocal(by_words), reciprocal(cosines)
        candidates = [
            Candidate(
                number=number,
                memory_id=(passage := self.placed[number].passage).memory_id,
                moment=passage.timestamp or passage.created_at,
                words=float(by_words[number]),
                cosine=float(cosines[number]),
                hint=hint,
            )
            for number, hint in zip(numbers, self._hints(query, numbers, steps), strict=True)
        ]
        return [ranked.best.memory_id for ranked in fuse(candidates, weight=self._weight(query, steps))]

    async def _cosines(self, query: str, steps: Steps) -> NDArray[np.float32]:
        wide = steps.vectors_of_context
        if wide not in self._vectors:
            self._vectors[wide] = await self.embedder.embed_documents([each.text(steps) for each in self.placed])
        vector = await self.embedder.embed_query(query, importance=self._importance(query, steps))
        return self._vectors[wide] @ vector

    def _index(self, steps: Steps) -> WordIndex:
        if steps.terms not in self._indexes:
            self._indexes[steps.terms] = WordIndex((each.terms(steps) for each in self.placed), K1, B)
        return self._indexes[steps.terms]

    def _importance(self, query: str, steps: Steps) -> dict[str, float]:
        if not steps.rarity:
            return {term: 1.0 for word in words(query) for term in word.primary}
        index = self._index(steps)
        return importance({term: index.frequency(term) for term in query_terms(query)}, index.passages)

    def _hints(self, query: str, numbers: Sequence[int], steps: Steps) -> list[float]:
        whole = [self.placed[number].passage for number in numbers]
        if steps.date_hint and steps.speaker_hint:
            return hints(query, whole)
        if not (steps.date_hint or steps.speaker_hint):
            return [0.0] * len(numbers)
        dated = hints(query, [attrs.evolve(passage, text="", metadata={}) for passage in whole])
        if steps.date_hint:
            return dated
        return [hint - date for hint, date in zip(hints(query, whole), dated, strict=True)]

    def _weight(self, query: str, steps: Steps) -> float:
        if not steps.words:
            return 1.0
        if steps.weight is not None:
            return steps.weight
        return vector_weight(self.embedder.weight, query, multilingual=self.embedder.multilingual)

    def _named(self, scores: NDArray[np.float32]) -> list[str]:
        return [self.memory_ids[number] for number in _best(scores, DEPTH)]


def _written(text: str) -> list[str]:
    return LETTERS.findall(text.casefold())


def _best(scores: NDArray[np.float32], count: int) -> list[int]:
    return [number for number in _nearest(scores, count) if scores[number] > 0]


def _nearest(scores: NDArray[np.float32], count: int) -> list[int]:
    """Return the first by their scores, even those that speak against them: vectors propose what there is."""
    return [int(number) for number in np.argsort(-scores, kind="stable")[:count]]


def reciprocal(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what each of the best gains by its rank alone; the others gain nothing."""
    best = _best(scores, CANDIDATES)
    gains = np.zeros_like(scores)
    gains[best] = 1 / (RECIPROCAL + 1 + np.arange(len(best)))
    return gains
