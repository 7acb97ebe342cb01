"""Reading memories back: whole, as passages, as a list; every query returns scalars."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from zapomni.errors import BlockedError, NotFoundError, ValidationError
from zapomni.models import Filters, Memory, MemoryPage, MemorySummary, Passage, preview_of
from zapomni.store import facets
from zapomni.store.arrays import compute
from zapomni.store.cards import Card, content_hash, read_holders
from zapomni.store.cypher import decode, decode_text
from zapomni.store.values import moment, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from zapomni.store.facets import Records
    from zapomni.store.space import Space

PAGE = 500  # chunks of one reply
FEW = 10
ATTEMPTS = 5  # at a page while others change the very memories that are on it
_CURSOR = struct.Struct(">qI")

FIELDS = """
m.id, m.first, m.count, m.length, m.version, m.metadata, m.key, m.source,
m.created_at, m.updated_at, m.timestamp, m.deleted_at
"""
BY_FIRST = f"MATCH (c:Chunk {{number: $first}})<-[:HAS_CHUNK]-(m) WHERE m.id IS NOT NULL RETURN {FIELDS}"
HISTORY = f"""
MATCH (:Memory {{id: $id}})-[:REPLACES*1..]->(m) WHERE $version IS NULL OR m.version = $version
RETURN {FIELDS} ORDER BY m.version DESC LIMIT $limit
"""
TEXT = "MATCH (c:Chunk) WHERE c.number >= $start AND c.number < $stop RETURN c.start, c.text ORDER BY c.number"
PASSAGES = f"""
UNWIND $numbers AS number
MATCH (c:Chunk {{number: number}})<-[:HAS_CHUNK]-(m:Memory)
RETURN c.number, c.index, c.start, c.end, c.text, {FIELDS}
"""
SUMMARIES = f"""
UNWIND $firsts AS first
MATCH (c:Chunk {{number: first}})<-[:HAS_CHUNK]-(m:Memory)
RETURN c.text, {FIELDS}
"""
TRASHED = f"""
MATCH (m:Trash)-[:HAS_CHUNK]->(c:Chunk {{index: 0}})
WITH m, c ORDER BY m.deleted_at DESC, m.first DESC LIMIT $limit
RETURN c.text, {FIELDS}
"""


@attrs.frozen
class Node:
    """A memory's node, as the fields above return it."""

    id: str
    first: int
    count: int
    length: int
    version: int
    metadata: dict[str, Any]
    key: str | None
    source: str | None
    created_at: datetime
    updated_at: datetime | None
    timestamp: datetime | None
    deleted_at: datetime | None

    @classmethod
    def read(cls, row: Sequence[Any], known: dict[int, dict[str, Any]] | None = None) -> Node:
        """Read a row; metadata that was read with another row of the same memory is taken from there."""
        memory_id, first, count, length, version, metadata, key, source, *times = row
        created, *others = (None if time is None else moment(time) for time in times)
        assert created is not None
        given = None if known is None else known.get(first)
        if given is None:
            given = json.loads(decode_text(metadata))
        if known is not None:
            known[first] = given
        return cls(
            memory_id.decode(), first, count, length, version, given, decode(key), decode(source), created, *others
        )

    def memory(self, text: str) -> Memory:
        return Memory(
            id=self.id,
            text=text,
            metadata=self.metadata,
            created_at=self.created_at,
            timestamp=self.timestamp,
            key=self.key,
            version=self.version,
            chunks=self.count,
            updated_at=self.updated_at,
            deleted_at=self.deleted_at,
        )

    def summary(self, beginning: str) -> MemorySummary:
        return MemorySummary(
            id=self.id,
            preview=preview_of(beginning + ("..." if len(beginning) < self.length else "")),
            length=self.length,
            metadata=self.metadata,
            created_at=self.created_at,
            timestamp=self.timestamp,
            key=self.key,
            version=self.version,
            chunks=self.count,
            updated_at=self.updated_at,
            deleted_at=self.deleted_at,
        )


async def get(space: Space, memory_id: str, *, trashed: bool = False, damaged: bool = False) -> Memory:
    """Return a memory with its whole text; raises `NotFoundError`, and `BlockedError` for a text that is damaged."""
    card = await find_card(space, memory_id)
    if card is None or (card.deleted and not trashed):
        raise NotFoundError(f"there is no memory {memory_id}")
    # By its number rather than by its id: what is in the trash is no memory, but still has its first chunk.
    rows = await space.ask(BY_FIRST, first=card.first)
    if not rows:
        raise NotFoundError(f"there is no memory {memory_id}")
    memory = await _whole(space, Node.read(rows[0]))
    if content_hash(memory.text) != card.hash and not damaged:
        raise BlockedError(f"the text of memory {memory_id} is damaged: it is not what was stored")
    return memory


async def find_card(space: Space, memory_id: str) -> Card | None:
    """Return the card of a memory, live or in the trash."""
    if not storable(memory_id):
        return None
    return Card.load(await space.read("HGET", space.keys.cards(memory_id), memory_id))


async def find(space: Space, bucket: str, name: str) -> str | None:
    """Return the id of the memory that has a key, or of the first that has the text of a hash."""
    return next(iter(read_holders(await space.read("HGET", bucket, name))), None)


async def history(
    space: Space, memory_id: str, *, limit: int | None = None, version: int | None = None
) -> tuple[Memory, ...]:
    """Return the earlier versions of a memory, latest first; raises `NotFoundError`."""
    card = await find_card(space, memory_id)
    if card is None or card.deleted:
        raise NotFoundError(f"there is no memory {memory_id}")
    rows = await space.ask(HISTORY, id=memory_id, version=version, limit=card.version if limit is None else limit)
    return tuple([await _whole(space, Node.read(row)) for row in rows])


async def _whole(space: Space, node: Node) -> Memory:
    return node.memory(await text_of(space, node.first, node.count))


async def text_of(space: Space, first: int, count: int, *, enough: int | None = None) -> str:
    """Put a text together from its chunks; only its beginning, when so much is enough."""
    pieces: list[str] = []
    position = 0
    page = PAGE if enough is None else FEW
    for start in range(first, first + count, page):
        if enough is not None and position >= enough:
            break
        for begin, raw in await space.ask(TEXT, start=start, stop=min(start + page, first + count)):
            piece = decode_text(raw)[position - begin :]
            pieces.append(piece)
            position += len(piece)
    return "".join(pieces)


async def passages(space: Space, numbers: Iterable[int]) -> list[Passage]:
    """Return the passages of these numbers, in this order; what is no part of a memory (any more) is left out."""
    wanted = list(dict.fromkeys(map(int, numbers)))
    if not wanted:
        return []
    found: dict[int, Passage] = {}
    known: dict[int, dict[str, Any]] = {}
    for number, index, start, end, text, *row in await space.ask(PASSAGES, numbers=wanted):
        node = Node.read(row, known)
        found[number] = Passage(
            number=number,
            memory_id=node.id,
            index=index,
            start=start,
            end=end,
            text=decode_text(text),
            metadata=node.metadata,
            created_at=node.created_at,
            timestamp=node.timestamp,
            source=node.source,
            key=node.key,
            version=node.version,
            chunks=node.count,
        )
    return [found[number] for number in wanted if number in found]


async def listing(space: Space, filters: Filters, limit: int, cursor: str | None) -> MemoryPage:
    """Return memories, newest first; what is added meanwhile does not move the pages behind a cursor."""
    after = None if cursor is None else _read_cursor(cursor)
    found: dict[int, MemorySummary] = {}
    for _ in range(ATTEMPTS):
        page, more = await _page(space, filters, limit, after)
        firsts = page["first"].tolist()
        # What was updated since the page was read is not under this number any more, but under a later one.
        missing = [first for first in firsts if first not in found]
        for text, *row in await space.ask(SUMMARIES, firsts=missing) if missing else []:
            node = Node.read(row)
            found[node.first] = node.summary(decode_text(text))
        if all(first in found for first in firsts):
            break
    return MemoryPage(
        tuple(found[first] for first in firsts if first in found),
        _write_cursor(int(page[-1]["created"]), int(page[-1]["first"])) if more else None,
    )


async def _page(space: Space, filters: Filters, limit: int, after: tuple[int, int] | None) -> tuple[Records, bool]:
    """Return the records of some memories, newest first, and whether there are more."""
    groups = facets.groups(filters)
    about, hidden, *lists = await space.read_all(
        [
            ("HGETALL", space.keys.about),
            ("GET", space.keys.hidden),
            *(("MGET", *map(space.keys.entry, group)) for group in groups),
        ]
    )
    space.parse_about(about)

    def select() -> tuple[Records, bool]:
        records = facets.visible(facets.select(lists, filters), hidden)
        records = records[np.lexsort((records["first"], records["created"]))[::-1]]
        if after is not None:
            created, first = after
            records = records[
                (records["created"] < created) | ((records["created"] == created) & (records["first"] < first))
            ]
        return records[:limit].copy(), len(records) > limit

    return await compute(select, [hidden, *chain.from_iterable(lists)])


async def trashed(space: Space, limit: int) -> tuple[MemorySummary, ...]:
    """Return what can be restored, last deleted first."""
    await space.about()  # of a workspace that was removed elsewhere there is no graph to ask
    rows = await space.ask(TRASHED, limit=limit)
    return tuple(Node.read(row).summary(decode_text(text)) for text, *row in rows)


def _write_cursor(created: int, first: int) -> str:
    return base64.urlsafe_b64encode(_CURSOR.pack(created, first)).decode()


def _read_cursor(cursor: str) -> tuple[int, int]:
    try:
        created, first = _CURSOR.unpack(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (binascii.Error, struct.error, ValueError) as error:
        raise ValidationError("the cursor is not one that a list returned") from error
    return created, first
