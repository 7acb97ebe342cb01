"""From two lists of scores to ranked memories, looking at no more passages than it takes.

Reading a passage is what costs most, and what it can reach is known before: its two scores, or for one that only
words have found the lowest cosine that vectors have found, and the most that hints may add. So passages are read in
that order, and only until no other can still come among the best. The answer is the same as if all had been read,
save that a speaker of whom nothing was read so far is no hint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from zapomni.errors import ConfigError
from zapomni.fusion import Candidate, fuse
from zapomni.team import open_team
from zapomni.terms.question import hints, most_hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zapomni.fusion import Ranked
    from zapomni.models import EmbeddingModel, Passage, Scores
    from zapomni.store.workspace import Workspace

FIRST = 3
"""Passages that are read at first, for each memory that is wanted: several may be of one memory."""
FEWEST = 16


@attrs.frozen(eq=False)
class Question:
    """A query, ready for both sides."""

    text: str
    terms: Mapping[str, float]
    vector: NDArray[np.float32] | None = None
    """None where there is no embedder to ask, or nothing to compare with."""
    model: EmbeddingModel | None = None
    weight: float = 0.0
    """What vectors count against words."""


@attrs.frozen(eq=False)
class Field:
    """All candidates, the most promising first; the best of each side come before all others."""

    numbers: list[int]
    words: dict[int, float]
    cosines: dict[int, float]
    ceilings: list[float]
    """What each can reach without hints."""

    @classmethod
    def of(cls, by_words: Scores, by_meaning: Scores | None, weight: float) -> Field:
        meant = np.empty(0, np.uint32) if by_meaning is None else by_meaning.numbers
        numbers = np.union1d(by_words.numbers, meant).astype(np.intp)
        words = _lookup(by_words, numbers)
        cosines = np.zeros(len(numbers), np.float64)
        known: dict[int, float] = {}
        if by_meaning is not None and len(meant):
            cosines += max(float(by_meaning.values[-1]), 0.0)
            cosines[np.searchsorted(numbers, meant)] = by_meaning.values
            known = dict(zip(meant.tolist(), by_meaning.values.tolist(), strict=True))
        most_words, most_cosine = words.max(initial=0.0), cosines.max(initial=0.0)
        share = weight if most_cosine > 0 else 0.0
        ceilings = (1 - share) * words / (most_words or 1.0) + share * np.maximum(cosines, 0.0) / (most_cosine or 1.0)
        order = np.argsort(-ceilings, kind="stable")
        leaders = [int(np.argmax(words)), int(np.argmax(cosines))] if len(numbers) else []
        order = np.array(list(dict.fromkeys([*leaders, *order.tolist()])), np.intp)
        return cls(
            numbers[order].tolist(),
            dict(zip(numbers.tolist(), words.tolist(), strict=True)),
            known,
            ceilings[order].tolist(),
        )


@attrs.frozen(eq=False)
class Standing:
    """The memories that come first, at least as many as were wanted where there are so many."""

    ranked: list[Ranked]
    passages: dict[int, Passage]
    """By number."""
    changed: bool
    """A passage was there when it was found, and not any more when it was read."""


async def rank(
    workspace: Workspace, question: Question, by_words: Scores, by_meaning: Scores | None, *, limit: int
) -> Standing:
    """Rank the memories that both sides have found, by their best passages."""
    field = Field.of(by_words, by_meaning, question.weight)
    passages: list[Passage] = []
    read, wave = 0, max(FIRST * limit, FEWEST)
    while True:
        part = field.numbers[read : read + wave]
        passages += await _read(workspace, question, field, part)
        read += len(part)
        ranked = fuse(_candidates(question.text, passages, field), weight=question.weight)
        left = max(field.ceilings[read:], default=0.0) + most_hint(question.text, passages)
        if read == len(field.numbers) or (len(ranked) >= limit and ranked[limit - 1].score > left):
            return Standing(ranked, {passage.number: passage for passage in passages}, len(passages) < read)
        wave *= 2


async def _read(workspace: Workspace, question: Question, field: Field, part: Sequence[int]) -> tuple[Passage, ...]:
    """Fetch passages, and note the cosines of those that only words have found."""
    vector, model = question.vector, question.model
    unseen = [number for number in part if number not in field.cosines]
    if vector is None or model is None or not unseen:
        return await workspace.passages(part)

    async def compare() -> None:
        try:
            scores = await workspace.similarities(vector, model, unseen)
        except ConfigError:  # somebody has just swapped the vectors for another model's
            return
        field.cosines.update(zip(scores.numbers.tolist(), scores.values.tolist(), strict=True))

    async with open_team() as team:
        team.start_soon(compare)
        passages = await workspace.passages(part)
    return passages


def _candidates(query: str, passages: Sequence[Passage], field: Field) -> list[Candidate]:
    return [
        Candidate(
            number=passage.number,
            memory_id=passage.memory_id,
            moment=passage.timestamp or passage.created_at,
            words=field.words[passage.number],
            cosine=field.cosines.get(passage.number),
            hint=hint,
        )
        for passage, hint in zip(passages, hints(query, passages), strict=True)
    ]


def _lookup(scores: Scores, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the word scores of chunks, those not among the best included."""
    if scores.totals is None:
        return np.zeros(len(numbers))
    inside = numbers < len(scores.totals)
    return np.where(inside, scores.totals[np.where(inside, numbers, 0)], 0.0).astype(np.float64)
