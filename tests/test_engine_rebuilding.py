"""What memories are found by can be made again from their texts, whatever has become of it."""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import numpy as np
import trio

from zapomni.engine import open_engine
from zapomni.store import postings
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine
    from zapomni.models import MemoryResult
    from zapomni.store.space import Space

type Words = dict[bytes, list[tuple[int, ...]]]


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[MemoryEngine, Space]]:
    """Open an engine on a workspace of the test's own, and the keys of that workspace."""
    own = attrs.evolve(settings, workspace=f"test-{uuid.uuid4().hex}")
    with trio.fail_after(60):
        async with open_engine(own) as engine, open_store(own) as store:
            await engine.workspace_info()
            yield engine, store.workspace(own.workspace)._space
            await engine.delete_workspace(own.workspace)


async def words_of(space: Space) -> Words:
    """Return every list of words, whatever the order of its entries."""
    names = [name for name in await space.read("SMEMBERS", space.keys.index) if not name.startswith(b"f:")]
    lists = [await space.read("GET", space.keys.entry(name.decode())) for name in names]
    found = {}
    for name, data in zip(names, lists, strict=True):
        entries = np.frombuffer(data or b"", postings.RECORD)
        if kept := sorted(tuple(entry.tolist()) for entry in entries[entries["number"] > 0]):
            found[name] = kept
    return found


async def nothing(done: float, total: float | None = None, message: str | None = None) -> None: ...


async def filled(engine: MemoryEngine) -> str:
    """Put memories of every kind into the workspace, and return the id of one that was deleted."""
    await engine.add_memory("The pear tree blooms in April", {"tags": ["garden"], "timestamp": "2026-04-01"})
    for text in ("Where is the key?", "With Nadia, third floor", "Ключ у Нади", "鍵はナディアさんが持っています"):
        await engine.add_memory(text, {"source": "chat"})
    await engine.add_memory("# A long report\n" + "\n\n".join(f"Paragraph {n} on ships. " * 40 for n in range(9)))
    await engine.add_memory("記憶" * 900)
    changed = await engine.add_memory("The old address", {"source": "chat"})
    await engine.update_memory(changed.memory_id, text="The new address")
    deleted = await engine.add_memory("Something to forget", {"source": "notes"})
    await engine.add_memory("What stands after it", {"source": "notes"})
    await engine.delete_memory(deleted.memory_id)
    return deleted.memory_id


def of_current(words: Words, live: set[int]) -> Words:
    """Leave out what belongs to earlier versions, whose words nobody needs."""
    kept = {name: [entry for entry in entries if entry[0] in live] for name, entries in words.items()}
    return {name: entries for name, entries in kept.items() if entries}


async def live_numbers(space: Space) -> set[int]:
    found = []
    for label in ("Memory", "Trash"):
        found += await space.ask(f"MATCH (m:{label})-[:HAS_CHUNK]->(c) RETURN c.number")
    return {number for (number,) in found}


async def test_words_and_vectors_are_the_same_when_nothing_was_wrong(store_settings: Settings) -> None:
    async with opened(store_settings) as (engine, space):
        await filled(engine)
        live = await live_numbers(space)
        before = of_current(await words_of(space), live)
        vectors = {n: await space.read("VEMB", space.keys.vectors(1), n) for n in live}
        assert await engine.rebuild(progress=nothing) == len(live)
        assert of_current(await words_of(space), live) == before
        assert {n: await space.read("VEMB", space.keys.vectors(1), n) for n in live} == vectors
        assert (await engine.workspace_info()).pending == 0


async def test_what_was_lost_comes_back(store_settings: Settings) -> None:
    async with opened(store_settings) as (engine, space):
        deleted = await filled(engine)
        live = await live_numbers(space)
        before = of_current(await words_of(space), live)
        keys = [space.keys.entry(name.decode()) for name in before]
        await space.connection.write("UNLINK", space.keys.vectors(1), space.keys.index, *keys)
        await space.connection.write("APPEND", keys[0], bytes(postings.RECORD.itemsize) * 3)
        assert not (await engine.search_memory("third floor")).hits
        await engine.rebuild(progress=nothing)
        assert of_current(await words_of(space), live) == before
        found = await engine.search_memory("pear tree")
        assert found.hits[0].text == "The pear tree blooms in April"
        await engine.restore_memory(deleted)
        assert (await engine.search_memory("something to forget")).hits[0].memory_id == deleted


async def test_what_is_added_meanwhile_is_kept(store_settings: Settings) -> None:
    async with opened(store_settings) as (engine, _):
        await filled(engine)
        added: list[MemoryResult] = []

        async def add(done: float, total: float | None = None, message: str | None = None) -> None:
            added.append(await engine.add_memory(f"Added in the middle, {len(added)}"))

        await engine.rebuild(progress=add)
        assert len(added) >= 2
        found = await engine.search_memory("added in the middle", limit=20)
        assert {receipt.memory_id for receipt in added} <= {hit.memory_id for hit in found.hits}


async def test_an_interrupted_rebuilding_leaves_everything_findable(store_settings: Settings) -> None:
    async with opened(store_settings) as (engine, space):
        await filled(engine)
        before = await words_of(space)
        with trio.CancelScope() as scope:

            async def cancel(done: float, total: float | None = None, message: str | None = None) -> None:
                scope.cancel()
                await trio.lowlevel.checkpoint()

            await engine.rebuild(progress=cancel)
        assert scope.cancelled_caught
        assert await words_of(space) == before
        assert (await engine.search_memory("pear tree")).hits
