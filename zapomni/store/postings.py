"""Words: posting lists as byte strings, and BM25 over them.

A word's list is a string in the server that is only ever appended to: seven bytes for each chunk that has the word.
A chunk that goes is overwritten with zeros in place, which disturbs nobody who appends meanwhile; no chunk has the
number 0. A search fetches the lists of its words and scores them as arrays.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import attrs
import numpy as np

from zapomni.log import get_logger
from zapomni.models import Scores

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

RECORD = np.dtype([("number", "<u4"), ("frequency", "u1"), ("length", "<u2")])
MOST_FREQUENT, LONGEST = 255, 65_535
log = get_logger("store")
_pack = struct.Struct("<IBH").pack


def encode(chunks: Iterable[tuple[int, Mapping[str, int], int]]) -> dict[str, bytearray]:
    """Return what each word's list gains by chunks, given as number, frequencies and length."""
    gains: dict[str, bytearray] = {}
    for number, terms, length in chunks:
        length = min(length, LONGEST)
        for term, frequency in terms.items():
            gains.setdefault(term, bytearray()).extend(_pack(number, min(frequency, MOST_FREQUENT), length))
    return gains


def entries(data: bytes | None, record: np.dtype[np.void] = RECORD) -> NDArray[np.void]:
    """Return the entries of a list.

    What is left over at its end is no entry: the list is damaged, and the rest of it is still good for searching.
    """
    data = data or b""
    over = len(data) % record.itemsize
    if over:
        log.warning("index_entry_cut_short", bytes=len(data), left_out=over)
        data = data[:-over]
    return np.frombuffer(data, record)


def unpack(bitmap: bytes | None, size: int) -> NDArray[np.bool_]:
    """Return a bitmap of the server as an array of at least `size` flags."""
    flags = np.unpackbits(np.frombuffer(bitmap or b"", np.uint8)).view(np.bool_)
    return flags if len(flags) >= size else np.pad(flags, (0, size - len(flags)))


def rank(
    lists: Sequence[tuple[float, bytes]],
    *,
    documents: int,
    total_length: int,
    hidden: bytes | None,
    allowed: NDArray[np.bool_] | None = None,
    count: int | None = None,
    k1: float = 0.9,
    b: float = 0.4,
) -> Scores:
    """Score chunks by BM25; `lists` are the words' weights and posting lists.

    Hidden chunks count for nothing, not even for how rare a word is; `allowed` limits what is returned and leaves
    the scores as they are.
    """
    records = [(weight, record) for weight, data in lists if len(record := entries(data))]
    size = 1 + max((int(record["number"].max()) for _, record in records), default=0)
    visible = ~unpack(hidden, size)
    visible[0] = False
    totals = np.zeros(size, np.float32)
    average = max(total_length / max(documents, 1), 1.0)
    for weight, record in records:
        live = record[visible[record["number"]]]
        holders = len(live)
        rarity = np.log1p((max(documents, holders) - holders + 0.5) / (holders + 0.5))
        frequency = live["frequency"].astype(np.float32)
        norm = k1 * (1 - b + b * live["length"].astype(np.float32) / average)
        totals[live["number"]] += (weight * rarity * (k1 + 1)) * frequency / (frequency + norm)
    if allowed is not None:
        totals[: len(allowed)][~allowed[:size]] = 0
        totals[len(allowed) :] = 0
    return attrs.evolve(best(np.flatnonzero(totals > 0), totals, count), totals=totals)


def best(numbers: NDArray[np.intp], totals: NDArray[np.float32], count: int | None) -> Scores:
    """Return the highest of the totals at these numbers; of equals the later number comes first."""
    values = totals[numbers]
    if count is not None and len(values) > count:
        keep = values >= np.partition(values, -count)[-count] if count else np.zeros(len(values), np.bool_)
        numbers, values = numbers[keep], values[keep]
    order = np.lexsort((-numbers, -values))[:count]
    return Scores(numbers[order].astype(np.uint32), values[order])
