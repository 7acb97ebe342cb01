"""Deleted is out of sight at once, can come back, and is gone for good after the purge."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from tests.stores import LATER, MODEL, NOW, chunks_of, memory_of, vector_of
from zapomni.errors import NotFoundError, ValidationError
from zapomni.models import Filters
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.models import NewMemory
    from zapomni.store.workspace import Workspace

LONG = " ".join(f"long{number}" for number in range(1500))


async def visible(workspace: Workspace, memory: NewMemory) -> bool:
    """Tell whether a memory is found, all ways agreeing."""
    word = memory.text.split()[-1]
    numbers = (await workspace.search_words({word: 1.0}, count=None)).numbers
    answers = {
        memory.id in {passage.memory_id for passage in await workspace.passages(numbers)},
        memory.id in {summary.id for summary in (await workspace.list(filters=Filters(tags=("t",)))).memories},
        memory.id in {await workspace.find_text(memory.text), await workspace.find_key(memory.key or "none")},
    }
    assert len(answers) == 1
    return answers.pop()


@pytest.mark.parametrize("text", ["short text", LONG])
async def test_a_deleted_memory_is_gone_at_once_and_can_come_back(workspace: Workspace, text: str) -> None:
    memory, other = memory_of(text, key="k", tags=("t",)), memory_of("other", tags=("t",))
    for each in (memory, other):
        await workspace.add(each, chunks_of(each.text))
    before = await workspace.info()
    await workspace.delete(memory.id, now=NOW)
    assert not await visible(workspace, memory)
    assert await visible(workspace, other)
    nearest = await workspace.search_vectors(vector_of("x"), MODEL, count=1000)
    assert [passage.text for passage in await workspace.passages(nearest.numbers)] == ["other"]
    assert len(nearest.numbers) == 1
    assert (await workspace.info()).trashed == 1
    assert await workspace.find_key("k") is None
    assert await workspace.tags() == {"t": 1}
    (trashed,) = await workspace.trashed()
    assert (trashed.id, trashed.deleted_at) == (memory.id, NOW)
    assert (await workspace.get(memory.id, trashed=True)).text == text
    for attempt in (workspace.get(memory.id), workspace.delete(memory.id, now=NOW)):
        with pytest.raises(NotFoundError):
            await attempt
    with pytest.raises(ValidationError, match="trash"):
        await workspace.add(memory, chunks_of(text))

    await workspace.restore(memory.id)
    await workspace.restore(memory.id)
    assert await visible(workspace, memory)
    assert (await workspace.get(memory.id)).text == text
    assert await workspace.find_key("k") == memory.id
    while (pending := await workspace.pending(MODEL)).passages:
        await workspace.add_vectors(MODEL, pending, [vector_of(passage.text) for passage in pending.passages])
    assert await workspace.info() == before
    assert len((await workspace.search_vectors(vector_of("x"), MODEL, count=1000)).numbers) == before.chunks


async def test_a_key_that_was_given_away_keeps_the_old_memory_in_the_trash(workspace: Workspace) -> None:
    old, new = memory_of("old", key="k"), memory_of("new", key="k")
    await workspace.add(old, chunks_of("old"))
    await workspace.delete(old.id, now=NOW)
    await workspace.add(new, chunks_of("new"))
    with pytest.raises(ValidationError, match=new.id):
        await workspace.restore(old.id)
    assert (await workspace.get(new.id)).text == "new"


async def test_deleted_text_can_be_stored_anew(workspace: Workspace) -> None:
    old, new = memory_of("text"), memory_of("text")
    await workspace.add(old, chunks_of("text"))
    await workspace.delete(old.id, now=NOW)
    assert not (await workspace.add(new, chunks_of("text"))).duplicate
    await workspace.restore(old.id)
    assert (await workspace.info()).memories == 2


async def test_a_text_that_two_memories_have_is_theirs_until_both_are_gone(workspace: Workspace) -> None:
    ids = []
    for _ in range(2):  # the second is stored while the first is in the trash
        memory = memory_of("text")
        assert not (await workspace.add(memory, chunks_of("text"))).duplicate
        ids.append(memory.id)
        if len(ids) == 1:
            await workspace.delete(memory.id, now=NOW)
    await workspace.restore(ids[0])
    third = memory_of("another text")
    await workspace.add(third, chunks_of(third.text))
    await workspace.update(memory_of("text", id=third.id), chunks_of("text"))
    for left in ([ids[1], ids[0], third.id], [ids[0], third.id], [third.id]):
        receipt = await workspace.add(memory_of("text"), chunks_of("text"))
        assert (receipt.memory_id, receipt.duplicate) == (left[0], True)
        assert await workspace.find_text("text") == left[0]
        await workspace.update(memory_of("text", id=left[0], metadata={"a": len(left)}), chunks_of("text"))
        await workspace.delete(left[0], now=NOW)
    assert not (await workspace.add(memory_of("text"), chunks_of("text"))).duplicate


async def test_only_what_was_deleted_long_ago_is_purged(workspace: Workspace) -> None:
    early, late = memory_of("early"), memory_of("late")
    for memory, moment in ((early, NOW), (late, LATER)):
        await workspace.add(memory, chunks_of(memory.text))
        await workspace.delete(memory.id, now=moment)
    assert await workspace.purge(before=LATER) == 1
    assert [summary.id for summary in await workspace.trashed()] == [late.id]
    with pytest.raises(NotFoundError):
        await workspace.restore(early.id)
    await workspace.restore(late.id)


async def test_a_purge_and_writers_do_not_disturb_each_other(workspace: Workspace) -> None:
    """Words that are shared keep the entries of everybody who writes meanwhile."""
    for number in range(60):
        memory = memory_of(f"shared gone{number}", tags=("gone",))
        await workspace.add(memory, chunks_of(memory.text))
        if number % 3:
            await workspace.delete(memory.id, now=NOW)

    async def write() -> None:
        for number in range(40):
            memory = memory_of(f"shared kept{number}", tags=("kept",))
            await workspace.add(memory, chunks_of(memory.text))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            assert await workspace.purge(before=LATER) == 40
    assert len((await workspace.search_words({"shared": 1.0}, count=None)).numbers) == 60
    assert len((await workspace.list(filters=Filters(tags=("kept", "gone")), limit=200)).memories) == 60
    assert await workspace.tags() == {"kept": 40, "gone": 20}


@pytest.mark.parametrize("kept", [[], [0], [4], [0, 4], [2]])
async def test_neighbours_that_are_purged_together_leave_a_row_of_the_others(
    workspace: Workspace, kept: list[int]
) -> None:
    memories = [memory_of(f"text {number}", source="talk") for number in range(5)]
    for memory in memories:
        await workspace.add(memory, chunks_of(memory.text))
    for number, memory in enumerate(memories):
        if number not in kept:
            await workspace.delete(memory.id, now=NOW)
    assert await workspace.purge(before=LATER) == 5 - len(kept)
    row = await workspace._space.ask("MATCH (m)-[:NEXT]->(n) RETURN m.id, n.id")
    assert row == [[memories[a].id.encode(), memories[b].id.encode()] for a, b in pairwise(kept)]
    latest = await workspace._space.ask("MATCH (s:Source) OPTIONAL MATCH (s)-[:LATEST]->(m) RETURN m.id")
    assert latest == [[memories[number].id.encode()] for number in kept[-1:]]


async def test_nothing_of_a_purged_memory_is_left_in_the_store(store_settings: Settings, tmp_path: Path) -> None:
    secrets = ["Xylophone", "Quetzal", "Wyvern", "Zeppelin", "Yggdrasil", "Umlaut", "Vicuna"]
    text, version, tag, source, key, value, name = secrets
    settings = attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None)
    async with open_store(settings) as store:
        workspace = store.workspace("default")
        kept = memory_of("kept")
        await workspace.add(kept, chunks_of("kept"))
        fields = {"tags": (tag,), "source": source, "key": key, "metadata": {name: value}}
        memory = memory_of(f"{version} was before", **fields)
        await workspace.add(memory, chunks_of(memory.text, 9))
        large = " ".join([text, *(f"{text}{number}" for number in range(500))])
        await workspace.update(memory_of(large, id=memory.id, **fields), chunks_of(large))
        assert await leftovers(store.connection, settings, secrets) == set(secrets)
        await workspace.delete(memory.id, now=NOW)
        assert await workspace.purge(before=LATER + timedelta(days=1)) == 1
        assert await leftovers(store.connection, settings, secrets) == set()
        assert (await workspace.get(kept.id)).text == "kept"
        assert await store.connection.read("VCARD", workspace._space.keys.vectors(1)) == 1
        assert await workspace._space.ask("MATCH (n) RETURN labels(n)[0], count(n) ORDER BY labels(n)[0]") == [
            [b"Chunk", 1],
            [b"Memory", 1],
        ]


async def leftovers(connection: object, settings: Settings, secrets: list[str]) -> set[str]:
    """Return which of the secrets are in a key, or in the files of the server once it has compacted them."""
    from zapomni.store.connection import Connection

    assert isinstance(connection, Connection)
    keys = b" ".join(await connection.read("KEYS", "*"))
    await connection.write("CONFIG", "SET", "rdbcompression", "no")
    await connection.write("BGREWRITEAOF")
    busy = True
    with trio.fail_after(30):
        while busy:
            await trio.sleep(0.02)
            info = await connection.read("INFO", "persistence")
            busy = b"aof_rewrite_in_progress:1" in info or b"aof_rewrite_scheduled:1" in info
    files = [path.read_bytes() for path in (settings.data_dir / "store").rglob("*.rdb")]
    files += [path.read_bytes() for path in (settings.data_dir / "store").rglob("*.aof")]
    assert files
    return {secret for secret in secrets if any(secret.encode() in data for data in (keys, *files))}
