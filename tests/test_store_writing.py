"""What goes in is there: whole, once, and as it was given."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stores import LATER, MODEL, NOW, chunks_of, latest_of, memory_of, own_workspace, vector_of
from zapomni.errors import ConfigError, DatabaseError, NotFoundError, ValidationError
from zapomni.models import EmbeddingModel, Filters, NewChunk
from zapomni.store import upkeep, writing
from zapomni.store.reindexing import BEFORE, NEXT
from zapomni.store.store import open_store
from zapomni.store.upkeep import drop_draft, sweep
from zapomni.store.writing import BATCH, LEASE_SECONDS, Draft

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

LONG = " ".join(f"word{number}" for number in range(2000))
JSON = st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.booleans()), max_size=3)


async def found(workspace: Workspace, word: str) -> list[int]:
    scores = await workspace.search_words({word: 1.0}, count=None)
    return [int(number) for number in scores.numbers]


async def traces(store: Store, workspace: Workspace) -> dict[str, Any]:
    """Return how many chunks, drafts, vectors and postings there are, seen or not."""
    space = workspace._space
    await workspace.purge(before=NOW)
    ((chunks,),) = await space.ask("MATCH (c:Chunk) RETURN count(c)")
    ((drafts,),) = await space.ask("MATCH (d:Draft) RETURN count(d)")
    vectors = await store.connection.read("VCARD", space.keys.vectors(1))
    entries = await store.connection.read("SCARD", space.keys.index)
    return {"chunks": chunks, "drafts": drafts, "vectors": vectors, "entries": entries}


@settings(max_examples=25, deadline=None)
@given(text=st.text(min_size=1, max_size=400), size=st.integers(1, 60), overlap=st.integers(0, 9), metadata=JSON)
async def test_a_memory_comes_back_as_it_went_in(
    store_settings: Settings, text: str, size: int, overlap: int, metadata: dict[str, Any]
) -> None:
    given_ = memory_of(text, metadata=metadata, timestamp=LATER, key="k\x00y", source='s"\\', tags=("t", "'"))
    async with own_workspace(store_settings) as workspace:
        receipt = await workspace.add(given_, chunks_of(text, size, overlap=overlap))
        memory = await workspace.get(receipt.memory_id)
        assert memory.text == text
        assert repr(memory.metadata) == repr(metadata)
        assert (memory.key, memory.timestamp, memory.created_at) == ("k\x00y", LATER, NOW)
        assert await workspace.find_key("k\x00y") == receipt.memory_id


async def test_a_memory_is_found_by_words_and_by_vector_at_once(workspace: Workspace) -> None:
    memory = memory_of("a quick fox")
    receipt = await workspace.add(memory, chunks_of(memory.text))
    (passage,) = await workspace.passages(await found(workspace, "fox"))
    assert (passage.memory_id, passage.text) == (receipt.memory_id, memory.text)
    scores = await workspace.search_vectors(vector_of(memory.text), MODEL, count=1)
    assert scores.numbers.tolist() == [passage.number]
    assert scores.values[0] == pytest.approx(1, abs=0.01)


async def test_the_same_id_again_changes_nothing(workspace: Workspace) -> None:
    memory = memory_of("first")
    await workspace.add(memory, chunks_of("first"))
    again = await workspace.add(attrs.evolve(memory, text="second"), chunks_of("second"))
    assert (again.memory_id, again.duplicate) == (memory.id, True)
    assert (await workspace.get(memory.id)).text == "first"
    assert (await workspace.info()).memories == 1


async def test_the_same_text_again_is_the_first_memory(workspace: Workspace) -> None:
    first, second = memory_of("same"), memory_of("same")
    assert not (await workspace.add(first, chunks_of("same"))).duplicate
    receipt = await workspace.add(second, chunks_of("same"))
    assert (receipt.memory_id, receipt.duplicate) == (first.id, True)
    with pytest.raises(NotFoundError):
        await workspace.get(second.id)


async def test_the_same_text_at_the_same_time_is_one_memory(store: Store, workspace: Workspace) -> None:
    receipts = []

    async def add() -> None:
        receipts.append(await workspace.add(memory_of("same"), chunks_of("same")))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(add)
    assert len({receipt.memory_id for receipt in receipts}) == 1
    assert [receipt.duplicate for receipt in receipts].count(False) == 1
    assert len(await found(workspace, "same")) == 1
    assert await traces(store, workspace) == {"chunks": 1, "drafts": 0, "vectors": 1, "entries": 2}


async def test_a_key_replaces_and_keeps_what_was(workspace: Workspace) -> None:
    one = memory_of("my first address", key="address", metadata={"n": 1}, source="s")
    two = memory_of("my second address", key="address", metadata={"n": 2}, created_at=LATER, source="s")
    await workspace.add(one, chunks_of(one.text))
    receipt = await workspace.add(two, chunks_of(two.text))
    assert (receipt.memory_id, receipt.replaced, receipt.duplicate) == (one.id, True, False)
    memory = await workspace.get(one.id)
    assert (memory.text, memory.version, memory.created_at, memory.updated_at) == (two.text, 2, NOW, LATER)
    (was,) = await workspace.history(one.id)
    assert (was.text, was.metadata, was.version) == (one.text, {"n": 1}, 1)
    assert await found(workspace, "first") == []
    assert len(await found(workspace, "address")) == 1
    nearest = await workspace.search_vectors(vector_of(one.text), MODEL, count=10)
    assert [passage.text for passage in await workspace.passages(nearest.numbers)] == [two.text]
    assert len(nearest.numbers) == 1
    info = await workspace.info()
    assert (info.memories, info.chunks) == (1, 1)


async def test_the_same_under_the_same_key_changes_nothing(workspace: Workspace) -> None:
    memory = memory_of("text", key="k")
    await workspace.add(memory, chunks_of("text"))
    receipt = await workspace.add(memory_of("text", key="k"), chunks_of("text"))
    assert (receipt.memory_id, receipt.duplicate, receipt.replaced) == (memory.id, True, False)
    assert await workspace.history(memory.id) == ()


async def test_other_metadata_under_the_same_key_is_a_new_version(workspace: Workspace) -> None:
    await workspace.add(memory_of("text", key="k"), chunks_of("text"))
    receipt = await workspace.add(memory_of("text", key="k", metadata={"a": 1}), chunks_of("text"))
    assert receipt.replaced
    assert (await workspace.get(receipt.memory_id)).metadata == {"a": 1}
    assert await workspace.find_text("text") is None  # a key, and not the text, says which memory it is


async def test_a_key_makes_the_same_text_another_memory(workspace: Workspace) -> None:
    first = await workspace.add(memory_of("text"), chunks_of("text"))
    second = await workspace.add(memory_of("text", key="k"), chunks_of("text"))
    assert not second.duplicate
    assert first.memory_id != second.memory_id


async def test_writers_of_one_key_make_a_row_of_versions(workspace: Workspace) -> None:
    async def add(number: int) -> None:
        await workspace.add(memory_of(f"text {number}", key="k"), chunks_of(f"text {number}"))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(add, number)
    memory_id = await workspace.find_key("k")
    assert memory_id is not None
    versions = [await workspace.get(memory_id), *await workspace.history(memory_id)]
    assert [memory.version for memory in versions] == [8, 7, 6, 5, 4, 3, 2, 1]
    assert {memory.text for memory in versions} == {f"text {number}" for number in range(8)}
    assert len(await found(workspace, "text")) == 1
    assert [memory.version for memory in await workspace.history(memory_id, limit=3)] == [7, 6, 5]
    assert [memory.version for memory in await workspace.history(memory_id, version=2)] == [2]
    assert await workspace.history(memory_id, version=8) == ()


async def test_an_update_keeps_id_key_and_history(workspace: Workspace) -> None:
    memory = memory_of("old text", key="k", tags=("old",))
    await workspace.add(memory, chunks_of(memory.text))
    new = attrs.evolve(memory, text="new text", key=None, tags=("new",), created_at=LATER)
    assert (await workspace.update(new, chunks_of(new.text))).replaced
    assert (await workspace.update(new, chunks_of(new.text))).duplicate
    assert (await workspace.get(memory.id)).key == "k"
    assert [version.text for version in await workspace.history(memory.id)] == ["old text"]
    assert await workspace.tags() == {"new": 1}
    assert [hit.id for hit in (await workspace.list(filters=Filters(tags=("old",)))).memories] == []
    assert await workspace.find_text("old text") is None


async def test_what_is_not_there_cannot_be_updated(workspace: Workspace) -> None:
    with pytest.raises(NotFoundError):
        await workspace.update(memory_of("text"), chunks_of("text"))


async def test_a_large_memory_comes_in_batches_and_back_whole(workspace: Workspace) -> None:
    memory, chunks = memory_of(LONG, key="k"), chunks_of(LONG)
    assert len(chunks) > 3 * BATCH
    receipt = await workspace.add(memory, chunks)
    assert receipt.chunks_created == len(chunks)
    assert (await workspace.get(memory.id)).text == LONG
    assert len(await found(workspace, "word1999")) == 1
    assert (await workspace.add(memory_of(LONG, key="k"), chunks)).duplicate
    other = LONG + " more"
    assert (await workspace.add(memory_of(other, key="k"), chunks_of(other))).replaced
    assert len(await found(workspace, "word1500")) == 1
    assert len((await workspace.search_vectors(vector_of("x"), MODEL, count=1000)).numbers) == len(chunks_of(other))


async def test_an_unfinished_memory_is_not_to_be_seen(store: Store, workspace: Workspace) -> None:
    memory, chunks = memory_of(LONG, tags=("t",)), chunks_of(LONG)
    async with workspace.open_draft(memory, len(chunks)) as draft:
        await draft.append(chunks[:60])
        assert await found(workspace, "word3") == []
        assert len((await workspace.search_vectors(vector_of("x"), MODEL, count=10)).numbers) == 0
        assert (await workspace.list()).memories == ()
        assert (await workspace.info()).chunks == 0
        assert (await workspace.pending(MODEL)).passages == ()
        with pytest.raises(NotFoundError):
            await workspace.get(memory.id)
        assert await sweep(workspace._space) == 0  # it has a lease
    assert await traces(store, workspace) == {"chunks": 0, "drafts": 0, "vectors": 0, "entries": 0}


async def test_a_draft_is_swept_when_its_lease_is_over(store: Store, workspace: Workspace) -> None:
    memory, chunks = memory_of(LONG), chunks_of(LONG)
    async with workspace.open_draft(memory, len(chunks)) as draft:
        await draft.append(chunks[:60])
        lease = draft._lease
        assert 0 < await store.connection.read("TTL", lease) <= LEASE_SECONDS
        await store.connection.write("DEL", lease)
        assert await sweep(workspace._space) == 1
        assert await traces(store, workspace) == {"chunks": 0, "drafts": 0, "vectors": 0, "entries": 0}
        with pytest.raises(DatabaseError):
            await draft.append(chunks[60:120])
        with pytest.raises(DatabaseError):
            await draft.publish(chunks[60:])


async def test_a_published_memory_is_no_draft_any_more(workspace: Workspace) -> None:
    """As when the answer to the last batch is lost, or a sweeper has seen the draft a moment before."""
    memory, chunks = memory_of(LONG), chunks_of(LONG)
    async with workspace.open_draft(memory, len(chunks)) as draft:
        await draft.append(chunks[:60])
        await draft.publish(chunks[60:])
        draft._sent = True
    assert not await drop_draft(workspace._space, draft._numbers, writer=draft._incarnation)
    assert not await drop_draft(workspace._space, draft._numbers)
    assert (await workspace.get(memory.id)).text == LONG
    scores = await workspace.search_vectors(vector_of("x"), MODEL, count=1000)
    assert len(scores.numbers) == len(chunks)


async def test_another_process_sweeps_at_its_first_write(
    store: Store, workspace: Workspace, store_settings: Settings
) -> None:
    chunks = chunks_of(LONG)
    async with workspace.open_draft(memory_of(LONG), len(chunks)) as draft:
        await draft.append(chunks[:60])
        await store.connection.write("DEL", draft._lease)
        async with open_store(store_settings) as other:
            await other.workspace(workspace.name).list()
            assert len(await workspace._space.ask("MATCH (d:Draft) RETURN d.first")) == 1
            await other.workspace(workspace.name).add(memory_of("text"), chunks_of("text"))
        assert await workspace._space.ask("MATCH (d:Draft) RETURN d.first") == []


async def test_a_write_does_not_wait_for_all_that_others_have_left(
    store: Store, workspace: Workspace, store_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = workspace._space
    for number in range(5):
        chunks = chunks_of(LONG)
        draft = Draft(await workspace._write(), memory_of(f"{number} {LONG}"), len(chunks))
        await draft.append(chunks[:20])
        await store.connection.write("DEL", draft._lease)
    drop, dropped = upkeep.drop_draft, 0

    async def drop_slowly(*arguments: Any, **options: Any) -> bool:
        nonlocal dropped
        done = await drop(*arguments, **options)
        dropped += 1
        if dropped == 2:
            await trio.sleep_forever()
        return done

    monkeypatch.setattr(upkeep, "drop_draft", drop_slowly)
    monkeypatch.setattr("zapomni.store.workspace.SWEEP_SECONDS", 3)  # enough for those that are not slow
    with trio.fail_after(20):
        async with open_store(store_settings) as other:
            for left, text in ((3, "first"), (0, "second")):
                await other.workspace(workspace.name).add(memory_of(text), chunks_of(text))
                assert len(await space.ask(upkeep.DRAFTS)) == left


async def test_a_draft_whose_passages_were_refused_is_swept_too(workspace: Workspace) -> None:
    space = await workspace._write()
    await workspace.add(memory_of("text"), chunks_of("text"))
    await space.connection.write(*space.statement(writing.BEGIN, first=7, count=1))
    assert await sweep(space) == 1
    assert await space.ask(upkeep.DRAFTS) == []


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005, 0.01, 0.03, 0.1])
async def test_a_cancelled_memory_leaves_all_or_nothing(store: Store, workspace: Workspace, delay: float) -> None:
    memory, chunks = memory_of(LONG), chunks_of(LONG)
    with trio.move_on_after(delay):
        await workspace.add(memory, chunks)
    with trio.fail_after(20):
        left = await traces(store, workspace)
    if left["chunks"]:
        assert (await workspace.get(memory.id)).text == LONG
    else:
        assert left == {"chunks": 0, "drafts": 0, "vectors": 0, "entries": 0}


async def test_two_models_are_never_mixed(workspace: Workspace) -> None:
    await workspace.add(memory_of("one"), chunks_of("one"))
    for other in (EmbeddingModel("letters", 16), EmbeddingModel("numbers", 8)):
        with pytest.raises(ConfigError, match="zapomni reembed"):
            await workspace.add(memory_of("two", model=other), chunks_of("two", model=other))
        with pytest.raises(ConfigError, match="zapomni reembed"):
            await workspace.search_vectors(vector_of("two", other.dimension), other, count=1)
    assert (await workspace.info()).memories == 1


async def test_what_does_not_cover_the_text_is_refused(workspace: Workspace) -> None:
    for chunks in ([], chunks_of("tex"), [NewChunk(0, 4, {}, 0), NewChunk(0, 4, {}, 0, vector_of("x", 3))]):
        with pytest.raises(ValidationError):
            await workspace.add(memory_of("text"), chunks)
    assert (await workspace.info()).memories == 0


async def test_memories_of_one_source_stand_in_a_row(workspace: Workspace) -> None:
    ids = [str(uuid.uuid4()) for _ in range(5)]
    for number, memory_id in enumerate(ids):
        text = f"memory {number}"
        await workspace.add(memory_of(text, id=memory_id, source="talk"), chunks_of(text, 3))
        await workspace.add(memory_of(f"other {number}", source="other"), chunks_of(f"other {number}"))
        assert await latest_of(workspace, "talk") == text

    async def around(memory_id: str) -> list[str | None]:
        first = (await workspace.numbers(memory_id)).start
        sides = [await workspace._space.ask(query, first=first) for query in (BEFORE, NEXT)]
        passages = [await workspace.passages([row[0] for row in rows]) for rows in sides]
        return [found[0].memory_id if found else None for found in passages]

    assert await around(ids[0]) == [None, ids[1]]
    assert await around(ids[2]) == [ids[1], ids[3]]
    await workspace.update(memory_of("changed", id=ids[2], source="talk"), chunks_of("changed"))
    assert await around(ids[2]) == [ids[1], ids[3]]
    assert await around(ids[1]) == [ids[0], ids[2]]
    await workspace.delete(ids[2], now=NOW)
    assert await around(ids[1]) == [ids[0], ids[3]]
    await workspace.purge(before=LATER)
    assert await around(ids[1]) == [ids[0], ids[3]]
    await workspace.delete(ids[4], now=NOW)
    assert await latest_of(workspace, "talk") == "memory 3"
    assert await latest_of(workspace, "nobody") is None
    await workspace.purge(before=LATER)
    assert await latest_of(workspace, "talk") == "memory 3"
    await workspace.update(memory_of("moved", id=ids[3], source="elsewhere"), chunks_of("moved"))
    assert await latest_of(workspace, "elsewhere") == "moved"
    assert await latest_of(workspace, "talk") == "memory 1"


async def test_a_text_that_was_altered_behind_our_back_is_not_passed_off_as_ours(workspace: Workspace) -> None:
    memory = memory_of("the truth, and nothing else")
    await workspace.add(memory, chunks_of(memory.text))
    space = workspace._space
    await space.connection.write(*space.statement("MATCH (c:Chunk) SET c.text = 'the truth, and something else'"))
    with pytest.raises(DatabaseError, match="is damaged"):
        await workspace.get(memory.id)


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_version_that_the_server_refuses_leaves_the_one_that_is_there(
    store_settings: Settings, tmp_path: Path, key: str | None
) -> None:
    settings = attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None)
    async with open_store(settings) as store:
        workspace = store.workspace("default")
        memory = memory_of("the old text", key=key)
        await workspace.add(memory, chunks_of(memory.text))
        new = attrs.evolve(memory, text="word " * 200, id=memory.id if key is None else str(uuid.uuid4()))
        write = workspace.update if key is None else workspace.add
        await store.connection.write("GRAPH.CONFIG", "SET", "QUERY_MEM_CAPACITY", 20_000)
        with pytest.raises(DatabaseError, match="capacity"):
            await write(new, chunks_of(new.text))
        await store.connection.write("GRAPH.CONFIG", "SET", "QUERY_MEM_CAPACITY", 0)
        assert (await workspace.get(memory.id)).text == memory.text
        assert [summary.id for summary in (await workspace.list()).memories] == [memory.id]
        assert len(await found(workspace, "old")) == 1
        left = await traces(store, workspace)
        assert (left["chunks"], left["drafts"]) == (1, 0)
        assert (await write(new, chunks_of(new.text))).replaced
        assert (await workspace.get(memory.id)).text == new.text


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_version_that_was_refused_in_part_is_mended_by_writing_it_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    memory = memory_of("the old text", key=key)
    await workspace.add(memory, chunks_of(memory.text))
    new = attrs.evolve(memory, text="the new text", id=memory.id if key is None else str(uuid.uuid4()))
    write = workspace.update if key is None else workspace.add
    with monkeypatch.context() as patch:
        patch.setattr(writing, "publish", lambda space, *_: [space.statement("UNWIND 1 AS x RETURN x.y")])
        with pytest.raises(DatabaseError):
            await write(new, chunks_of(new.text))
    receipt = await write(new, chunks_of(new.text))
    assert (receipt.memory_id, receipt.replaced, receipt.duplicate) == (memory.id, True, False)
    assert (await workspace.get(memory.id)).text == new.text
    assert len(await found(workspace, "new")) == 1
