"""Deleting: at once out of every answer, back within the retention, and gone for good afterwards."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import trio

from tests.engines import by_words, found
from zapomni.engine import adding
from zapomni.engine.upkeep import Upkeep, purge
from zapomni.errors import DatabaseError, NotFoundError
from zapomni.models import Filters

if TYPE_CHECKING:
    from pathlib import Path

    from tests.engines import FakeEmbedder
    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine

TALK = {"source": "talk", "tags": ["Talktag"]}


async def raw(engine: MemoryEngine) -> bytes:
    """Return everything that the store holds of the current workspace: every key, its name and its value."""
    space = engine._store.workspace(engine.current_workspace)._space
    read = space.connection.read
    parts: list[bytes] = []
    cursor = b"0"
    while True:
        cursor, keys = await read("SCAN", cursor, "MATCH", f"{{zapomni:{space.name}}}*", "COUNT", 1000)
        for key in keys:
            parts += [key, await read("DUMP", key) or b""]
        if cursor == b"0":
            break
    for name in ("cards", "hashes", "names"):
        for bucket in {getattr(space.keys, name)(str(number)) for number in range(3000)}:
            parts += await read("HGETALL", bucket)
    parts += await read("SMEMBERS", space.keys.index)
    for rows in (
        await space.ask("MATCH (n) RETURN n.text, n.metadata, n.tags, n.source, n.key, n.name, n.id"),
        await space.ask("CALL db.indexes() YIELD label RETURN label"),
    ):
        parts += [cell for row in rows for cell in row if isinstance(cell, bytes)]
    return b"\n".join(parts).lower()


async def forget(engine: MemoryEngine) -> None:
    """Purge what was deleted, as the background task does once the retention is over."""
    await purge(await engine._workspace(None), datetime.now(UTC) + timedelta(seconds=1))


async def test_a_deleted_memory_is_in_no_answer_and_comes_back(simple_engine: MemoryEngine) -> None:
    kept = await simple_engine.add_memory("the violin stays", {"tags": ["a"]})
    receipt = await simple_engine.add_memory("the viola goes", {"tags": ["b"]}, key="k")
    deleted = await simple_engine.delete_memory(receipt.memory_id)
    assert (deleted.text, deleted.deleted_at is not None) == ("the viola goes", True)
    assert await found(simple_engine, "viola") == ["the violin stays"]  # by meaning, as far as the model knows
    assert await by_words(simple_engine, "viola") == set()
    assert [memory.id for memory in (await simple_engine.list_memories()).memories] == [kept.memory_id]
    assert await simple_engine.tags() == {"a": 1}
    for call in (simple_engine.get_memory, simple_engine.delete_memory):
        with pytest.raises(NotFoundError):
            await call(receipt.memory_id)
    with pytest.raises(NotFoundError):
        await simple_engine.update_memory(receipt.memory_id, text="new")
    restored = await simple_engine.restore_memory(receipt.memory_id)
    assert (restored.text, restored.key, restored.deleted_at) == ("the viola goes", "k", None)
    assert (await found(simple_engine, "viola"))[0] == "the viola goes"
    assert (await simple_engine.workspace_info()).pending == 0


async def test_a_restored_memory_is_found_by_its_meaning_again(simple_engine: MemoryEngine) -> None:
    receipt = await simple_engine.add_memory("automobile")
    await simple_engine.add_memory("nothing alike")
    await simple_engine.delete_memory(receipt.memory_id)
    await simple_engine.restore_memory(receipt.memory_id)
    assert (await found(simple_engine, "car"))[0] == "automobile"


async def test_a_restored_memory_waits_for_a_model_that_is_down(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    receipt = await simple_engine.add_memory("the viola")
    await simple_engine.delete_memory(receipt.memory_id)
    embedder.down = True
    assert (await simple_engine.restore_memory(receipt.memory_id)).text == "the viola"
    assert (await simple_engine.workspace_info()).pending == 1
    assert await found(simple_engine, "viola") == ["the viola"]


async def test_the_text_of_a_deleted_memory_can_be_stored_anew(simple_engine: MemoryEngine) -> None:
    first = await simple_engine.add_memory("the viola")
    await simple_engine.delete_memory(first.memory_id)
    second = await simple_engine.add_memory("the viola")
    assert (second.duplicate, second.memory_id != first.memory_id) == (False, True)


async def test_a_memory_whose_text_is_damaged_can_be_deleted(simple_engine: MemoryEngine) -> None:
    receipt = await simple_engine.add_memory("the truth")
    space = (await simple_engine._workspace(None))._space
    await space.connection.write(*space.statement("MATCH (c:Chunk) SET c.text = 'the lie'"))
    with pytest.raises(DatabaseError, match="damaged"):
        await simple_engine.get_memory(receipt.memory_id)
    assert (await simple_engine.delete_memory(receipt.memory_id)).id == receipt.memory_id
    assert (await simple_engine.list_memories()).memories == ()


async def test_what_is_not_there_can_neither_be_deleted_nor_restored(simple_engine: MemoryEngine) -> None:
    for call in (simple_engine.delete_memory, simple_engine.restore_memory):
        with pytest.raises(NotFoundError):
            await call(str(uuid.uuid4()))


async def test_purged_means_gone_from_the_raw_store(simple_engine: MemoryEngine) -> None:
    """Every word of the text, its versions, its metadata, its key and its context goes, wherever it was noted."""
    secret = await simple_engine.add_memory(
        "Xylography and quixotic zugzwang. " + " ".join(f"filler{number} words" for number in range(300)),
        {**TALK, "secretkey": "secretvalue", "tags": ["Secrettag"]},
        key="Secretname",
    )
    await simple_engine.update_memory(secret.memory_id, text="Kumquat instead of it")
    await simple_engine.update_memory(secret.memory_id, text="Jabberwock at last")
    await simple_engine.add_memory("an answer that stays", TALK)
    await simple_engine.delete_memory(secret.memory_id)
    await forget(simple_engine)
    left = await raw(simple_engine)
    for word in ("xylograph", "quixot", "zugzwang", "filler7", "kumquat", "jabberwock", "secret"):
        assert word.encode() not in left
    assert secret.memory_id.encode() not in left
    assert b"answer" in left
    assert await found(simple_engine, "answer") == ["an answer that stays"]
    with pytest.raises(NotFoundError):
        await simple_engine.restore_memory(secret.memory_id)


async def test_a_deleted_memory_is_gone_from_the_log_of_the_store(simple_engine: MemoryEngine) -> None:
    receipt = await simple_engine.add_memory("Xylographer wanted", {"source": "talk"})
    await simple_engine.add_memory("what follows stays", {"source": "talk"})
    connection = simple_engine._store.connection
    if connection.directory is None:
        pytest.skip("the files of a server elsewhere are out of reach")
    assert b"xylograph" in (await trio.to_thread.run_sync(log_of, connection.directory)).lower()
    await simple_engine.delete_memory(receipt.memory_id)
    await forget(simple_engine)
    await connection.write("CONFIG", "SET", "rdbcompression", "no")  # to be able to read it
    await connection.write("BGREWRITEAOF")
    with trio.fail_after(30):
        # It happens in another process.
        while b"aof_rewrite_in_progress:1" in await connection.read("INFO", "persistence"):  # noqa: ASYNC110
            await trio.sleep(0.05)
    await connection.write("CONFIG", "SET", "rdbcompression", "yes")
    log = await trio.to_thread.run_sync(log_of, connection.directory)
    assert b"what follows stays" in log
    assert b"xylograph" not in log.lower()


def log_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file() and "aof" in path.name)


async def test_the_next_memory_is_no_longer_found_by_the_words_of_a_deleted_one(simple_engine: MemoryEngine) -> None:
    texts = ("first alpha", "second beta", "third gamma", "fourth delta")
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in texts]
    assert await by_words(simple_engine, "beta") == {ids[1], ids[2]}
    await simple_engine.delete_memory(ids[1])
    assert await by_words(simple_engine, "beta") == set()
    assert await by_words(simple_engine, "alpha") == {ids[0], ids[2]}  # that is what stands before it now
    assert await by_words(simple_engine, "gamma") == {ids[2], ids[3]}
    await simple_engine.delete_memory(ids[0])
    assert await by_words(simple_engine, "alpha") == set()
    assert await by_words(simple_engine, "gamma") == {ids[2], ids[3]}
    assert (await simple_engine.get_memory(ids[2])).version == 1  # indexed anew, and no new version


async def test_a_restored_memory_is_what_stands_before_again(simple_engine: MemoryEngine) -> None:
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in ("alpha", "beta", "gamma")]
    await simple_engine.delete_memory(ids[1])
    await simple_engine.restore_memory(ids[1])
    assert await by_words(simple_engine, "beta") == {ids[1], ids[2]}
    assert await by_words(simple_engine, "alpha") == {ids[0], ids[1]}


async def test_the_next_memory_follows_what_an_earlier_one_was_changed_to(simple_engine: MemoryEngine) -> None:
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in ("alpha", "beta", "gamma")]
    await simple_engine.update_memory(ids[0], text="omega")
    assert await by_words(simple_engine, "alpha") == set()
    assert await by_words(simple_engine, "omega") == {ids[0], ids[1]}
    await simple_engine.update_memory(ids[1], metadata={"source": "elsewhere"})
    assert await by_words(simple_engine, "omega") == {ids[0], ids[2]}
    assert await by_words(simple_engine, "beta") == {ids[1]}


async def test_what_is_in_the_trash_forgets_the_words_before_it_too(simple_engine: MemoryEngine) -> None:
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in ("Xylographer", "beta", "gamma")]
    await simple_engine.delete_memory(ids[1])
    await simple_engine.delete_memory(ids[0])
    await forget_only(simple_engine, ids[0])
    await simple_engine.restore_memory(ids[1])
    assert b"xylograph" not in await raw(simple_engine)
    assert await by_words(simple_engine, "beta") == {ids[1], ids[2]}


async def forget_only(engine: MemoryEngine, memory_id: str) -> None:
    """Purge one memory of those in the trash."""
    workspace = await engine._workspace(None)
    moment = datetime(2000, 1, 1, tzinfo=UTC)
    query = workspace._space.statement("MATCH (t:Trash {id: $id}) SET t.deleted_at = 0", id=memory_id)
    await workspace._space.connection.write(*query)
    assert await purge(workspace, moment) == 1


async def test_a_deletion_that_broke_off_is_made_good_before_the_purge(simple_engine: MemoryEngine) -> None:
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in ("Xylographer", "beta")]
    workspace = await simple_engine._workspace(None)
    await workspace.delete(ids[0], now=datetime.now(UTC))  # and then the process died
    assert await by_words(simple_engine, "xylograph") == {ids[1]}
    await forget(simple_engine)
    assert b"xylograph" not in await raw(simple_engine)
    assert await by_words(simple_engine, "beta") == {ids[1]}


async def test_a_change_that_broke_off_is_made_good_before_the_purge(
    simple_engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in ("Xylographer", "beta")]

    async def die(*args: object, **options: object) -> bool:
        return True

    with monkeypatch.context() as patch:
        patch.setattr(adding, "refresh", die)
        await simple_engine.update_memory(ids[0], text="omega")
    assert await by_words(simple_engine, "xylograph") == {ids[1]}
    await forget(simple_engine)
    assert await by_words(simple_engine, "xylograph") == set()
    assert await by_words(simple_engine, "omega") == set(ids)


async def test_nobody_waits_for_others_who_hold_the_workspace(simple_engine: MemoryEngine) -> None:
    texts = ("alpha", "beta", "gamma", "delta", "epsilon")
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in texts]
    await simple_engine.delete_memory(ids[3])
    space = (await simple_engine._workspace(None))._space
    async with space.upkeep():
        with trio.fail_after(10):  # half of what waiting for the workspace once would take
            await simple_engine.delete_memory(ids[1])
            await simple_engine.update_memory(ids[0], text="omega")
            await simple_engine.restore_memory(ids[3])
        assert await by_words(simple_engine, "beta") == {ids[2]}
    with trio.fail_after(20):
        for word, holders in (("omega", {ids[0], ids[2]}), ("delta", {ids[3], ids[4]})):
            while await by_words(simple_engine, word) != holders:  # noqa: ASYNC110  # it is seen in the store alone
                await trio.sleep(0.05)
    assert await by_words(simple_engine, "beta") == await by_words(simple_engine, "alpha") == set()


async def test_a_restored_memory_is_embedded_and_nothing_else_on_its_account(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    ids = [(await simple_engine.add_memory(text)).memory_id for text in ("alpha", "beta", "gamma")]
    workspace = await simple_engine._workspace(None)
    for memory_id in ids:
        await workspace.delete(memory_id, now=datetime.now(UTC))
    for memory_id in (ids[0], ids[2]):
        await workspace.restore(memory_id)
    before = embedder.embedded
    await simple_engine.restore_memory(ids[1])
    assert embedder.embedded == before + 1
    assert (await simple_engine.workspace_info()).pending == 2


async def test_lists_that_end_in_the_middle_of_an_entry_stop_nothing(simple_engine: MemoryEngine) -> None:
    ids = [(await simple_engine.add_memory(text, TALK)).memory_id for text in ("alpha beta", "beta gamma", "delta")]
    space = (await simple_engine._workspace(None))._space
    for name in await space.read("SMEMBERS", space.keys.index):
        await space.connection.write("APPEND", space.keys.entry(name.decode()), b"xyz")
    assert set(await found(simple_engine, "beta")) >= {"alpha beta", "beta gamma"}
    result = await simple_engine.search_memory("beta", filters=Filters(source="talk"))
    assert {hit.memory_id for hit in result.hits} >= set(ids[:2])
    await simple_engine.delete_memory(ids[0])
    await forget(simple_engine)
    assert await by_words(simple_engine, "alpha") == set()
    assert ids[1] in await by_words(simple_engine, "gamma")


async def test_two_that_came_at_once_both_forget_what_stood_before_them(simple_engine: MemoryEngine) -> None:
    first = (await simple_engine.add_memory("Xylographer", TALK)).memory_id
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(simple_engine.add_memory, f"answer {number}", TALK)
    await simple_engine.delete_memory(first)
    assert await by_words(simple_engine, "xylograph") == set()
    await forget(simple_engine)
    assert b"xylograph" not in await raw(simple_engine)
    assert len(await by_words(simple_engine, "answer")) == 6


async def test_deleting_from_both_ends_while_others_add_leaves_no_foreign_word(simple_engine: MemoryEngine) -> None:
    """Whatever the order, in the end a memory is found by its own words and those of the one before it."""
    ids = [(await simple_engine.add_memory(f"word{number}x", TALK)).memory_id for number in range(12)]

    async def delete(numbers: range) -> None:
        for number in numbers:
            await simple_engine.delete_memory(ids[number])

    async def add() -> None:
        for number in range(6):
            await simple_engine.add_memory(f"late{number}x", TALK)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete, range(0, 5))
            nursery.start_soon(delete, range(11, 7, -1))
            nursery.start_soon(add)
    await forget(simple_engine)
    left = await raw(simple_engine)
    for number in (*range(0, 5), *range(8, 12)):
        assert f"word{number}x".encode() not in left
    for number in (5, 6, 7):
        assert ids[number] in await by_words(simple_engine, f"word{number}x")


async def test_the_background_task_purges_after_the_retention_only(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    receipt = await simple_engine.add_memory("the viola")
    await simple_engine.delete_memory(receipt.memory_id)
    for retention, left in ((timedelta(days=30), 1), (timedelta(minutes=11), 0)):
        if not left:
            space = (await simple_engine._workspace(None))._space
            old = round((datetime.now(UTC) - timedelta(minutes=12)).timestamp() * 1e6)
            await space.connection.write(*space.statement("MATCH (t:Trash) SET t.deleted_at = $old", old=old))
        upkeep = Upkeep(simple_engine._store, embedder, retention)
        await upkeep._for_each(lambda info: info.name == simple_engine.current_workspace, upkeep._purge)
        assert (await simple_engine.workspace_info()).trashed == left


async def test_a_cleared_workspace_is_empty_and_still_there(
    simple_engine: MemoryEngine, store_settings: Settings
) -> None:
    await simple_engine.add_memory("Xylographer", TALK, key="k")
    name = simple_engine.current_workspace
    assert (await simple_engine.clear_workspace(name)).memories == 1
    assert (await simple_engine.workspace_info()).memories == 0
    assert await found(simple_engine, "xylographer") == []
    assert b"xylograph" not in await raw(simple_engine)
    assert not (await simple_engine.add_memory("Xylographer", TALK, key="k")).duplicate
