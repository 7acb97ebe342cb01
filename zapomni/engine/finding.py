"""Searching: candidates by words and by meaning, one ranking, and as much of it as the reader has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.chunking import estimate_tokens
from zapomni.engine.ranking import Question, rank
from zapomni.errors import ConfigError, EmbeddingError
from zapomni.fusion import vector_weight
from zapomni.log import get_logger
from zapomni.models import EmbeddingModel, Filters, SearchHit, SearchResult
from zapomni.team import open_team
from zapomni.terms import K1, B, importance, query_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zapomni.embed import Embedder
    from zapomni.fusion import Ranked
    from zapomni.models import Passage, Scores
    from zapomni.store.workspace import Workspace

CANDIDATES = 200
"""Passages that each side proposes at first."""
ATTEMPTS = 3  # while others change the very memories that are being found
ONLY_WORDS = "the embedding model is unavailable, so only words were searched, not meaning"
NO_VECTORS = "nothing has been embedded yet, so only words were searched, not meaning"
OTHER_MODEL = (
    "the vectors were made by {} and the embedder is {}, so only words were searched; 'zapomni reembed' makes new ones"
)
_PER_HIT = 24  # tokens for a hit's number, date and id

log = get_logger("engine")


@attrs.frozen
class Finder:
    """Looks things up in a workspace."""

    workspace: Workspace
    embedder: Embedder

    async def search(self, query: str, *, limit: int, filters: Filters, max_tokens: int | None = None) -> SearchResult:
        """Return the memories that answer a query best, each with its best passage."""
        terms = query_terms(query)
        question: Question | None = None
        notice: str | None = None
        by_words: Scores | None = None
        count, attempts = CANDIDATES, 0

        async def search_words() -> None:
            nonlocal by_words
            by_words = await self.workspace.search_words(terms, count=count, filters=filters, k1=K1, b=B)

        while True:
            async with open_team() as team:
                team.start_soon(search_words)
                if question is None:
                    question, notice = await self._ask(query, terms)
                by_meaning = await self._search_vectors(question, count, filters)
            assert by_words is not None
            standing = await rank(self.workspace, question, by_words, by_meaning, limit=limit)
            attempts += 1
            if standing.changed and attempts < ATTEMPTS:
                continue
            found_all = max(len(by_words.numbers), len(by_meaning.numbers) if by_meaning else 0) < count
            if len(standing.ranked) >= limit or found_all:
                break
            # A few long memories took all the places, or there are no others.
            limit = min(limit, await self.workspace.count(filters))
            if len(standing.ranked) >= limit:
                break
            count *= 4
        hits = [_hit(place, standing.passages[place.best.number]) for place in standing.ranked[:limit]]
        kept = hits if max_tokens is None else _within(hits, max_tokens)
        return SearchResult(tuple(kept), notice, truncated=len(kept) < len(hits))

    async def _ask(self, query: str, terms: Mapping[str, float]) -> tuple[Question, str | None]:
        """Make the query's vector; where that fails, words have to do, and the reader is told."""
        words_only = Question(query, terms)
        known = await self.workspace.vocabulary(terms)
        if known.model is None:
            return words_only, NO_VECTORS if known.chunks else None
        try:
            with trio.fail_at(_half_way()):
                await self.embedder.ready()
                model = EmbeddingModel(self.embedder.name, self.embedder.dimension)
                if model != known.model:
                    return words_only, OTHER_MODEL.format(known.model.name, model.name)
                vector = await self.embedder.embed_query(query, importance=importance(known.frequencies, known.chunks))
        except (EmbeddingError, trio.TooSlowError) as error:
            log.warning("searching_by_words_only", error=str(error) or "the model took half of the time of the call")
            return words_only, ONLY_WORDS
        weight = vector_weight(self.embedder.weight, query, multilingual=self.embedder.multilingual)
        return Question(query, terms, vector, model, weight), None

    async def _search_vectors(self, question: Question, count: int, filters: Filters) -> Scores | None:
        if question.vector is None or question.model is None:
            return None
        try:
            return await self.workspace.search_vectors(question.vector, question.model, count=count, filters=filters)
        except ConfigError:  # somebody has just swapped the vectors for another model's
            return None


def _half_way() -> float:
    """Return when a model has had its share of the caller's time: what is left has to do for an answer by words."""
    now = trio.current_time()
    return now + (trio.current_effective_deadline() - now) / 2


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
