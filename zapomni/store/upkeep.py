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
FEW, TOGETHER = 5, 20  # passages of a small draft, and small drafts that are removed in one transaction

DRAFTS = "MATCH (d:Draft) RETURN d.first, d.count"
HELD = """
UNWIND $firsts AS first
MATCH (:Chunk {number: first})<-[:HAS_CHUNK]-(d:Draft)
RETURN d.first, d.count, d.source
"""
HOLDER = "MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(m) RETURN m:Draft"
# A draft is found by its first chunk, which has an index. One that the server refused the chunks of is looked for.
BY_CHUNK = "MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(d:Draft) "
BY_ITSELF = "MATCH (d:Draft {first: $first}) "
DROP_CHUNKS = "UNWIND range($start, $stop - 1) AS number MATCH (c:Chunk {number: number}) DELETE c"
DROP_ROW = (
    "MATCH (p)-[:NEXT]->(d)-[:NEXT]->(n) CREATE (p)-[:NEXT]->(n)",
    "MATCH (s:Source)-[:LATEST]->(d)<-[:NEXT]-(p) CREATE (s)-[:LATEST]->(p)",
    "MATCH (s:Source)-[:LATEST]->(d) OPTIONAL MATCH (p)-[:NEXT]->(d) WITH s, p WHERE p IS NULL DELETE s",
    "DELETE d",
)
DROP_DRAFTS = "UNWIND $firsts AS first MATCH (:Chunk {number: first})<-[:HAS_CHUNK]-(d:Draft) DELETE d"
DROP_NUMBERS = "UNWIND $numbers AS number MATCH (c:Chunk {number: number}) DELETE c"


def discard_range(keys: Keys, about: About, numbers: range) -> list[Command]:
    """Return the commands that take chunks out of every search, and remember to clear their index entries."""
    commands: list[Command] = [hide(keys, numbers), ("SADD", keys.garbage, f"{numbers.start}:{len(numbers)}")]
    return commands + forget_vectors(keys, about, numbers)


async def sweep(space: Space, *, token: str | None = None) -> int:
    """Remove the drafts that nobody is writing any more; return how many there were.

    Whoever holds the upkeep goes on holding it. Raises `DatabaseError` when that is over.
    """
    drafts = [range(first, first + count) for first, count in await space.ask(DRAFTS)]
    small = [numbers for numbers in drafts if len(numbers) <= FEW]
    dropped: set[int] = set()
    for begin in range(0, len(small), TOGETHER):
        dropped |= await _drop_small(space, small[begin : begin + TOGETHER], token)
    swept = len(dropped)
    for numbers in drafts:
        if numbers.start not in dropped:
            swept += await drop_draft(space, numbers, token=token)
    return swept


async def _drop_small(space: Space, drafts: Sequence[range], token: str | None) -> set[int]:
    """Remove drafts that nobody is writing, the versions of a memory mostly, in one transaction; return which."""
    leases = [space.keys.lease(numbers.start) for numbers in drafts]
    held = space.question(HELD, firsts=[numbers.start for numbers in drafts])
    dropped: list[range] = []

    def attempt(reader: Reader) -> list[Command]:
        nonlocal dropped
        about = space.watched_about(reader)
        if token is not None:
            space.check_keeper(reader, token)
        written = {lease for lease, holder in zip(leases, reader("MGET", *leases), strict=True) if holder == b"writing"}
        # Whoever publishes needs a lease, and these are watched, so what is a draft now stays one.
        commands: list[Command] = [] if token is None else [space.prolongation()]
        dropped = []
        for first, count, source in rows(reader(*held)):
            numbers = range(first, first + count)
            if space.keys.lease(first) not in written:
                dropped.append(numbers)
                # Each has to be gone before what stands next to it in a row goes; only what has a source is in one.
                queries = DROP_ROW if source is not None else ()
                commands += (space.statement(BY_CHUNK + query, first=first) for query in queries)
                commands += [*discard_range(space.keys, about, numbers), ("DEL", space.keys.lease(first))]
        if not dropped:
            return []
        return [
            *commands,
            space.statement(DROP_DRAFTS, firsts=[numbers.start for numbers in dropped]),
            space.statement(DROP_NUMBERS, numbers=[number for numbers in dropped for number in numbers]),
        ]

    watched = [space.keys.about, *leases] if token is None else [space.keys.about, space.keys.upkeep, *leases]
    await space.connection.optimistic(watched, attempt)
    return {numbers.start for numbers in dropped}


async def drop_draft(space: Space, numbers: range, *, writer: str | None = None, token: str | None = None) -> bool:
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
    holder = rows(await space.connection.write(*space.statement(HOLDER, first=numbers.start)))
    if holder == [[b"false"]]:
        await space.within(about.incarnation, [("DEL", lease)])
        return False
    for step in steps(numbers[1:]):
        chunks = space.statement(DROP_CHUNKS, start=step.start, stop=step.stop)
        if not await space.within(about.incarnation, [chunks, *remove_vectors(keys, about, step)], token=token):
            return False
    draft = BY_CHUNK if holder else BY_ITSELF
    return await space.within(
        about.incarnation,
        [
            *(space.statement(draft + query, first=numbers.start) for query in DROP_ROW),
            space.statement(DROP_CHUNKS, start=numbers.start, stop=numbers.start + 1),
            *remove_vectors(keys, about, numbers[:1]),
            *discard_range(keys, about, numbers),
            ("DEL", lease),
        ],
        token=token,
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
