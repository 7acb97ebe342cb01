"""What is indexed for a passage, and what is looked up for a query.

A passage is found by its own words, more weakly by the words before it, and by its date. All of them go into one
bag of counts, in quarters of an occurrence, so that one posting per term is enough and a word of the context weighs
half as much as one of the passage. Measured on conversations, that is worth as much as a better model: an answer
often names nothing of what was asked a line before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from math import log1p, sqrt
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.terms.dates import dates_in, terms_of
from zapomni.terms.words import other_stems, words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from zapomni.models import Chunk

UNIT = 4
"""What one occurrence of a passage's own word counts in the index."""
K1 = 0.9 * UNIT
"""BM25's saturation, in the index's units."""
B = 0.4
"""How far BM25 corrects for length; memories are short, and long ones are cut into passages."""
MAX_QUERY_TERMS = 256
_QUERY_CHARACTERS = 10_000  # what is longer is a text, and its beginning says what it is about

_CONTEXT = 2
_DATE = 2
_EXTRA_WEIGHT = 0.2  # an exact form beside its stem: a little better than the stem alone, in every language tried
_CHARACTER_WEIGHT = 0.5  # a single character beside its bigrams
_RECOGNISED = frozenset({"timestamp", "created_at"})  # metadata that is indexed as what it means, not as words
_TITLE = 200  # characters of a first line that can be a title
_METADATA_CHARACTERS = 1000  # every passage of a memory carries its metadata's words, so they must not be many


@attrs.frozen
class IndexedTerms:
    """The counts of a passage's terms in units, and its length in words of its own and its context's, in units."""

    counts: Mapping[str, int]
    length: int


def document_terms(text: str) -> Counter[str]:
    """Count every term that a text can be found by."""
    counts: Counter[str] = Counter()
    for word in words(text):
        counts.update(word.primary)
        counts.update(word.extra)
    return counts


def indexed_terms(
    text: str,
    *,
    context: str = "",
    timestamp: datetime | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> IndexedTerms:
    """Return what a passage is indexed by.

    `context` is what stands before it: the memory before of the same source, the heading, or the passage before.
    """
    counts: Counter[str] = Counter()
    length = _add(counts, text, UNIT) + _add(counts, context, _CONTEXT)
    _add(counts, _text_of(metadata or {})[:_METADATA_CHARACTERS], _CONTEXT)
    if timestamp is not None:
        for term in terms_of(timestamp):
            counts[term] += _DATE
    return IndexedTerms(counts, length)


def context_of(chunks: Sequence[Chunk], index: int, before: str = "") -> str:
    """Return the context of one of a memory's passages.

    That is the passage before it and the memory's first line, which is often a title; for the first passage it is
    the last one of the memory before of the same source.
    """
    if index == 0:
        return before
    title = chunks[0].text.partition("\n")[0][:_TITLE] if index > 1 else ""
    return f"{title}\n{chunks[index - 1].text}"


def query_terms(text: str) -> dict[str, float]:
    """Return the terms to look up, with their weights; stop words only where there is nothing else."""
    text = text[:_QUERY_CHARACTERS]
    found = words(text)
    weights: dict[str, float] = {}
    for mention in dates_in(text):
        weights |= dict.fromkeys(mention.terms, 1.0)
    for word in [word for word in found if not word.stop] or found:
        for term in word.primary:
            weights[term] = weights.get(term, 0.0) + 1.0
        for term in word.extra:
            weight = _CHARACTER_WEIGHT if len(term) == 1 and term > "\u2e7f" else _EXTRA_WEIGHT
            weights[term] = weights.get(term, 0.0) + weight
        if len(weights) >= MAX_QUERY_TERMS:
            break
    for term in sorted(other_stems(text) - weights.keys()):
        weights[term] = _EXTRA_WEIGHT
    return dict(islice(weights.items(), MAX_QUERY_TERMS))


def importance(frequencies: Mapping[str, int], passages: int) -> dict[str, float]:
    """Return how much each term tells of what is asked, 1 for the rarest, given how many passages hold it.

    Embedders without attention weigh a query's words by it: in a conversation the speakers' names are in every
    question and in every passage, and tell nothing.
    """
    rarest = log1p((passages + 0.5) / 0.5)
    return {
        term: sqrt(max(log1p((max(passages, held) - held + 0.5) / (held + 0.5)) / rarest, 0.01))
        for term, held in frequencies.items()
    }


def _add(counts: Counter[str], text: str, unit: int) -> int:
    length = 0
    for word in words(text):
        length += len(word.primary)
        for term in word.primary:
            counts[term] += unit
        for term in word.extra:
            counts[term] += unit
    return length * unit


def _text_of(value: object) -> str:
    """Return the words of metadata, whatever its shape."""
    if isinstance(value, Mapping):
        return "\n".join(_text_of(item) for key, item in value.items() if key not in _RECOGNISED)
    if isinstance(value, list | tuple):
        return "\n".join(map(_text_of, value))
    return value if isinstance(value, str) else "" if value is None or isinstance(value, bool) else str(value)
