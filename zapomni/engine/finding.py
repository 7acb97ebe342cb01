"""Searching: candidates by words and by meaning, one ranking, and as much of it as the reader has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.chunking import estimate_tokens
from zapomni.errors import EmbeddingError
from zapomni.fusion import Candidate, fuse, vector_weight
from zapomni.log import get_logger
from zapomni.models import EmbeddingModel, Filters, SearchHit, SearchResult
from zapomni.terms import K1, B, hints, importance, query_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zapomni.embed import Embedder
    from zapomni.fusion import Ranked
    from zapomni.models import Passage, Scores
    from zapomni.store.workspace import Workspace

CANDIDATES = 200
"""Passages that each side proposes at first."""
ONLY_WORDS = "the embedding model is unavailable, so only words were searched, not meaning"
OTHER_MODEL = (
    "the vectors were made by {} and the embedder is {}, so only words were searched; 'zapomni reembed' makes new ones"
)
_PER_HIT = 24  # tokens for a hit's number, date and id

log = get_logger("engine")


@attrs.frozen
class Question:
    """A query, ready for both sides."""

    text: str
    terms: Mapping[str, float]
    vector: NDArray[np.float32] | None = None
    """None where there is no embedder to ask, or nothing to compare with."""
    model: EmbeddingModel | None = None


@attrs.frozen
class Finder:
    """Looks things up in a workspace."""

    workspace: Workspace
    embedder: Embedder

    async def search(self, query: str, *, limit: int, filters: Filters, max_tokens: int | None = None) -> SearchResult:
        """Return the memories that answer a query best, each with its best passage."""
        question, notice = await self._ask(query)
        count = CANDIDATES
        while True:
            by_words, by_meaning = await self._candidates(question, count, filters)
            ranked, passages = await self._rank(question, by_words, by_meaning)
            found_all = max(len(by_words.numbers), len(by_meaning.numbers) if by_meaning else 0) < count
            if len(ranked) >= limit or found_all:  # else a few long memories took all the places
                break
            count *= 4
        hits = [_hit(place, passages[place.best.number]) for place in ranked[:limit]]
        kept = hits if max_tokens is None else _within(hits, max_tokens)
        return SearchResult(tuple(kept), notice, truncated=len(kept) < len(hits))

    async def _ask(self, query: str) -> tuple[Question, str | None]:
        """Make the query's vector; where that fails, words have to do, and the reader is told."""
        terms = query_terms(query)
        model = await self.workspace.model()
        if model is None:
            return Question(query, terms), None
        try:
            await self.embedder.ready()
            if model.name != self.embedder.name:
                return Question(query, terms), OTHER_MODEL.format(model.name, self.embedder.name)
            frequencies, passages = await self.workspace.frequencies(terms)
            vector = await self.embedder.embed_query(query, importance=importance(frequencies, passages))
        except EmbeddingError as error:
            log.warning("searching_by_words_only", error=str(error))
            return Question(query, terms), ONLY_WORDS
        return Question(query, terms, vector, EmbeddingModel(self.embedder.name, self.embedder.dimension)), None

    async def _candidates(self, question: Question, count: int, filters: Filters) -> tuple[Scores, Scores | None]:
        by_words: Scores | None = None
        by_meaning: Scores | None = None

        async def search_words() -> None:
            nonlocal by_words
            by_words = await self.workspace.search_words(question.terms, count=count, filters=filters, k1=K1, b=B)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(search_words)
            if question.vector is not None and question.model is not None:
                by_meaning = await self.workspace.search_vectors(
                    question.vector, question.model, count=count, filters=filters
                )
        assert by_words is not None
        return by_words, by_meaning

    async def _rank(
        self, question: Question, by_words: Scores, by_meaning: Scores | None
    ) -> tuple[list[Ranked], dict[int, Passage]]:
        cosines = dict(_pairs(by_meaning)) if by_meaning is not None else {}
        unseen = [number for number in by_words.numbers.tolist() if number not in cosines]
        if question.vector is not None and question.model is not None and unseen:
            cosines |= dict(_pairs(await self.workspace.similarities(question.vector, question.model, unseen)))
        numbers = dict.fromkeys([*by_words.numbers.tolist(), *cosines])
        passages = await self.workspace.passages(numbers)
        candidates = [
            Candidate(
                number=passage.number,
                memory_id=passage.memory_id,
                moment=passage.timestamp or passage.created_at,
                words=_word_score(by_words, passage.number),
                cosine=cosines.get(passage.number),
                hint=hint,
            )
            for passage, hint in zip(passages, hints(question.text, passages), strict=True)
        ]
        weight = vector_weight(self.embedder.weight, question.text, multilingual=self.embedder.multilingual)
        return fuse(candidates, weight=weight), {passage.number: passage for passage in passages}


def _pairs(scores: Scores) -> zip[tuple[int, float]]:
    return zip(scores.numbers.tolist(), scores.values.tolist(), strict=True)


def _word_score(scores: Scores, number: int) -> float:
    totals = scores.totals
    return float(totals[number]) if totals is not None and number < len(totals) else 0.0


def _hit(place: Ranked, passage: Passage) -> SearchHit:
    return SearchHit(
        memory_id=passage.memory_id,
        text=passage.text,
        score=place.score,
        created_at=passage.created_at,
        timestamp=passage.timestamp,
        metadata=passage.metadata,
        start=passage.start,
        end=passage.end,
        chunks=passage.chunks,
    )


def _within(hits: Sequence[SearchHit], budget: int) -> list[SearchHit]:
    """Return the first hits that fit a budget of tokens, and the best one in any case."""
    kept: list[SearchHit] = []
    for hit in hits:
        budget -= estimate_tokens(hit.text) + _PER_HIT
        if kept and budget < 0:
            break
        kept.append(hit)
    return kept
