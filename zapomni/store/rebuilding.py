"""Making what memories are found by anew, from nothing but the graph.

Ordinary writes go on meanwhile: a list of words is replaced only if nobody has appended to it since it was read, and
what belongs to memories that came later stays in it. Vectors stay as they are until each has its successor.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from zapomni.models import Chunk
from zapomni.store import postings
from zapomni.store.cypher import decode_text
from zapomni.store.embedding import note_lacking
from zapomni.store.names import term_name
from zapomni.store.reading import text_of
from zapomni.store.reindexing import CONTEXT
from zapomni.store.values import moment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from zapomni.models import NewChunk
    from zapomni.store.connection import Reader
    from zapomni.store.space import Space
    from zapomni.store.wire import Command

PAGE = 100
LISTS = 200

EVERY = "MATCH (m:{}) RETURN m.first, m.count ORDER BY m.first"
MATERIAL = """
MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(m) WHERE m:Memory OR m:Trash
OPTIONAL MATCH (m)-[:AFTER]->(a)
RETURN m.metadata, m.timestamp, a.first, a.count
"""
CHUNKS = """
MATCH (c:Chunk) WHERE c.number >= $first AND c.number < $first + $count
RETURN c.index, c.start, c.end, c.text ORDER BY c.number
"""


@attrs.frozen
class Material:
    """What the words of a memory are counted from."""

    chunks: tuple[Chunk, ...]
    context: str
    """The beginning of the memory before it of the same source."""
    timestamp: datetime | None
    metadata: Mapping[str, Any]

    @property
    def beginning(self) -> str:
        """The text of the memory, as far as its first passages go."""
        text = ""
        for chunk in self.chunks[:5]:
            text += chunk.text[len(text) - chunk.start :]
        return text


async def rebuild(
    space: Space,
    count: Callable[[Material], Awaitable[Sequence[NewChunk]]],
    progress: Callable[[int, int], Awaitable[None]],
) -> int:
    """Replace all words of a workspace by what `count` finds, and note that every vector is lacking.

    Returns the number of passages. `progress` hears how many memories of how many are done. Interrupted, it leaves
    the words as they were.
    """
    async with space.upkeep() as token:
        memories = [(*row,) for label in ("Memory", "Trash") for row in await space.ask(EVERY.format(label))]
        covered = np.zeros(1 + max((first + size for first, size in memories), default=0), np.bool_)
        gains: dict[str, bytearray] = {}
        for done, (first, size) in enumerate(memories):
            for material in await _material(space, first, size):
                counted = await count(material)
                entries = ((first + i, chunk.terms, chunk.length) for i, chunk in enumerate(counted))
                for term, gain in postings.encode(entries).items():
                    gains.setdefault(term_name(term), bytearray()).extend(gain)
                covered[first : first + size] = True
            await space.keep_upkeep(token)
            if done % PAGE == 0:
                await progress(done, len(memories))
        await _replace(space, token, gains, covered)
        numbers = np.flatnonzero(covered)
        await note_lacking(space, token, (await space.about()).generation, numbers)
        return len(numbers)


async def _material(space: Space, first: int, size: int) -> list[Material]:
    """Return what a memory is made of, or nothing when it is gone."""
    found = []
    for metadata, timestamp, after, length in await space.ask(MATERIAL, first=first):
        rows = await space.ask(CHUNKS, first=first, count=size)
        found.append(
            Material(
                chunks=tuple(Chunk(index, start, end, decode_text(text)) for index, start, end, text in rows),
                context="" if after is None else (await text_of(space, after, length, enough=CONTEXT))[:CONTEXT],
                timestamp=None if timestamp is None else moment(timestamp),
                metadata=json.loads(decode_text(metadata)),
            )
        )
    return found


async def _replace(space: Space, token: str, gains: Mapping[str, bytearray], covered: NDArray[np.bool_]) -> None:
    names = {name.decode("utf-8", "surrogatepass") for name in await space.read("SMEMBERS", space.keys.index)}
    listed = sorted({name for name in names if not name.startswith("f:")} | gains.keys())
    for begin in range(0, len(listed), LISTS):
        page = listed[begin : begin + LISTS]
        watched = [space.keys.upkeep, *(space.keys.entry(name) for name in page)]
        await space.connection.optimistic(watched, partial(_rewrite, space, token, page, gains, covered))
        await space.keep_upkeep(token)


def _rewrite(
    space: Space,
    token: str,
    names: Sequence[str],
    gains: Mapping[str, bytearray],
    covered: NDArray[np.bool_],
    reader: Reader,
) -> list[Command]:
    space.check_keeper(reader, token)
    keys = space.keys
    commands: list[Command] = []
    for name, data in zip(names, reader("MGET", *map(keys.entry, names)), strict=True):
        entries = postings.entries(data)
        numbers = entries["number"]
        known = numbers < len(covered)
        later = entries[(numbers > 0) & ~(known & covered[np.where(known, numbers, 0)])].tobytes()
        words = bytes(gains.get(name, b"")) + later
        if not words:
            commands += [("DEL", keys.entry(name)), ("SREM", keys.index, name)]
        elif words != data:
            commands += [("SET", keys.entry(name), words), ("SADD", keys.index, name)]
    return commands
