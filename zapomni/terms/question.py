"""What a question names besides words: a date, and who said it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zapomni.terms.dates import dates_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from zapomni.models import Passage

SPEAKER_HINT = 0.15
DATE_HINT = 0.15

_SPEAKER = re.compile(r"\s*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s")
_SPEAKER_KEYS = ("speaker", "author", "from", "user", "name")


def speaker_of(text: str, metadata: Mapping[str, Any]) -> str | None:
    """Return who said a passage: the metadata says so, or the text starts with a name and a colon."""
    for key in _SPEAKER_KEYS:
        value = metadata.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip().casefold()
    match = _SPEAKER.match(text)
    return match[1].casefold() if match else None


def hints(query: str, passages: Sequence[Passage]) -> list[float]:
    """Return what to add to each passage's score, on the scale where the best match of words is worth 1.

    A passage gains by lying in a month or year that the query names, and by its speaker where the query names one
    of the passages' speakers and no other.
    """
    dates = dates_in(query)
    speakers = [speaker_of(passage.text, passage.metadata) for passage in passages]
    named = _named(query, speakers)
    return [
        (SPEAKER_HINT if named is not None and said == named else 0.0)
        + (DATE_HINT if any(date.covers(passage.timestamp or passage.created_at) for date in dates) else 0.0)
        for passage, said in zip(passages, speakers, strict=True)
    ]


def most_hint(query: str, passages: Sequence[Passage]) -> float:
    """Return the most that one passage more could gain, if it is by a speaker of these."""
    speakers = [speaker_of(passage.text, passage.metadata) for passage in passages]
    named = _named(query, speakers)
    return (0.0 if named is None else SPEAKER_HINT) + (DATE_HINT if dates_in(query) else 0.0)


def _named(query: str, speakers: Sequence[str | None]) -> str | None:
    """Return the speaker that a query names, if it is only one."""
    asked = set(re.findall(r"\w+", query.casefold()))
    found = {speaker for speaker in set(speakers) if speaker and not asked.isdisjoint(re.findall(r"\w+", speaker))}
    return found.pop() if len(found) == 1 else None
