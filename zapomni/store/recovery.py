"""Restore: a backup into an empty store, embedded or remote.

The file is checked as a whole first. A workspace is marked as being removed until it is complete: nobody sees it
before, and when the restore breaks off, the next one clears it away. The upkeep is held all the while, so whoever
comes meanwhile does not take it for what somebody left.
"""

from __future__ import annotations

import json
import struct
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import orjson
import trio

from zapomni.errors import ConfigError, DatabaseError
from zapomni.store import archive, facets, schema, writing
from zapomni.store.cards import Card, count_in, hide, put_card, put_holders
from zapomni.store.names import REGISTRY
from zapomni.store.publication import GO_LAST, publish
from zapomni.store.reindexing import FOLLOW
from zapomni.store.space import SCHEMA
from zapomni.store.trash import TRASH
from zapomni.store.vectors import add_vector, lack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from zapomni.store.connection import Reader
    from zapomni.store.space import Space
    from zapomni.store.wire import Command

STEP = 500  # commands that are sent together


async def restore(path: Path, open_space: Callable[[str], Space]) -> tuple[str, ...]:
    """Bring back every workspace of a backup; return their names.

    Raises `ConfigError` when the file is not whole, or a workspace of it is in use already.
    """
    await trio.to_thread.run_sync(archive.check, path)
    names: list[str] = []
    for kind, payload in archive.frames(path):
        if kind == b"W":
            names.append(orjson.loads(payload)["name"])
    for name in names:
        await _check_empty(open_space(name))
    frames = archive.frames(path)
    for kind, payload in frames:
        if kind == b"W":
            header = orjson.loads(payload)
            await _bring_back(open_space(header["name"]), header, frames)
    return tuple(names)


async def _bring_back(space: Space, header: dict[str, Any], frames: Iterator[tuple[bytes, bytes]]) -> None:
    async with space.upkeep() as token:
        recovery = Recovery(space, header, token)
        await recovery.begin()
        for kind, payload in frames:
            await recovery.take(kind, payload)
            if kind == b"E":
                return


async def _check_empty(space: Space) -> None:
    _refuse_used(space, *await space.read_all(_use(space)))


def _use(space: Space) -> list[Command]:
    return [("HMGET", space.keys.about, "schema", "deleting"), ("HGET", space.keys.counts, "next")]


def _refuse_used(space: Space, about: list[bytes | None], used: bytes | None) -> None:
    if about[0] is not None and about[1] is None and int(used or 0):
        raise ConfigError(f"workspace {space.name!r} is in use: a backup is restored into an empty store")


@attrs.define
class Recovery:
    """One workspace on its way back."""

    space: Space
    header: dict[str, Any]
    token: str
    """Of the upkeep, and the mark on what is being restored."""
    nodes: dict[int, list[Any]] = attrs.field(factory=dict)
    """What was not yet published, by first chunk."""
    rows: dict[str, list[tuple[int, int, str]]] = attrs.field(factory=dict)
    """The memories of each source, by creation."""
    after: list[tuple[int, int]] = attrs.field(factory=list)
    """The first chunks of memories, and of those whose words they are also found by."""
    facets: dict[str, bytearray] = attrs.field(factory=dict)
    holders: dict[str, list[str]] = attrs.field(factory=dict)
    """The memories of each text."""
    lacking: set[int] = attrs.field(factory=set)
    pending: list[Command] = attrs.field(factory=list)

    async def begin(self) -> None:
        space, keys = self.space, self.space.keys
        if self.header["schema"] > SCHEMA:
            raise ConfigError("the backup was made by a newer Zapomni: upgrade Zapomni")

        def mark(reader: Reader) -> list[Command]:
            space.check_keeper(reader, self.token)
            _refuse_used(space, *reader.all(_use(space)))  # somebody may have written since it was checked first
            return [("HSET", keys.about, "deleting", self.token)]

        space.opened.discard(space.name)
        await space.connection.optimistic([keys.upkeep, keys.about, keys.counts], mark)
        await schema.remove(space, self.token)
        await space.as_keeper(
            self.token,
            [("HSET", keys.about, "deleting", self.token), ("HSET", keys.counts, "next", self.header["next"])],
        )
        await schema.found(space)

    async def take(self, kind: bytes, payload: bytes) -> None:
        match kind:
            case b"N":
                nodes = orjson.loads(payload)
                self.nodes = {node[1]: node for node in nodes}
                self.pending += (self.space.statement(writing.BEGIN, first=n[1], count=n[2]) for n in nodes)
            case b"A":
                self.after += orjson.loads(payload)
            case b"C":
                self._take_chunks(*orjson.loads(payload))
            case b"V":
                self._take_vectors(payload)
            case b"P":
                self._take_postings(payload)
            case b"E":
                await self._end()
        if len(self.pending) >= STEP:
            await self._flush()

    async def _flush(self) -> None:
        commands, self.pending = self.pending, []
        for begin in range(0, len(commands), writing.BATCH):
            await self.space.as_keeper(self.token, commands[begin : begin + writing.BATCH])
        await self.space.keep_upkeep(self.token)

    def _take_chunks(self, first: int, chunks: list[list[Any]]) -> None:
        numbers, indices, starts, ends, texts = zip(*chunks, strict=True)
        self.pending.append(
            self.space.statement(
                writing.APPEND,
                first=first,
                number=numbers[0],
                index=indices[0],
                starts=starts,
                ends=ends,
                texts=texts,
            )
        )
        node = self.nodes[first]
        if numbers[-1] == first + node[2] - 1:
            self._publish(node)

    def _publish(self, node: list[Any]) -> None:
        label, first, count, length, words, version, created, updated, timestamp, deleted = node[:10]
        memory_id, metadata, tags, content, fingerprint, key, source = node[10:]
        space, keys = self.space, self.space.keys
        card = Card(
            first=first,
            count=count,
            length=words,
            version=version,
            hash=content,
            fingerprint=fingerprint,
            created=created,
            tags=tuple(orjson.loads(tags)["tags"]),
            source=source,
            key=key,
            deleted=label == "Trash",
        )
        self.pending += publish(space, memory_id, card, metadata, length, updated, timestamp)
        if label == "Version":
            self.pending.append(hide(keys, card.numbers))
            return
        record = facets.encode(first, count, created if timestamp is None else timestamp, created)
        for name in facets.names(card.tags, source, json.loads(metadata)):
            self.facets.setdefault(name, bytearray()).extend(record)
        self.pending += put_card(keys, memory_id, card)
        if source is not None:
            self.rows.setdefault(source, []).append((created, first, memory_id))
        if card.deleted:
            self.pending += [
                space.statement(TRASH, id=memory_id, now=deleted),
                hide(keys, card.numbers),
                ("HINCRBY", keys.counts, "trashed", 1),
            ]
        else:
            self.lacking.update(card.numbers)
            self.pending += count_in(keys, card, 1)
            if card.key is None:
                self.holders.setdefault(content, []).append(memory_id)

    def _take_vectors(self, payload: bytes) -> None:
        (count,) = struct.unpack_from("<I", payload)
        dimension = self.header["model"][1]
        numbers = np.frombuffer(payload, "<u4", count, 4).tolist()
        reaches = np.frombuffer(payload, "<f4", count, 4 + 4 * count)
        whole = np.frombuffer(payload, np.int8, count * dimension, 4 + 8 * count).reshape(count, dimension)
        key = self.space.keys.vectors(1)
        for number, vector in zip(numbers, whole * (reaches[:, None] / np.float32(127)), strict=True):
            if number in self.lacking:
                self.lacking.discard(number)
                self.pending.append(add_vector(key, number, vector))

    def _take_postings(self, payload: bytes) -> None:
        position = 0
        while position < len(payload):
            name_length, length = struct.unpack_from("<II", payload, position)
            position += 8
            name = payload[position : position + name_length].decode()
            position += name_length
            self._index(name, payload[position : position + length])
            position += length

    def _index(self, name: str, data: bytes) -> None:
        keys = self.space.keys
        self.pending += [("SET", keys.entry(name), data), ("SADD", keys.index, name)]

    async def _end(self) -> None:
        space, keys = self.space, self.space.keys
        for name, data in self.facets.items():
            self._index(name, bytes(data))
        self.pending += (put_holders(keys, content, ids) for content, ids in self.holders.items())
        for source, row in self.rows.items():
            # In the order of arrival, as they stood. What is in the trash has no place in a row until it is back.
            self.pending += (
                self.space.statement(GO_LAST, id=memory_id, source=source) for *_, memory_id in sorted(row)
            )
        self.pending += (self.space.statement(FOLLOW, first=first, after=after) for first, after in self.after)
        if self.lacking:
            self.pending.append(lack(keys.pending(1), sorted(self.lacking)))
        await self._flush()
        about: list[str | int] = ["schema", SCHEMA, "incarnation", token_hex(8)]
        if self.header["model"] is not None:
            about += ["model", self.header["model"][0], "dimension", self.header["model"][1]]

        def show(reader: Reader) -> list[Command]:
            space.check_keeper(reader, self.token)
            if reader("HGET", keys.about, "deleting") != self.token.encode():
                raise DatabaseError(f"workspace {space.name!r} was removed while it was restored; try again")
            return [("HSET", keys.about, *about), ("HDEL", keys.about, "deleting")]

        # First of all: a workspace that is in no list would be in no backup either.
        await space.connection.write("HSETNX", REGISTRY, space.name, "")
        await space.connection.optimistic([keys.upkeep, keys.about], show)
