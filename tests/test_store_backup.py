"""A backup holds everything of one moment, and comes back only when it is whole."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from tests.stores import LATER, MODEL, NOW, chunks_of, latest_of, memory_of, vector_of
from zapomni.errors import ConfigError, DatabaseError
from zapomni.models import Filters
from zapomni.store import trash
from zapomni.store.reading import find_card
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

LONG = " ".join(f"long{number}" for number in range(1200))


@pytest.fixture
async def origin(store_settings: Settings, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(attrs.evolve(store_settings, data_dir=tmp_path / "origin", falkordb_url=None)) as store:
        yield store


@pytest.fixture
async def target(store_settings: Settings, tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(attrs.evolve(store_settings, data_dir=tmp_path / "target", falkordb_url=None)) as store:
        yield store


def names_in(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


async def populate(store: Store) -> None:
    workspace = store.workspace("default")
    for number in range(12):
        text = f"text {number} \x00 \x1a"
        fields: dict[str, Any] = {
            "tags": ("t", f"t{number % 3}"),
            "source": "talk",
            "metadata": {"n": number, "big": 10**30},
        }
        memory = memory_of(text, timestamp=LATER if number % 2 else None, **fields)
        preceding = await workspace.preceding("talk")
        memory = attrs.evolve(memory, after=None if preceding is None else preceding.first)
        await workspace.add(memory, chunks_of(text, 5, overlap=2))
        if number == 3:
            await workspace.delete(memory.id, now=NOW)
        if number == 4:
            changed = memory_of("changed", id=memory.id, created_at=LATER, **fields)
            await workspace.update(changed, chunks_of("changed"))
            await workspace.update(attrs.evolve(changed, text="changed again"), chunks_of("changed again"))
    await workspace.add(memory_of(LONG, key="key"), chunks_of(LONG))
    await workspace.add(memory_of("without vector", model=None), chunks_of("without vector", model=None))
    await store.create_workspace("work")
    await store.workspace("work").add(memory_of("at work"), chunks_of("at work"))


async def picture(workspace: Workspace) -> dict[str, Any]:
    """Return everything that can be asked of a workspace."""
    page = await workspace.list(limit=1000)
    ids = [summary.id for summary in page.memories]
    words = await workspace.search_words({"text": 1.0, "long7": 1.0, "changed": 1.0, "4": 1.0}, count=None)
    tagged = await workspace.search_words({"text": 1.0}, count=None, filters=Filters(tags=("t1",), date_from=LATER))
    vectors = await workspace.search_vectors(vector_of("q"), MODEL, count=1000)
    return {
        "memories": [attrs.asdict(await workspace.get(memory_id)) for memory_id in ids],
        "history": {memory_id: await workspace.history(memory_id) for memory_id in ids},
        "trash": await workspace.trashed(),
        "words": (words.numbers.tolist(), words.values.tolist()),
        "tagged": (tagged.numbers.tolist(), tagged.values.tolist()),
        "vectors": sorted(vectors.numbers.tolist()),
        "cosines": vectors.values.tolist(),
        "row": [await workspace.preceding("talk", memory_id=memory_id) for memory_id in ids],
        "contexts": await workspace._space.ask("MATCH (m)-[:AFTER]->(a) RETURN m.first, a.first ORDER BY m.first"),
        "latest": await latest_of(workspace, "talk"),
        "tags": await workspace.tags(),
        "info": await workspace.info(),
        "model": await workspace.model(),
        "pending": [passage.number for passage in (await workspace.pending(MODEL)).passages],
        "key": await workspace.find_key("key"),
    }


async def test_everything_comes_back(origin: Store, target: Store, tmp_path: Path) -> None:
    await populate(origin)
    path = tmp_path / "backup"
    await origin.back_up(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["backup", "origin"]
    with trio.fail_after(30):
        assert await target.restore(path) == ("default", "work")
    for name in ("default", "work"):
        restored, given = await picture(target.workspace(name)), await picture(origin.workspace(name))
        assert restored.pop("cosines") == pytest.approx(given.pop("cosines"), abs=0.02)
        assert restored == given

    # It is a store like any other.
    workspace = target.workspace("default")
    receipt = await workspace.add(memory_of("new", source="talk", key="key"), chunks_of("new"))
    assert receipt.replaced
    (trashed,) = await workspace.trashed()
    await workspace.restore(trashed.id)
    assert (await workspace.get(trashed.id)).text == "text 3 \x00 \x1a"
    await workspace.delete(trashed.id, now=NOW)
    assert await workspace.purge(before=LATER) == 1
    again = tmp_path / "again"
    await target.back_up(again)
    assert again.stat().st_size > 0


async def test_a_backup_is_of_one_moment_while_others_write(origin: Store, target: Store, tmp_path: Path) -> None:
    await populate(origin)
    workspace = origin.workspace("default")
    before = {summary.id for summary in (await workspace.list(limit=1000)).memories}

    async def write() -> None:
        number = 0
        while True:
            text = f"meanwhile {number}"
            memory = memory_of(text, tags=("meanwhile",), source="talk")
            await workspace.add(memory, chunks_of(text, 4))
            if number % 3 == 0:
                await workspace.delete(memory.id, now=NOW)
            if number % 3 == 1:
                await workspace.update(attrs.evolve(memory, text=text + "!"), chunks_of(text + "!", 4))
            number += 1

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await trio.sleep(0.2)
            await origin.back_up(tmp_path / "backup")
            nursery.cancel_scope.cancel()
        await target.restore(tmp_path / "backup")
    restored = target.workspace("default")
    page = await restored.list(limit=10_000)
    assert before <= {summary.id for summary in page.memories}
    assert (await restored.info()).memories == len(page.memories)
    total = 0
    for summary in page.memories:
        memory = await restored.get(summary.id)
        assert len(memory.text) == summary.length
        total += memory.chunks
    assert (await restored.info()).chunks == total
    found = await restored.search_words(
        {"meanwhile": 1.0, "mean": 1.0}, count=None, filters=Filters(tags=("meanwhile",))
    )
    texts = {passage.memory_id for passage in await restored.passages(found.numbers)}
    assert texts == {summary.id for summary in page.memories if summary.preview.startswith("mean")}


async def test_a_purge_waits_for_a_backup(origin: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = origin.workspace("default")
    memory = memory_of("text")
    await workspace.add(memory, chunks_of("text"))
    await workspace.delete(memory.id, now=NOW)
    monkeypatch.setattr("zapomni.store.space.UPKEEP_WAIT", 0.1)
    async with workspace._space.upkeep():
        with pytest.raises(DatabaseError, match="backup"):
            await workspace.purge(before=LATER)
    assert await workspace.purge(before=LATER) == 1


async def test_a_purge_that_broke_off_is_not_backed_up(origin: Store, target: Store, tmp_path: Path) -> None:
    workspace = origin.workspace("default")
    memory, other = memory_of("purged"), memory_of("kept")
    for each in (memory, other):
        await workspace.add(each, chunks_of(each.text))
    await workspace.delete(memory.id, now=NOW)
    card = await find_card(workspace._space, memory.id)
    assert card is not None
    assert await trash._drop(workspace._space, memory.id, card.first)
    await origin.back_up(tmp_path / "backup")
    await target.restore(tmp_path / "backup")
    restored = target.workspace("default")
    assert [summary.id for summary in (await restored.list()).memories] == [other.id]
    assert await restored.trashed() == ()
    assert await restored._space.ask("MATCH (c:Chunk) RETURN count(c)") == [[1]]


async def test_a_damaged_backup_is_refused(origin: Store, target: Store, tmp_path: Path) -> None:
    await origin.workspace("default").add(memory_of("text"), chunks_of("text"))
    path = tmp_path / "backup"
    await origin.back_up(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged in (
        whole[:-1],
        whole + b"x",
        whole[:middle],
        whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        b"",
        b"something else",
        whole.replace(b"backup 1", b"backup 2", 1),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ConfigError):
            await target.restore(path)
    with pytest.raises(ConfigError):
        await target.restore(tmp_path / "nothing")
    assert (await target.workspace("default").info()).memories == 0
    path.write_bytes(whole)
    await target.restore(path)
    assert (await target.workspace("default").info()).memories == 1


async def test_a_store_that_is_in_use_is_not_overwritten(origin: Store, target: Store, tmp_path: Path) -> None:
    await origin.workspace("default").add(memory_of("text"), chunks_of("text"))
    await origin.back_up(tmp_path / "backup")
    await target.workspace("default").add(memory_of("mine"), chunks_of("mine"))
    with pytest.raises(ConfigError, match="in use"):
        await target.restore(tmp_path / "backup")
    assert [summary.preview for summary in (await target.workspace("default").list()).memories] == ["mine"]


async def test_a_backup_that_cannot_be_written_leaves_nothing(origin: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        await origin.back_up(tmp_path / "no" / "such" / "folder")
    old = tmp_path / "backup"
    old.write_bytes(b"old")
    with trio.CancelScope() as scope:
        scope.cancel()
        await origin.back_up(old)
    assert old.read_bytes() == b"old"
    assert names_in(tmp_path) == ["backup", "origin"]


async def test_a_text_that_two_memories_have_is_still_theirs(origin: Store, target: Store, tmp_path: Path) -> None:
    workspace, restored = origin.workspace("default"), target.workspace("default")
    for fields in ({}, {"distinct": True}):
        await workspace.add(memory_of("text", **fields), chunks_of("text"))
    await origin.back_up(tmp_path / "backup")
    await target.restore(tmp_path / "backup")
    for _ in range(2):
        receipt = await restored.add(memory_of("text"), chunks_of("text"))
        assert receipt.duplicate
        await restored.delete(receipt.memory_id, now=NOW)
    assert not (await restored.add(memory_of("text"), chunks_of("text"))).duplicate
