"""Cards: one small record for each memory, which says what the indices hold of it.

Writers read cards instead of the graph, because they can be watched: a bucket of cards changes only with a memory in
it, the graph with every write. A card and the graph change in the same transaction.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import attrs
import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zapomni.store.connection import Reader
    from zapomni.store.names import Keys
    from zapomni.store.wire import Command

CLEAR, SET = 0, 1
_WORD = 32  # bits that one operation sets


def content_hash(text: str) -> str:
    """Return what equal texts have in common."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


@attrs.frozen(kw_only=True)
class Card:
    """What is indexed of a memory."""

    first: int
    """Its chunks are numbered from here."""
    count: int
    length: int
    """Of all chunks, in words."""
    version: int
    hash: str
    """Of the text."""
    fingerprint: str
    """Of everything that was given."""
    created: int
    tags: tuple[str, ...] = ()
    source: str | None = None
    key: str | None = None
    deleted: bool = False

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.count)

    def dump(self) -> bytes:
        return orjson.dumps(attrs.asdict(self))

    @classmethod
    def load(cls, data: bytes | None) -> Card | None:
        if data is None:
            return None
        fields = orjson.loads(data)
        return cls(**{**fields, "tags": tuple(fields["tags"])})


def read_card(reader: Reader, keys: Keys, memory_id: str) -> Card | None:
    return Card.load(reader("HGET", keys.cards(memory_id), memory_id))


def put_card(keys: Keys, memory_id: str, card: Card) -> list[Command]:
    """Return the commands that write a card; a memory's key is touched with it, so that whoever watches it knows."""
    commands: list[Command] = [("HSET", keys.cards(memory_id), memory_id, card.dump())]
    if card.key is not None and not card.deleted:
        commands.append(("HSET", keys.names(card.key), card.key, memory_id))
    return commands


def count_in(keys: Keys, card: Card, sign: int) -> list[Command]:
    """Return the commands that add a memory to the totals, or with -1 take it away."""
    commands: list[Command] = [
        ("HINCRBY", keys.counts, "memories", sign),
        ("HINCRBY", keys.counts, "chunks", sign * card.count),
        ("HINCRBY", keys.counts, "length", sign * card.length),
    ]
    commands.extend(("HINCRBY", keys.tags, tag, sign) for tag in card.tags)
    return commands


def hide(keys: Keys, numbers: range, value: int = SET) -> Command:
    """Return the command that hides chunks from every search, or with `CLEAR` shows them."""
    operations: list[str | int] = []
    position, end = numbers.start, numbers.stop
    while position < end:
        width = min(_WORD, end - position)
        operations += ("SET", f"u{width}", position, (2**width - 1) * value)
        position += width
    return ("BITFIELD", keys.hidden, *operations)


def keep_hash(reader: Reader, keys: Keys, memory_id: str, card: Card) -> list[Command]:
    """Return the commands that let the same text find a memory, after others that have it already.

    What a key names changes its text with the next who writes under the key, so it keeps no text for others.
    """
    if card.key is not None:
        return []
    holders = _watched_holders(reader, keys, card)
    return [] if memory_id in holders else [put_holders(keys, card.hash, [*holders, memory_id])]


def forget_hash(reader: Reader, keys: Keys, memory_id: str, card: Card) -> list[Command]:
    """Return the commands that free a memory's text, so that the same text can be stored anew."""
    holders = _watched_holders(reader, keys, card)
    if memory_id not in holders:
        return []
    holders.remove(memory_id)
    return [put_holders(keys, card.hash, holders) if holders else ("HDEL", keys.hashes(card.hash), card.hash)]


def put_holders(keys: Keys, content: str, holders: Iterable[str]) -> Command:
    """Return the command that says which memories have a text."""
    return ("HSET", keys.hashes(content), content, " ".join(holders))


def read_holders(found: bytes | None) -> list[str]:
    """Return which memories have a text, the first one first."""
    return [] if found is None else found.decode().split(" ")


def _watched_holders(reader: Reader, keys: Keys, card: Card) -> list[str]:
    bucket = keys.hashes(card.hash)
    _, found = reader.all([("WATCH", bucket), ("HGET", bucket, card.hash)])
    return read_holders(found)
