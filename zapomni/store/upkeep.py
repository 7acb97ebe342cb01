"""Clearing away what nobody may see any more: drafts of writers that died, and index entries of chunks that are gone.

Whatever is to go is hidden first, so that this work can be done in small steps, and be taken up again by anybody.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from zapomni.store import facets, postings
from zapomni.store.cards import hide
from zapomni.store.cypher import rows
from zapomni.store.vectors import STEP, forget_vectors, remove_vectors, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zapomni.store.connection import Reader
    from zapomni.store.names import Keys
    from zapomni.store.space import About, Space
    from zapomni.store.wire import Command

LISTS = 500  # index entries that are looked at together
WORTH_REWRITING = 0.25
CLAIM_SECONDS = 3600

DRAFTS = "MATCH (d:Draft) RETURN d.first, d.count"
IS_DRAFT = "MATCH (d:Draft {first: $first}) RETURN d.first"
DROP_CHUNKS = "UNWIND range($start, $stop - 1) AS number MATCH (c:Chunk {number: number}) DELETE c"
CLOSE_ROW = "MATCH (p)-[:NEXT]->(d:Draft {first: $first})-[:NEXT]->(n) CREATE (p)-[:NEXT]->(n)"
STEP_BACK = "MATCH (s:Source)-[:LATEST]->(d:Draft {first: $first})<-[:NEXT]-(p) CREATE (s)-[:LATEST]->(p)"
DROP_SOURCE = """
MATCH (s:Source)-[:LATEST]->(d:Draft {first: $first})
OPTIONAL MATCH (p)-[:NEXT]->(d)
WITH s, p WHERE p IS NULL DELETE s
"""
DROP_DRAFT = "MATCH (d:Draft {first: $first}) DELETE d"


def discard_range(keys: Keys, about: About, numbers: range) -> list[Command]:
    """Return the commands that take chunks out of every search, and remember to clear their index entries."""
    commands: list[Command] = [hide(keys, numbers), ("SADD", keys.garbage, f"{numbers.start}:{len(numbers)}")]
    return commands + forget_vectors(keys, about, numbers)


async def sweep(space: Space) -> int:
    """Remove the drafts that nobody is writing any more; return how many there were."""
    swept = 0
    for first, count in await space.ask(DRAFTS):
        swept += await drop_draft(space, range(first, first + count))
    return swept


async def drop_draft(space: Space, numbers: range, *, writer: str | None = None) -> bool:
    """Remove a draft with everything that was written for it, but for index entries, which are garbage then.

    Returns whether there was one: only the writer may drop what has a lease, only others what has none any more.
    The writer names the incarnation in which it wrote; in another one these numbers are somebody else's.
    """
    keys, about = space.keys, await space.about()
    if writer is not None and writer != about.incarnation:
        return False
    lease = keys.lease(numbers.start)

    def claim(reader: Reader) -> list[Command]:
        if space.watched_about(reader).incarnation != about.incarnation:
            return []
        mine = (reader("GET", lease) == b"writing") is (writer is not None)
        return [("SET", lease, "swept", "EX", CLAIM_SECONDS)] if mine else []

    if not await space.connection.optimistic([keys.about, lease], claim):
        return False
    # Whoever publishes watches the lease, so what is a draft now stays one. It may have been published before.
    if not rows(await space.connection.write(*space.statement(IS_DRAFT, first=numbers.start))):
        await space.within(about.incarnation, [("DEL", lease)])
        return False
    for step in steps(numbers):
        chunks = space.statement(DROP_CHUNKS, start=step.start, stop=step.stop)
        if not await space.within(about.incarnation, [chunks, *remove_vectors(keys, about, step)]):
            return False
    ending = (CLOSE_ROW, STEP_BACK, DROP_SOURCE, DROP_DRAFT)
    return await space.within(
        about.incarnation,
        [
            *(space.statement(query, first=numbers.start) for query in ending),
            *discard_range(keys, about, range(numbers.start, numbers.stop)),
            ("DEL", lease),
        ],
    )


async def collect(space: Space, token: str) -> int:
    """Clear the index entries of chunks that are gone, as part of upkeep; return how many chunks that were.

    Afterwards no word, tag or source that only they had is left in the store.
    """
    ranges = [_range(member) for member in await space.read("SMEMBERS", space.keys.garbage)]
    if not ranges:
        return 0
    gone = np.zeros(max(numbers.stop for numbers in ranges), np.bool_)
    gone[0] = True  # what was overwritten earlier: a list of nothing else must go, its name is a word
    about = await space.about()
    for numbers in ranges:
        gone[numbers.start : numbers.stop] = True
        for step in steps(numbers):
            await space.as_keeper(token, remove_vectors(space.keys, about, step))
        await space.keep_upkeep(token)
    cursor = b"0"
    while True:
        cursor, names = await space.read("SSCAN", space.keys.index, cursor, "COUNT", LISTS)
        await _clear(space, token, [name.decode("utf-8", "surrogatepass") for name in names], gone)
        await space.keep_upkeep(token)
        if cursor == b"0":
            break
    await space.connection.optimistic([space.keys.tags], lambda reader: _drop_tags(reader, space.keys))
    space.note_removal()  # before it is forgotten that there was something to remove
    done = [f"{numbers.start}:{len(numbers)}" for numbers in ranges]
    await space.as_keeper(token, [("SREM", space.keys.garbage, *done)])
    return sum(map(len, ranges))


def _range(member: bytes) -> range:
    first, count = map(int, member.split(b":"))
    return range(first, first + count)


async def _clear(space: Space, token: str, names: Sequence[str], gone: NDArray[np.bool_]) -> None:
    if not names:
        return
    commands: list[Command] = []
    rewritten: list[str] = []
    lists = await space.read("MGET", *(space.keys.entry(name) for name in names))
    for name, data in zip(names, lists, strict=True):
        if data is None:
            continue
        dead, size = _dead(name, data, gone)
        if not len(dead):
            continue
        if len(dead) >= WORTH_REWRITING * len(data) / size:
            rewritten.append(name)
        else:
            # Overwritten in place: nothing moves, so whoever appends meanwhile is not disturbed.
            holes = (int(at) * size for at in dead if any(data[at * size : (at + 1) * size]))
            commands += (("SETRANGE", space.keys.entry(name), at, bytes(size)) for at in holes)
    for begin in range(0, len(commands), LISTS):
        # Nobody else moves entries as long as the upkeep is ours, so they are where they were read.
        await space.as_keeper(token, commands[begin : begin + LISTS])
    for begin in range(0, len(rewritten), STEP):
        page = rewritten[begin : begin + STEP]
        watched = [space.keys.upkeep, *(space.keys.entry(name) for name in page)]
        await space.connection.optimistic(watched, partial(_rewrite, space, token, page, gone))


def _dead(name: str, data: bytes, gone: NDArray[np.bool_]) -> tuple[NDArray[np.intp], int]:
    """Return the positions of the entries that are gone, and the size of an entry."""
    record = facets.RECORD if name.startswith("f:") else postings.RECORD
    numbers = postings.entries(data, record)["first" if record is facets.RECORD else "number"]
    known = numbers < len(gone)
    return np.flatnonzero(known & gone[np.where(known, numbers, 0)]), record.itemsize


def _rewrite(space: Space, token: str, names: Sequence[str], gone: NDArray[np.bool_], reader: Reader) -> list[Command]:
    space.check_keeper(reader, token)
    keys = space.keys
    commands: list[Command] = []
    lists = reader("MGET", *map(keys.entry, names))
    for name, data in zip(names, lists, strict=True):
        dead, size = _dead(name, data or b"", gone)
        rest = np.delete(postings.entries(data, np.dtype((np.void, size))), dead).tobytes()
        if rest:
            commands.append(("SET", keys.entry(name), rest))
        else:
            commands += [("DEL", keys.entry(name)), ("SREM", keys.index, name)]
    return commands


def _drop_tags(reader: Reader, keys: Keys) -> list[Command]:
    reply = reader("HGETALL", keys.tags)
    unused = [tag for tag, count in zip(reply[::2], reply[1::2], strict=True) if int(count) <= 0]
    return [("HDEL", keys.tags, *unused)] if unused else []
