"""Many processes on one directory: whatever was acknowledged is there, whole and found, whoever was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import trio

from tests.store_writer import text_of
from tests.stores import MODEL, chunks_of, memory_of, vector_of

if TYPE_CHECKING:
    from zapomni.config import Settings
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace


async def write(settings: Settings, workspace: str, name: str, count: int, kill_after: int | None) -> dict[str, str]:
    """Run a writer, perhaps kill it after some acknowledgements, and return what it was acknowledged."""
    arguments = [sys.executable, "-m", "tests.store_writer", str(settings.data_dir), workspace, name, str(count)]
    acknowledged: dict[str, str] = {}
    process = await trio.lowlevel.open_process(arguments, stdout=subprocess.PIPE)
    assert process.stdout is not None
    rest, ended = b"", False
    try:
        async for data in process.stdout:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                memory_id, number = line.decode().split()
                acknowledged[memory_id] = text_of(name, int(number))
            if kill_after is not None and len(acknowledged) >= kill_after:
                os.kill(process.pid, signal.SIGKILL)
        ended = True
    finally:
        with trio.CancelScope(shield=True):
            if not ended:
                process.kill()
            await process.wait()
            await process.stdout.aclose()
    assert process.returncode == (0 if kill_after is None else -signal.SIGKILL)
    return acknowledged


async def check(workspace: Workspace, acknowledged: dict[str, str]) -> None:
    for memory_id, text in acknowledged.items():
        assert (await workspace.get(memory_id)).text == text
    by_words = await workspace.search_words({"common": 1.0}, count=None)
    found = await workspace.passages(by_words.numbers)
    assert len(found) == len(by_words.numbers)
    assert set(acknowledged) <= {passage.memory_id for passage in found}
    info = await workspace.info()
    assert info.chunks == len(found)  # every chunk holds the word
    assert len((await workspace.search_vectors(vector_of("x"), MODEL, count=10**6)).numbers) == info.chunks
    assert info.memories == len({passage.memory_id for passage in found})
    listed, cursor = [], None
    while True:
        page = await workspace.list(limit=500, cursor=cursor)
        listed += [summary.id for summary in page.memories]
        if (cursor := page.cursor) is None:
            break
    assert len(listed) == len(set(listed)) == info.memories


async def run(store: Store, settings: Settings, workspace: Workspace, writers: int, count: int) -> None:
    acknowledged: dict[str, str] = {}

    async def one(number: int) -> None:
        kill_after = LAST_OF_HALF if number % 2 else None
        acknowledged.update(await write(settings, workspace.name, f"writer{number}", count, kill_after))

    async with trio.open_nursery() as nursery:
        for number in range(writers):
            nursery.start_soon(one, number)
    assert len(acknowledged) >= writers // 2 * (count + LAST_OF_HALF)
    await check(workspace, acknowledged)
    for (first,) in await workspace._space.ask("MATCH (d:Draft) RETURN d.first"):
        await store.connection.write("DEL", workspace._space.keys.lease(first))  # as if two minutes had passed
    await workspace.purge(before=memory_of("x").created_at)
    await check(workspace, acknowledged)
    assert await workspace._space.ask("MATCH (d:Draft) RETURN d.first") == []
    info = await workspace.info()
    assert await workspace._space.ask("MATCH (c:Chunk) RETURN count(c)") == [[info.chunks]]
    assert await store.connection.read("VCARD", workspace._space.keys.vectors(1)) == info.chunks


LAST_OF_HALF = 6  # acknowledgements; the next memory is a large one


async def test_killed_writers_leave_whole_memories_or_none(
    store: Store, store_settings: Settings, workspace: Workspace
) -> None:
    with trio.fail_after(60):
        await run(store, store_settings, workspace, writers=4, count=14)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(10))
async def test_many_killed_writers_leave_whole_memories_or_none(
    store: Store, store_settings: Settings, workspace: Workspace, round_: int
) -> None:
    with trio.fail_after(300):
        await run(store, store_settings, workspace, writers=8, count=60)


async def test_writers_of_different_texts_hardly_disturb_each_other(workspace: Workspace) -> None:
    """Sixteen at once, each text its own: none runs into the limit of conflicts."""

    async def add(number: int) -> None:
        for step in range(6):
            text = f"common {number} {step}"
            assert not (await workspace.add(memory_of(text), chunks_of(text))).duplicate

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(16):
                nursery.start_soon(add, number)
    assert (await workspace.info()).memories == 96
