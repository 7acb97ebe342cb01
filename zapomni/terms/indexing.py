"""What is indexed for a passage, and what is looked up for a query.

A passage is found by its own words, more weakly by the words before it, and by its date. All of them go into one
bag of counts, in quarters of an occurrence, so that one posting per term is enough and a word of the context weighs
half as much as one of the passage. Measured on conversations, that is worth as much as a better model: an answer
often names nothing of what was asked a line before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain, islice
from math import log1p, sqrt
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.terms.dates import dates_in, terms_of
from zapomni.terms.words import other_stems, words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

UNIT = 4
"""What one occurrence of a passage's own word counts in the index."""
CONTEXT = 2
"""What a word of the context, the title or the metadata counts."""
DATE = 2
K1 = 0.9 * UNIT
"""BM25's saturation, in the index's units."""
B = 0.4
"""How far BM25 corrects for length; memories are short, and long ones are cut into passages."""
MAX_QUERY_TERMS = 256
_QUERY_CHARACTERS = 10_000  # what is longer is a text, and its beginning says what it is about

_EXTRA_WEIGHT = 0.2  # an exact form beside its stem: a little better than the stem alone, in every language tried
_NUMBERED_WEIGHT = 1.0  # an identifier with digits beside its parts: order 12-A is not order A-12
_CHARACTER_WEIGHT = 0.5  # a single character beside its bigrams
# Metadata that is no words: times are indexed as what they mean, and an origin holds the ids and checksums of files
# and of other programs.
_RECOGNISED = frozenset({"timestamp", "created_at", "origin"})
_CONTEXT_CHARACTERS = 2000  # more than a passage has; of a longer text the end is what stands before a passage
_TITLE = 200  # characters of a first line that can be a title
_METADATA_CHARACTERS = 1000  # every passage of a memory carries its metadata's words, so they must not be many


@attrs.frozen
class IndexedTerms:
    """The counts of a passage's terms in units, and its length in words of its own and its context's, in units."""

    counts: Mapping[str, int]
    length: int


def document_terms(text: str) -> Counter[str]:
    """Count every term that a text can be found by."""
    return Counter(_bag(text)[0])


def indexed_terms(
    text: str,
    *,
    context: str = "",
    title: str = "",
    timestamp: datetime | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> IndexedTerms:
    """Return what a passage is indexed by.

    `context` is the passage before it or, for the first of a memory, the beginning of the memory before of the same
    source. `title` is the memory's, for passages whose context does not hold it; see `title_of`.
    """
    own, own_length = _bag(text)
    counts = {term: UNIT * count for term, count in own.items()}
    length = UNIT * own_length
    for part in (context[-_CONTEXT_CHARACTERS:], title, _text_of(metadata) if metadata else ""):
        if part:
            bag, words_in_part = _bag(part)
            length += CONTEXT * words_in_part
            for term, count in bag.items():
                counts[term] = counts.get(term, 0) + CONTEXT * count
    if timestamp is not None:
        for term in terms_of(timestamp):
            counts[term] = counts.get(term, 0) + DATE
    return IndexedTerms(counts, length)


def title_of(text: str) -> str:
    """Return a text's first line where it can be a title."""
    return text[:_TITLE].partition("\n")[0]


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
            weights[term] = weights.get(term, 0.0) + _extra_weight(term, parts=len(word.primary))
        if len(weights) >= MAX_QUERY_TERMS:
            break
    for term in sorted(other_stems(text) - weights.keys()):
        weights[term] = _EXTRA_WEIGHT
    return dict(islice(weights.items(), MAX_QUERY_TERMS))


def _extra_weight(term: str, *, parts: int) -> float:
    if len(term) == 1 and term > "\u2e7f":
        return _CHARACTER_WEIGHT
    return _NUMBERED_WEIGHT if parts > 1 and any(map(str.isdigit, term)) else _EXTRA_WEIGHT


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


@lru_cache(maxsize=32)  # a passage is the context of the next one
def _bag(text: str) -> tuple[Mapping[str, int], int]:
    """Return how often each term is in a text, and how many words it has."""
    found = words(text)
    return Counter(chain.from_iterable(word.terms for word in found)), sum(len(word.primary) for word in found)


def _text_of(metadata: Mapping[str, Any]) -> str:
    """Return the words of metadata, whatever its shape, as far as they are indexed."""
    pieces: list[str] = []
    room = _METADATA_CHARACTERS
    for piece in _pieces(metadata):
        pieces.append(piece[:room])
        room -= len(piece) + 1
        if room <= 0:
            break
    return "\n".join(pieces)


def _pieces(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [item for key, item in value.items() if key not in _RECOGNISED]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _pieces(item)
        if not value:
            yield ""
    else:
        yield value if isinstance(value, str) else "" if value is None or isinstance(value, bool) else str(value)
