"""What stands before a memory, and indexing it anew when that is another.

The first passage of a memory is also found by the words of the memory before it of the same source, which an edge
`AFTER` leads to. When that one is changed or deleted, its words have to leave the index of the one that follows, too.
Only posting lists change then, in place: no number, vector or text moves, so a search sees the passage with its old
words or with its new ones, and never misses it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from zapomni.models import Follower, Preceding
from zapomni.store import postings
from zapomni.store.cards import Card, put_card, read_card
from zapomni.store.cypher import decode_text
from zapomni.store.names import term_name
from zapomni.store.reading import text_of
from zapomni.store.values import moment, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zapomni.store.connection import Reader
    from zapomni.store.space import Space
    from zapomni.store.wire import Command

CONTEXT = 1000  # characters of a memory that are the context of the next
PAGE = 100
HOPS = 8  # deleted memories that are passed over on the way to what stands before or after them

LAST = f"""
MATCH (:Source {{name: $source}})-[:LATEST]->(l), path = (n:Memory)-[:NEXT*0..{HOPS}]->(l)
WITH n, length(path) AS distance RETURN n.first, n.count ORDER BY distance LIMIT 1
"""
BEFORE = f"""
MATCH (:Chunk {{number: $first}})<-[:HAS_CHUNK]-(m), path = (n:Memory)-[:NEXT*1..{HOPS}]->(m)
WITH n, length(path) AS distance RETURN n.first, n.count ORDER BY distance LIMIT 1
"""
# Those that any version of a memory was the context of, and the one that it is, or would be, the context of now.
FOLLOWERS = "MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(m)-[:REPLACES*0..]->(v)<-[:AFTER]-(b) RETURN b.first"
NEXT = f"""
MATCH (:Chunk {{number: $first}})<-[:HAS_CHUNK]-(m), path = (m)-[:NEXT*1..{HOPS}]->(b:Memory)
WITH b, length(path) AS distance RETURN b.first ORDER BY distance LIMIT 1
"""
STALE = """
MATCH (t:Trash)-[:REPLACES*0..]->(v)<-[:AFTER]-(b) WHERE b:Memory OR b:Trash
RETURN DISTINCT b.first LIMIT $limit
"""
OUTDATED = """
MATCH (v:Version)<-[:AFTER]-(b) WHERE b:Memory OR b:Trash
RETURN DISTINCT b.first LIMIT $limit
"""
FOLLOWER = """
MATCH (c:Chunk {number: $first})<-[:HAS_CHUNK]-(m) WHERE m:Memory OR m:Trash
OPTIONAL MATCH (m)-[:AFTER]->(a)
RETURN m.id, m.metadata, m.timestamp, c.text, a.first, a.count
"""
LEAVE = """
MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(m)
SET m.words = $words
WITH m MATCH (m)-[r:AFTER]->() DELETE r
"""
FOLLOW = """
MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(m), (:Chunk {number: $after})<-[:HAS_CHUNK]-(a)
CREATE (m)-[:AFTER]->(a)
"""


async def preceding(space: Space, source: str, memory_id: str | None = None) -> Preceding | None:
    """Return what the next memory of a source will stand after, or the next version of one that is there already."""
    if memory_id is not None:
        card = Card.load(await space.read("HGET", space.keys.cards(memory_id), memory_id))
        if card is not None and card.source == source:
            return await _before(space, card.first)
    return await _preceding(space, await space.ask(LAST, source=source) if storable(source) else [])


async def _before(space: Space, first: int) -> Preceding | None:
    return await _preceding(space, await space.ask(BEFORE, first=first))


async def _preceding(space: Space, rows: list[list[Any]]) -> Preceding | None:
    for first, count in rows:
        return Preceding(first, await _beginning(space, first, count))
    return None


async def followers(space: Space, memory_id: str) -> list[Follower]:
    """Return the memories whose context is not what it should be, after something became of this memory."""
    card = Card.load(await space.read("HGET", space.keys.cards(memory_id), memory_id))
    if card is None:
        return []
    rows = [*await space.ask(FOLLOWERS, first=card.first), *await space.ask(NEXT, first=card.first)]
    return await _misplaced(space, dict.fromkeys(first for (first,) in rows))


async def stale(space: Space) -> list[Follower]:
    """Return memories whose context is in the trash, or an earlier version of what it is now, some at a time."""
    rows = [*await space.ask(STALE, limit=PAGE), *await space.ask(OUTDATED, limit=PAGE)]
    return await _misplaced(space, dict.fromkeys(first for (first,) in rows))


async def _misplaced(space: Space, firsts: Iterable[int]) -> list[Follower]:
    found = []
    for first in firsts:
        for raw, metadata, timestamp, text, after, count in await space.ask(FOLLOWER, first=first):
            given: dict[str, Any] = json.loads(decode_text(metadata))
            now = await _before(space, first)
            if after != (None if now is None else now.first):
                found.append(
                    Follower(
                        memory_id=raw.decode(),
                        first=first,
                        text=decode_text(text),
                        metadata=given,
                        timestamp=None if timestamp is None else moment(timestamp),
                        context="" if after is None else await _beginning(space, after, count),
                        preceding=now,
                    )
                )
    return found


async def _beginning(space: Space, first: int, count: int) -> str:
    return (await text_of(space, first, count, enough=CONTEXT))[:CONTEXT]


async def reindex(
    space: Space, follower: Follower, old: Mapping[str, int], new: Mapping[str, int], *, gained: int, length: int
) -> bool:
    """Index a memory's first passage by other terms; False when the memory has changed meanwhile.

    `old` and `new` are the terms with their counts, `length` is the passage's, and `gained` what it has grown by.
    """
    keys, first = space.keys, follower.first

    async with space.upkeep() as token:  # nobody else moves entries in the lists; whoever appends moves none

        def attempt(reader: Reader) -> list[Command]:
            space.check_keeper(reader, token)
            card = read_card(reader, keys, follower.memory_id)
            if card is None or card.first != first:
                return []
            changed = attrs.evolve(card, length=card.length + gained)
            commands = [
                *_edits(space, reader, first, {*old, *new}, postings.encode([(first, new, length)])),
                space.statement(LEAVE, first=first, words=changed.length),
                *put_card(keys, follower.memory_id, changed),
            ]
            if follower.preceding is not None:
                commands.append(space.statement(FOLLOW, first=first, after=follower.preceding.first))
            if not card.deleted:
                commands.append(("HINCRBY", keys.counts, "length", gained))
            return commands

        return bool(await space.connection.optimistic([keys.upkeep, keys.cards(follower.memory_id)], attempt))


def _edits(
    space: Space, reader: Reader, first: int, terms: Iterable[str], entries: Mapping[str, bytearray]
) -> list[Command]:
    """Return the commands that put a chunk's entries into the lists of terms, and take it out of the others."""
    keys = space.keys
    names = {term: term_name(term) for term in terms}
    lists = dict(zip(names, reader("MGET", *map(keys.entry, names.values())), strict=True)) if names else {}
    # A list that nothing else is in goes, name and all, unless somebody appends to it meanwhile.
    lonely = [term for term, data in lists.items() if data and term not in entries and _only(data, first)]
    if lonely:
        reader("WATCH", *(keys.entry(names[term]) for term in lonely))
        lists |= zip(lonely, reader("MGET", *(keys.entry(names[term]) for term in lonely)), strict=True)
    commands: list[Command] = []
    for term, data in lists.items():
        key, name = keys.entry(names[term]), names[term]
        places = np.flatnonzero(postings.entries(data)["number"] == first)
        if term in entries and not len(places):
            commands += [("APPEND", key, bytes(entries[term])), ("SADD", keys.index, name)]
        elif term in entries:
            commands.append(("SETRANGE", key, int(places[0]) * postings.RECORD.itemsize, bytes(entries[term])))
        elif term in lonely and _only(data or b"", first):
            commands += [("DEL", key), ("SREM", keys.index, name)]
        elif len(places):
            gone = bytes(postings.RECORD.itemsize)
            commands.append(("SETRANGE", key, int(places[0]) * postings.RECORD.itemsize, gone))
    return commands


def _only(data: bytes, first: int) -> bool:
    numbers = postings.entries(data)["number"]
    return bool(np.all((numbers == first) | (numbers == 0)))
