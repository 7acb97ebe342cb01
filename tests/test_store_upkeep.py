"""Work on a workspace as a whole: who waited for it looks again, and who lost it stops."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from tests.stores import LATER, NOW, chunks_of, memory_of
from zapomni.errors import DatabaseError, NotFoundError
from zapomni.store import backup, recovery, schema, upkeep
from zapomni.store.names import REGISTRY, Keys
from zapomni.store.store import open_store
from zapomni.store.writing import Draft

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.store.connection import Connection
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

LONG = " ".join(f"word{number}" for number in range(600))


@pytest.fixture
async def other(store_settings: Settings) -> AsyncIterator[Store]:
    """The store as another process has it."""
    async with open_store(store_settings) as store:
        yield store


def after_each(
    monkeypatch: pytest.MonkeyPatch, connection: Connection, method: str, then: Callable[[Any], Awaitable[None]]
) -> None:
    """Do something each time that a method of a connection has done its work."""
    original = getattr(connection, method)

    async def wrapped(*arguments: Any) -> Any:
        reply = await original(*arguments)
        await then(arguments)
        return reply

    monkeypatch.setattr(connection, method, wrapped)


def asks_for_upkeep(monkeypatch: pytest.MonkeyPatch, connection: Connection) -> trio.Event:
    """Return what is set once somebody has asked for the upkeep."""
    asked = trio.Event()

    async def note(command: Any) -> None:
        if command[0] == "SET" and str(command[1]).endswith(":upkeep"):
            asked.set()

    after_each(monkeypatch, connection, "write", note)
    return asked


@pytest.mark.parametrize("act", ["create_workspace", "delete_workspace"])
async def test_who_waited_to_remove_a_workspace_leaves_its_successor_alone(
    store: Store, other: Store, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    space, memory = store._space(workspace.name, fresh=True), memory_of("acknowledged")
    await workspace.add(memory_of("old"), chunks_of("old"))
    asked = asks_for_upkeep(monkeypatch, other.connection)
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery, space.upkeep() as token:
            if act == "create_workspace":
                await store.connection.write("HSET", space.keys.about, "deleting", 1)
            nursery.start_soon(getattr(other, act), workspace.name)
            await asked.wait()
            await schema.remove(space, token)
            await schema.found(space)
            await store.connection.write("HSET", space.keys.about, "schema", 1, "incarnation", "next")
            await workspace.add(memory, chunks_of(memory.text))
    assert (await workspace.get(memory.id)).text == memory.text


async def test_two_who_create_a_workspace_make_one(store: Store, other: Store) -> None:
    name, made = f"test-{uuid.uuid4().hex}", []

    async def create(one: Store) -> None:
        made.append(await one.create_workspace(name))

    async with trio.open_nursery() as nursery:
        for one in (store, other):
            nursery.start_soon(create, one)
    assert sorted(made) == [False, True]
    await store.delete_workspace(name)


async def test_a_workspace_is_listed_before_it_is_there(
    store: Store, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"test-{uuid.uuid4().hex}"

    async def die(command: Any) -> None:
        if command[:2] == ("HSETNX", REGISTRY):
            raise InterruptedError

    with monkeypatch.context() as patch:
        after_each(patch, store.connection, "write", die)
        with pytest.raises(InterruptedError):
            await store.create_workspace(name)
    assert not await store.connection.read("EXISTS", Keys(name).about)
    assert name not in {info.name for info in await other.list_workspaces()}
    assert await other.create_workspace(name)
    assert name in {info.name for info in await store.list_workspaces()}
    await store.delete_workspace(name)


async def test_a_cancelled_wait_leaves_no_lock(
    store: Store, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = store._space(workspace.name, fresh=True)

    async def cancel(command: Any) -> None:
        if command[0] == "SET":
            scope.cancel()
            await trio.lowlevel.checkpoint()

    after_each(monkeypatch, store.connection, "write", cancel)
    with trio.CancelScope() as scope:
        async with space.upkeep():
            pytest.fail("it was cancelled")
    assert scope.cancelled_caught
    assert not await store.connection.read("EXISTS", space.keys.upkeep)


async def test_a_lock_that_cannot_be_given_back_hides_nothing_that_happened(
    store: Store, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = store._space(workspace.name, fresh=True)

    async def fail(*_: object) -> None:
        raise DatabaseError("the store is gone")

    with monkeypatch.context() as patch, trio.move_on_after(0.1) as scope:
        async with space.upkeep():
            patch.setattr(store.connection, "optimistic", fail)
            await trio.sleep_forever()
    await lose(store.connection, workspace)  # who comes next would wait for it to run out
    assert scope.cancelled_caught


async def test_a_small_write_does_not_outlive_its_workspace(store: Store, other: Store, workspace: Workspace) -> None:
    await workspace.add(memory_of("old"), chunks_of("old"))
    draft = Draft(await workspace._write(), memory_of("straddles"), 1)
    await draft._allocate()
    await other.delete_workspace(workspace.name)
    with pytest.raises(NotFoundError):
        await draft.publish(chunks_of("straddles"))
    await other.create_workspace(workspace.name)
    with pytest.raises(DatabaseError, match="emptied"):
        await draft.publish(chunks_of("straddles"))
    fresh = [memory_of(f"fresh {number}") for number in range(4)]
    for memory in fresh:
        await workspace.add(memory, chunks_of(memory.text))
    assert [(await workspace.get(memory.id)).text for memory in fresh] == [memory.text for memory in fresh]
    assert (await workspace.info()).memories == 4


async def test_a_draft_does_not_outlive_its_workspace(store: Store, other: Store, workspace: Workspace) -> None:
    chunks = chunks_of(LONG)
    half = len(chunks) // 2
    memory, later = memory_of(LONG), memory_of(LONG)
    async with workspace.open_draft(memory, len(chunks)) as draft:
        await draft.append(chunks[:half])
        await other.delete_workspace(workspace.name)
        await other.create_workspace(workspace.name)
        # The numbers are given out again, and giving the old draft up must not touch who has them now.
        async with other.workspace(workspace.name).open_draft(later, len(chunks)) as successor:
            await successor.append(chunks[:half])
            with pytest.raises(DatabaseError, match="emptied"):
                await draft.append(chunks[half:])
            await draft.discard()
            await successor.append(chunks[half:])
            await successor.publish()
    assert (await workspace.get(later.id)).text == LONG
    assert (await workspace.info()).memories == 1


async def lose(connection: Connection, workspace: Workspace) -> None:
    """Let the upkeep run out, as it does for who is asleep for a minute."""
    await connection.write("DEL", workspace._space.keys.upkeep)


async def test_a_purge_that_lost_its_workspace_changes_nothing_more(
    store: Store, other: Store, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = other.workspace(workspace.name)
    memories = [memory_of(f"common n{number}") for number in range(40)]
    for memory in memories:
        await workspace.add(memory, chunks_of(memory.text))
    for memory in memories[:3]:
        await workspace.delete(memory.id, now=NOW)
    original, slept = type(store._space(workspace.name)).as_keeper, False

    async def sleep_first(space: Any, token: str, commands: Any) -> Any:
        nonlocal slept
        if not slept and commands[0][0] == "SETRANGE":
            slept = True
            await lose(other.connection, workspace)
            for memory in memories[3:15]:
                await elsewhere.delete(memory.id, now=NOW)
            assert await elsewhere.purge(before=LATER) == 12
        return await original(space, token, commands)

    monkeypatch.setattr(type(store._space(workspace.name)), "as_keeper", sleep_first)
    with pytest.raises(DatabaseError, match="held up"):
        await workspace.purge(before=LATER)
    assert slept
    assert len((await workspace.search_words({"common": 1.0}, count=None)).numbers) == 25


async def test_who_keeps_the_upkeep_notices_that_it_is_lost(store: Store, workspace: Workspace) -> None:
    space = store._space(workspace.name, fresh=True)
    async with space.upkeep() as token:
        await space.keep_upkeep(token)
        await lose(store.connection, workspace)
        for attempt in (space.keep_upkeep(token), space.as_keeper(token, [("SET", space.keys.tags, "x")])):
            with pytest.raises(DatabaseError, match="held up"):
                await attempt
        assert not await store.connection.read("EXISTS", space.keys.tags)
        async with space.upkeep() as theirs:
            with pytest.raises(DatabaseError, match="held up"):
                await space.keep_upkeep(token)
            await space.keep_upkeep(theirs)


async def test_a_purge_keeps_its_workspace_however_long_the_history_is(
    store: Store, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = memory_of("text")
    await workspace.add(memory, chunks_of("text"))
    for number in range(10):
        text = f"text {number}"
        await workspace.update(memory_of(text, id=memory.id), chunks_of(text))
    await workspace.delete(memory.id, now=NOW)
    key, left = workspace._space.keys.upkeep, list[int]()
    drop = upkeep._drop_small
    monkeypatch.setattr(upkeep, "TOGETHER", 2)

    async def drop_late(*arguments: Any) -> set[int]:
        await store.connection.write("EXPIRE", key, 30)  # as much of its minute has passed by now
        done = await drop(*arguments)
        left.append(await store.connection.read("TTL", key))
        return done

    monkeypatch.setattr(upkeep, "_drop_small", drop_late)
    assert await workspace.purge(before=LATER) == 1
    assert len(left) == 6
    assert min(left) > 30


@pytest.mark.parametrize("purged", [True, False])
async def test_a_backup_that_lost_its_workspace_leaves_no_file(
    store_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purged: bool
) -> None:
    settings = attrs.evolve(store_settings, data_dir=tmp_path / "data", falkordb_url=None)
    original, path = backup._chunks, tmp_path / "backup.zap"
    async with open_store(settings) as store:
        workspace = store.workspace("default")
        memories = [memory_of(f"text {number}") for number in range(3)]
        for memory in memories:
            await workspace.add(memory, chunks_of(memory.text))

        async def sleep_first(space: Any, file: Any, first: int, count: int) -> None:
            if first == 2:
                await lose(store.connection, workspace)
                if purged:
                    await workspace.delete(memories[1].id, now=NOW)
                    await workspace.purge(before=LATER)
            await original(space, file, first, count)

        monkeypatch.setattr(backup, "_chunks", sleep_first)
        with pytest.raises(DatabaseError, match="went away" if purged else "held up"):
            await store.back_up(path)
        assert not path.exists()


@pytest.fixture
async def saved(store_settings: Settings, tmp_path: Path) -> Path:
    """Return a backup of twenty memories."""
    path = tmp_path / "backup.zap"
    settings = attrs.evolve(store_settings, data_dir=tmp_path / "origin", falkordb_url=None)
    async with open_store(settings) as store:
        for number in range(20):
            text = f"text {number}"
            await store.workspace("default").add(memory_of(text), chunks_of(text))
        await store.back_up(path)
    return path


async def test_who_comes_during_a_restore_waits_for_its_end(
    store_settings: Settings, tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = attrs.evolve(store_settings, data_dir=tmp_path / "target", falkordb_url=None)
    original, taken = recovery.Recovery.take, 0
    async with open_store(settings) as store, open_store(settings) as other:
        asked = asks_for_upkeep(monkeypatch, other.connection)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:

                async def take(self: recovery.Recovery, kind: bytes, payload: bytes) -> None:
                    nonlocal taken
                    taken += 1
                    await original(self, kind, payload)
                    if taken == 5:
                        await self._flush()
                        nursery.start_soon(other.list_workspaces)
                        await asked.wait()

                monkeypatch.setattr(recovery.Recovery, "take", take)
                assert await store.restore(saved) == ("default",)
        workspace = other.workspace("default")
        assert (await workspace.info()).memories == 20
        assert {summary.id for summary in (await workspace.list(limit=50)).memories} == {
            passage.memory_id
            for passage in await workspace.passages((await workspace.search_words({"text": 1.0}, count=None)).numbers)
        }


async def test_a_restore_that_lost_its_workspace_shows_nothing(
    store_settings: Settings, tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = attrs.evolve(store_settings, data_dir=tmp_path / "target", falkordb_url=None)
    original = recovery.Recovery.take
    async with open_store(settings) as store, open_store(settings) as other:

        async def take(self: recovery.Recovery, kind: bytes, payload: bytes) -> None:
            if kind == b"E":
                await lose(other.connection, store.workspace("default"))
                await other.workspace("default").add(memory_of("new"), chunks_of("new"))
            await original(self, kind, payload)

        monkeypatch.setattr(recovery.Recovery, "take", take)
        with pytest.raises(DatabaseError, match="held up"):
            await store.restore(saved)
        assert (await other.workspace("default").info()).memories == 1
        assert [info.memories for info in await other.list_workspaces()] == [1]
