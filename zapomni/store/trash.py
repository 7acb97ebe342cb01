"""Deleting: at once out of every search and list, for good after the retention, and restorable in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from zapomni.errors import NotFoundError, ValidationError
from zapomni.store.cards import CLEAR, Card, count_in, forget_hash, hide, keep_hash, put_card, read_card
from zapomni.store.reading import find_card
from zapomni.store.upkeep import collect, sweep
from zapomni.store.values import micros, storable
from zapomni.store.vectors import STEP, forget_vectors, lack, remove_vectors, steps

if TYPE_CHECKING:
    from datetime import datetime

    from zapomni.store.connection import Reader
    from zapomni.store.space import About, Space
    from zapomni.store.wire import Command

PAGE = 100

TRASH = "MATCH (m:Memory {id: $id}) SET m:Trash, m.deleted_at = $now REMOVE m:Memory"
RESTORE = """
MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(t:Trash)
SET t:Memory, t.deleted_at = null REMOVE t:Trash
"""
EXPIRED = "MATCH (t:Trash) WHERE t.deleted_at < $before RETURN t.id, t.first LIMIT $page"
# What is purged becomes a draft that nobody writes, so that clearing it away is one and the same work.
PURGE = """
MATCH (:Chunk {number: $first})<-[:HAS_CHUNK]-(t:Trash)-[:REPLACES*0..]->(v)
SET v:Draft REMOVE v:Trash, v:Version
"""


async def delete(space: Space, memory_id: str, now: datetime) -> None:
    """Put a memory into the trash; raises `NotFoundError`."""
    if not storable(memory_id):
        raise NotFoundError(f"there is no memory {memory_id!a}")
    keys, moment = space.keys, micros(now)
    deleted: Card | None = None
    about: About | None = None

    def attempt(reader: Reader) -> list[Command]:
        nonlocal deleted, about
        about = space.watched_about(reader)
        card = read_card(reader, keys, memory_id)
        if card is None or card.deleted:
            raise NotFoundError(f"there is no memory {memory_id}")
        deleted = attrs.evolve(card, deleted=True)
        commands = [
            space.statement(TRASH, id=memory_id, now=moment),
            hide(keys, card.numbers),
            *count_in(keys, card, -1),
            *forget_hash(reader, keys, memory_id, card),
            *forget_vectors(keys, about, card.numbers),
            *put_card(keys, memory_id, deleted),
            ("HINCRBY", keys.counts, "trashed", 1),
        ]
        return commands if card.key is None else [*commands, ("HDEL", keys.names(card.key), card.key)]

    await space.connection.optimistic([keys.about, keys.cards(memory_id)], attempt)
    assert deleted is not None
    assert about is not None
    if deleted.count > STEP:
        for step in steps(deleted.numbers):
            removal = remove_vectors(keys, about, step)

            def unless_restored(reader: Reader, removal: list[Command] = removal) -> list[Command]:
                return removal if read_card(reader, keys, memory_id) == deleted else []

            await space.connection.optimistic([keys.cards(memory_id)], unless_restored)


async def restore(space: Space, memory_id: str) -> None:
    """Bring a memory back from the trash, with the same id; its vectors are pending until they are made again.

    Raises `NotFoundError` when it is not in the trash any more, `ValidationError` when its key was given away.
    """
    keys = space.keys
    found = await find_card(space, memory_id)
    if found is None:
        raise NotFoundError(f"there is no memory {memory_id}, not even in the trash")

    def attempt(reader: Reader) -> list[Command]:
        about = space.watched_about(reader)
        card = read_card(reader, keys, memory_id)
        if card is None:
            raise NotFoundError(f"there is no memory {memory_id}, not even in the trash")
        if not card.deleted:
            return []
        if card.key is not None and (holder := reader("HGET", keys.names(card.key), card.key)) is not None:
            raise ValidationError(f"the key {card.key!r} now belongs to memory {holder.decode()}: delete that first")
        return [
            space.statement(RESTORE, first=card.first),
            hide(keys, card.numbers, CLEAR),
            *count_in(keys, card, 1),
            *keep_hash(reader, keys, memory_id, card),
            *put_card(keys, memory_id, attrs.evolve(card, deleted=False)),
            *(lack(keys.pending(generation), card.numbers) for generation in about.sets),
            ("HINCRBY", keys.counts, "trashed", -1),
        ]

    watched = [keys.about, keys.cards(memory_id)]
    if found.key is not None:
        watched.append(keys.names(found.key))
    await space.connection.optimistic(watched, attempt)


async def purge(space: Space, before: datetime) -> int:
    """Remove for good what was deleted before a moment, with its history; return how many memories that were."""
    async with space.upkeep() as token:
        purged = 0
        while expired := await space.ask(EXPIRED, before=micros(before), page=PAGE):
            dropped = [await _drop(space, memory_id.decode(), first) for memory_id, first in expired]
            await sweep(space, token=token)
            await space.keep_upkeep(token)
            purged += sum(dropped)
            if not any(dropped):  # all of them were restored meanwhile
                break
        await sweep(space, token=token)
        await collect(space, token)
        return purged


async def _drop(space: Space, memory_id: str, first: int) -> bool:
    keys = space.keys

    def attempt(reader: Reader) -> list[Command]:
        card = read_card(reader, keys, memory_id)
        if card is None or not card.deleted or card.first != first:
            return []
        return [
            space.statement(PURGE, first=first),
            ("HDEL", keys.cards(memory_id), memory_id),
            ("HINCRBY", keys.counts, "trashed", -1),
        ]

    return bool(await space.connection.optimistic([keys.cards(memory_id)], attempt))
