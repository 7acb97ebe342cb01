"""Two rankings into one: a weighted sum of scores, each divided by its best.

Ranks alone would be simpler to add up, but the tenth of a list that fits nothing counts as much there as the tenth of
one that fits well. Scores keep that difference, and docs/discussion/ranking.md has the figures of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


@attrs.frozen
class Candidate:
    """A passage that either side has found."""

    number: int
    memory_id: str
    moment: datetime
    """When it happened or was stored; of equals the later one comes first."""
    words: float = 0.0
    """Its BM25 score."""
    cosine: float | None = None
    """Its nearness to the query's vector, where it has a vector."""
    hint: float = 0.0
    """What else speaks for it, where the best match of words is worth 1; see `terms.hints`."""


@attrs.frozen
class Ranked:
    """A memory's place in the answer, and the passage that earned it."""

    score: float
    best: Candidate


def fuse(candidates: Sequence[Candidate], *, weight: float) -> list[Ranked]:
    """Rank memories by their best passage; `weight`, from 0 to 1, is what vectors count against words.

    Where nothing has a vector, words count in full.
    """
    most_words = max((candidate.words for candidate in candidates), default=0.0)
    most_cosine = max((candidate.cosine or 0.0 for candidate in candidates), default=0.0)
    if most_cosine <= 0:
        weight = 0.0
    best: dict[str, Ranked] = {}
    for candidate in candidates:
        score = candidate.hint
        if most_words > 0:
            score += (1 - weight) * (candidate.words / most_words)
        if candidate.cosine is not None and candidate.cosine > 0:
            score += weight * (candidate.cosine / most_cosine)
        ranked = Ranked(score, candidate)
        known = best.get(candidate.memory_id)
        if known is None or _place(ranked) > _place(known):
            best[candidate.memory_id] = ranked
    return sorted(best.values(), key=_place, reverse=True)


def _place(ranked: Ranked) -> tuple[float, datetime, int]:
    return ranked.score, ranked.best.moment, ranked.best.number


def vector_weight(weight: float, query: str, *, multilingual: bool) -> float:
    """Return what vectors may count for a query, where the model may not know its language."""
    if multilingual:
        return weight
    return weight * _latin_share(query)


def _latin_share(text: Iterable[str]) -> float:
    letters = [character for character in text if character.isalpha()]
    return sum(character < "\u0250" for character in letters) / len(letters) if letters else 1.0
