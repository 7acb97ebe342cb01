"""Workspaces are apart from each other, and say what is in them."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import uuid
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from tests.stores import LATER, MODEL, NOW, chunks_of, latest_of, memory_of, vector_of
from zapomni.config import Settings
from zapomni.errors import ConfigError, NotFoundError
from zapomni.store import reaper, schema
from zapomni.store.names import REGISTRY
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace


async def test_what_is_not_created_does_not_exist(store: Store) -> None:
    workspace = store.workspace(f"none-{uuid.uuid4().hex}")
    for attempt in (
        workspace.add(memory_of("text"), chunks_of("text")),
        workspace.get(str(uuid.uuid4())),
        workspace.search_words({"text": 1.0}, count=1),
        workspace.list(),
        workspace.info(),
        store.delete_workspace(workspace.name),
    ):
        with pytest.raises(NotFoundError, match=workspace.name):
            await attempt
    assert workspace.name not in {info.name for info in await store.list_workspaces()}


async def test_the_default_workspace_is_always_there(store_settings: Settings, tmp_path: Path) -> None:
    async with open_store(attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None)) as store:
        assert [info.name for info in await store.list_workspaces()] == ["default"]
        await store.workspace("default").add(memory_of("text"), chunks_of("text"))
        async with open_store(attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None)) as other:
            assert (await other.delete_workspace("Default")).memories == 1
        assert [info.memories for info in await store.list_workspaces()] == [0]
        assert not (await store.workspace("default").add(memory_of("text"), chunks_of("text"))).duplicate


async def test_workspaces_do_not_see_each_other(store: Store, workspace: Workspace) -> None:
    other = store.workspace(f"{workspace.name}-other")
    assert await store.create_workspace(other.name)
    assert not await store.create_workspace(other.name.upper())
    memory = memory_of("shared words", key="k", source="s", tags=("t",))
    await workspace.add(memory, chunks_of(memory.text))
    assert len((await other.search_words({"shared": 1.0}, count=5)).numbers) == 0
    assert len((await other.search_vectors(vector_of("shared words"), MODEL, count=5)).numbers) == 0
    assert (await other.list()).memories == ()
    assert await other.find_key("k") is await other.find_text(memory.text) is await latest_of(other, "s") is None
    assert await other.tags() == {}
    with pytest.raises(NotFoundError):
        await other.get(memory.id)
    assert not (await other.add(memory_of("shared words"), chunks_of(memory.text))).duplicate
    assert (await store.delete_workspace(other.name)).memories == 1
    assert (await workspace.get(memory.id)).text == memory.text


async def test_a_removed_workspace_leaves_no_key(store: Store, workspace: Workspace) -> None:
    name = f"{workspace.name}-gone"
    await store.create_workspace(name)
    gone = store.workspace(name)
    for number in range(30):
        memory = memory_of(f"text {number}", key=f"k{number}", tags=("t",), source="s")
        await gone.add(memory, chunks_of(memory.text))
    held = await store.delete_workspace(name)
    assert (held.memories, held.chunks) == (30, 30)
    assert await store.connection.read("KEYS", f"{{zapomni:{name}}}*") == []
    assert not await store.connection.read("HEXISTS", REGISTRY, name)
    with pytest.raises(NotFoundError):
        await gone.add(memory_of("text"), chunks_of("text"))


async def test_a_removal_that_broke_off_is_finished_by_the_next_creation(store: Store, workspace: Workspace) -> None:
    await workspace.add(memory_of("text", tags=("t",)), chunks_of("text"))
    await store.connection.write("HSET", workspace._space.keys.about, "deleting", 1)
    workspace._space.opened.clear()
    with pytest.raises(NotFoundError):
        await workspace.list()
    assert workspace.name in {name.decode() for name in await store.connection.read("HKEYS", REGISTRY)}
    assert await store.create_workspace(workspace.name)
    assert (await workspace.list()).memories == ()
    assert len((await workspace.search_words({"text": 1.0}, count=5)).numbers) == 0


DIE_REMOVING = """
import os, signal, sys
from pathlib import Path
import trio
from zapomni.config import Settings
from zapomni.store import schema
from zapomni.store.store import open_store

async def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with open_store(Settings(data_dir=Path(sys.argv[1]))) as store:
        schema._unlink = die
        await store.delete_workspace(sys.argv[2])

trio.run(main)
"""


@pytest.mark.parametrize("finish", ["delete_workspace", "empty_workspace", "finish_removals"])
async def test_a_removal_whose_process_was_killed_comes_to_its_end(tmp_path: Path, finish: str) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    with trio.fail_after(60):
        async with open_store(settings) as store:
            for name in ("kept", "removed"):
                await store.create_workspace(name)
                await store.workspace(name).add(memory_of(f"text of {name}"), chunks_of(f"text of {name}"))
            words = [sys.executable, "-c", DIE_REMOVING, str(tmp_path), "removed"]
            assert (await trio.run_process(words, check=False)).returncode == -signal.SIGKILL
            keys = store.workspace("removed")._space.keys
            await store.connection.write("DEL", keys.upkeep)  # which the dead process would hold for a minute
            with pytest.raises(NotFoundError):
                await store.workspace("removed").list()
            assert await store.connection.read("EXISTS", keys.graph)
            if finish == "finish_removals":
                await store.finish_removals()
            else:
                assert (await getattr(store, finish)("removed")).memories == 1
            assert not await store.connection.read("EXISTS", keys.graph) or finish == "empty_workspace"
            left = {info.name: info.memories for info in await store.list_workspaces()}
            assert left == {"default": 0, "kept": 1} | ({"removed": 0} if finish == "empty_workspace" else {})
            if finish == "delete_workspace":
                with pytest.raises(NotFoundError):
                    await store.delete_workspace("removed")


async def test_a_restore_that_is_going_on_is_no_removal_that_broke_off(store: Store, workspace: Workspace) -> None:
    space = store._space(workspace.name, fresh=True)
    memory = memory_of("text")
    await workspace.add(memory, chunks_of("text"))
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery, space.upkeep() as token:
            await store.connection.write("HSET", space.keys.about, "deleting", token)
            nursery.start_soon(store.finish_removals)
            await trio.sleep(0.1)
            await store.connection.write("HDEL", space.keys.about, "deleting")
    assert (await workspace.get(memory.id)).text == "text"


@pytest.mark.parametrize("step", ["_unlink", "found"])
async def test_a_workspace_that_is_emptied_stays_though_the_call_is_cancelled(
    store: Store, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Cancelled while its contents are removed, or after that: what nobody asked for is to lose the workspace."""
    await workspace.add(memory_of("text"), chunks_of("text"))
    original = getattr(schema, step)

    async def cancel_first(*arguments: Any) -> None:
        scope.cancel()
        await original(*arguments)

    monkeypatch.setitem(schema.MIGRATIONS, 1, cancel_first) if step == "found" else monkeypatch.setattr(
        schema, step, cancel_first
    )
    with trio.fail_after(20), trio.CancelScope() as scope:
        await store.empty_workspace(workspace.name)
    assert (await workspace.info()).memories == 0
    assert workspace.name in {info.name for info in await store.list_workspaces()}


async def test_the_default_workspace_is_there_again_though_its_deleter_died(
    store_settings: Settings, tmp_path: Path
) -> None:
    settings = attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None)
    async with open_store(settings) as store, open_store(settings) as other:
        await other.workspace("default").add(memory_of("text"), chunks_of("text"))
        assert (await other.workspace("default").info()).memories == 1
        await schema.clear(store._space("default", fresh=True))
        with pytest.raises(NotFoundError):
            await other.workspace("default").info()
        assert (await other.workspace("default").info()).memories == 0


async def test_a_workspace_that_was_removed_elsewhere_takes_no_more_writes(
    store_settings: Settings, store: Store
) -> None:
    name = f"test-{uuid.uuid4().hex}"
    await store.create_workspace(name)
    workspace = store.workspace(name)
    await workspace.add(memory_of("text"), chunks_of("text"))
    async with open_store(store_settings) as other:
        await other.delete_workspace(name)
    with pytest.raises(NotFoundError):
        await workspace.add(memory_of("more"), chunks_of("more"))
    assert await store.connection.read("KEYS", f"{{zapomni:{name}}}:[^c]*") == []


async def test_first_writers_together_make_one_workspace(store_settings: Settings, tmp_path: Path) -> None:
    settings = attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None)

    async def write(number: int) -> None:
        async with open_store(settings) as store:
            await store.workspace("default").add(memory_of(f"text {number}"), chunks_of(f"text {number}"))

    with trio.fail_after(30):
        async with open_store(settings) as store:
            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(write, number)
            workspace = store.workspace("default")
            assert (await workspace.info()).memories == 6
            indices = await workspace._space.ask("CALL db.indexes() YIELD label RETURN label ORDER BY label")
            assert indices == [[b"Chunk"], [b"Memory"], [b"Source"]]


async def test_a_newer_schema_is_refused(store: Store, workspace: Workspace) -> None:
    await store.connection.write("HSET", workspace._space.keys.about, "schema", 99)
    workspace._space.opened.clear()
    for attempt in (workspace.list(), workspace.add(memory_of("text"), chunks_of("text"))):
        with pytest.raises(ConfigError, match="upgrade Zapomni"):
            await attempt
    await store.connection.write("HSET", workspace._space.keys.about, "schema", 1)


async def test_statistics_tell_what_is_there(workspace: Workspace) -> None:
    empty = await workspace.statistics()
    assert (empty.total_memories, empty.oldest, empty.embedding_model) == (0, None, "")
    for text, created in (("one", NOW), ("two two", LATER)):
        await workspace.add(memory_of(text, created_at=created, tags=("t", text)), chunks_of(text, 4))
    figures = await workspace.statistics()
    assert (figures.total_memories, figures.total_chunks) == (2, 3)
    assert (figures.oldest, figures.newest) == (NOW, LATER)
    assert (figures.embedding_model, figures.embedding_dimension) == ("letters", 8)
    assert figures.bytes_in_memory > 0
    assert (figures.bytes_on_disk > 0) is workspace._space.connection.embedded  # a server elsewhere does not tell
    assert await workspace.tags() == {"t": 2, "one": 1, "two two": 1}


async def test_a_workspace_that_was_removed_does_not_keep_the_store_from_starting(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=0)
    with trio.fail_after(60):
        async with open_store(settings) as store:
            await store.create_workspace("removed")
            await store.workspace("removed").add(memory_of("text"), chunks_of("text"))
            await store.delete_workspace("removed")
        for _ in range(3):  # the first server to load the file wrote into it what the second could not load
            lock = reaper.open_lock(tmp_path / "store", reaper.SERVER)
            while not reaper.try_lock(lock, fcntl.LOCK_EX):  # noqa: ASYNC110  # no event tells of another process
                await trio.sleep(0.02)
            os.close(lock)
            async with open_store(settings) as store:
                assert [info.name for info in await store.list_workspaces()] == ["default"]
