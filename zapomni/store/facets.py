"""Facets: what a search can be limited to, kept the same way as words.

Every tag, source and top-level metadata value of a memory is a facet; a facet is a byte string with one record for
each memory that has it, appended to in the memory's own transaction. Filters are answered by arrays, exactly, and
without a query that somebody's tag could break out of: a facet is known by a digest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from zapomni.store.names import digest
from zapomni.store.postings import entries, unpack
from zapomni.store.values import check_json, micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from zapomni.models import Filters

type Records = NDArray[np.void]

RECORD = np.dtype([("first", "<u4"), ("count", "<u4"), ("at", "<i8"), ("created", "<i8")])
EVERY = "f:all"


def encode(first: int, count: int, at: int, created: int) -> bytes:
    """Return one memory's record: its chunks, when it happened, when it was stored."""
    return np.array((first, count, at, created), RECORD).tobytes()


def names(tags: Iterable[str], source: str | None, metadata: Mapping[str, Any]) -> list[str]:
    """Return the names of all facets that a memory has."""
    found = {EVERY, *(_name("tag", tag) for tag in tags)}
    if source is not None:
        found.add(_name("source", source))
    found.update(_name("metadata", key, canonical(value)) for key, value in metadata.items())
    return sorted(found)


def groups(filters: Filters) -> list[list[str]]:
    """Return which facets a filter needs: one of every group. Raises `ValidationError`."""
    check_json(filters.metadata)
    wanted = [[_name("tag", tag)] for tag in filters.all_tags]
    if filters.tags:
        wanted.append([_name("tag", tag) for tag in filters.tags])
    if filters.source is not None:
        wanted.append([_name("source", filters.source)])
    wanted.extend([_name("metadata", key, canonical(value))] for key, value in filters.metadata.items())
    return wanted or [[EVERY]]


def select(lists: Sequence[Sequence[bytes | None]], filters: Filters) -> Records:
    """Return the records that pass a filter, given the facets of its groups; hidden memories are among them."""
    found: Records | None = None
    for group in lists:
        records = np.concatenate([entries(data, RECORD) for data in group])
        _, positions = np.unique(records["first"], return_index=True)
        records = records[positions]
        found = records if found is None else found[np.isin(found["first"], records["first"])]
    assert found is not None, "a filter has at least one group"
    keep = found["first"] > 0
    if filters.date_from is not None:
        keep &= found["at"] >= micros(filters.date_from)
    if filters.date_to is not None:
        keep &= found["at"] < micros(filters.date_to)
    passing: Records = found[keep]
    return passing


def visible(records: Records, hidden: bytes | None) -> Records:
    """Return the records whose memory may be seen, given the bitmap of the chunks that may not."""
    flags = unpack(hidden, int(records["first"].max(initial=0)) + 1)
    seen: Records = records[~flags[records["first"]]]
    return seen


def chunks(records: Records) -> NDArray[np.bool_]:
    """Return which chunks belong to the records, as flags by number."""
    ends = records["first"].astype(np.int64) + records["count"]
    changes = np.zeros(int(ends.max(initial=0)) + 1, np.int32)
    np.add.at(changes, records["first"], 1)
    np.add.at(changes, ends, -1)
    return np.cumsum(changes) > 0


def canonical(value: Any) -> str:
    """Return one spelling for a JSON value: the order of keys and 1.0 for 1 make no difference."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=True)


def _plain(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
    return value


def _name(kind: str, *parts: str) -> str:
    return f"f:{digest(kind, *parts)}"
