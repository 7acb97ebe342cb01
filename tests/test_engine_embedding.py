"""When the model is down, comes later, or is another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from tests.engines import FakeEmbedder, found, open_engine_with
from tests.fakes import captured_log
from tests.stores import chunks_of, memory_of
from zapomni.config import Settings
from zapomni.engine import open_engine, upkeep
from zapomni.errors import ConfigError, DatabaseError, EmbeddingError
from zapomni.store.workspace import Workspace
from zapomni.store.writing import Draft

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from zapomni.engine import MemoryEngine
    from zapomni.models import EmbeddingModel

PARAGRAPHS = "\n\n".join(f"Paragraph {number} is about the violin and other instruments. " * 9 for number in range(160))


async def until_embedded(engine: MemoryEngine) -> None:
    """Wait until no passage lacks a vector."""
    with trio.fail_after(30):
        while (await engine.workspace_info()).pending:  # noqa: ASYNC110  # that it is done is seen in the store alone
            await trio.sleep(0.02)


async def test_a_search_falls_back_to_words_and_says_so(simple_engine: MemoryEngine, embedder: FakeEmbedder) -> None:
    await simple_engine.add_memory("the violin")
    assert (await simple_engine.search_memory("violin")).notice is None
    embedder.down = True
    result = await simple_engine.search_memory("violin")
    assert [hit.text for hit in result.hits] == ["the violin"]
    assert result.notice is not None
    assert "only words" in result.notice
    assert (await simple_engine.search_memory("automobile")).hits == ()


async def test_what_is_deferred_is_found_by_words_at_once_and_by_meaning_later(
    simple_engine: MemoryEngine, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RETRY_SECONDS", 0.05)
    simple_engine.settings = attrs.evolve(simple_engine.settings, defer_embedding=True)
    embedder.down = True
    receipt = await simple_engine.add_memory("an automobile")
    await simple_engine.add_memory("nothing alike")
    await simple_engine.add_memory(PARAGRAPHS)
    assert (await simple_engine.workspace_info()).pending > 2
    result = await simple_engine.search_memory("automobile")
    assert [hit.memory_id for hit in result.hits] == [receipt.memory_id]
    assert result.notice is not None
    assert "only words" in result.notice
    await simple_engine.update_memory(receipt.memory_id, text="one automobile")
    embedder.down = False
    await until_embedded(simple_engine)
    result = await simple_engine.search_memory("car")
    assert (result.hits[0].text, result.notice) == ("one automobile", None)


async def test_a_model_that_fails_half_way_defers_the_rest(
    simple_engine: MemoryEngine, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RETRY_SECONDS", 0.05)
    simple_engine.settings = attrs.evolve(simple_engine.settings, defer_embedding=True)

    async def progress(*_: object) -> None:
        embedder.down = True

    receipt = await simple_engine.add_memory(PARAGRAPHS, progress=progress)
    assert 0 < (await simple_engine.workspace_info()).pending < receipt.chunks_created
    assert (await simple_engine.get_memory(receipt.memory_id)).text == PARAGRAPHS
    embedder.down = False
    await until_embedded(simple_engine)


@pytest.mark.parametrize("method", ["restore", "add", "update"])
async def test_what_was_cancelled_after_it_was_stored_gets_its_vectors(
    simple_engine: MemoryEngine, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The server has done it, and whoever asked for it is gone before the answer."""
    monkeypatch.setattr(upkeep, "RETRY_SECONDS", 0.05)
    simple_engine.settings = attrs.evolve(simple_engine.settings, defer_embedding=True)
    receipt = await simple_engine.add_memory("an automobile")
    if method == "restore":
        await simple_engine.delete_memory(receipt.memory_id)
    original = getattr(Workspace, method)

    async def cancel_at_the_end(*arguments: object) -> object:
        done = await original(*arguments)
        scope.cancel()
        await trio.lowlevel.checkpoint()
        return done

    monkeypatch.setattr(Workspace, method, cancel_at_the_end)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "restore": lambda: simple_engine.restore_memory(receipt.memory_id),
        "add": lambda: simple_engine.add_memory("a feline"),
        "update": lambda: simple_engine.update_memory(receipt.memory_id, text="another automobile"),
    }
    embedder.down = method != "restore"
    with trio.CancelScope() as scope:
        await calls[method]()
    assert scope.cancelled_caught
    assert (await simple_engine.workspace_info()).pending == 1
    embedder.down = False
    await until_embedded(simple_engine)


async def test_a_restored_memory_is_reported_though_its_vectors_cannot_be_stored_now(
    simple_engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = await simple_engine.add_memory("an automobile")
    await simple_engine.delete_memory(receipt.memory_id)

    async def fail(*_: object) -> int:
        raise DatabaseError("the store is busy")

    with monkeypatch.context() as patch:
        patch.setattr(Workspace, "add_vectors", fail)
        patch.setattr(upkeep, "RETRY_SECONDS", 0.05)
        assert (await simple_engine.restore_memory(receipt.memory_id)).text == "an automobile"
    await until_embedded(simple_engine)


async def test_the_hourly_upkeep_makes_vectors_that_nobody_told_of(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    receipt = await simple_engine.add_memory("an automobile")
    await simple_engine.delete_memory(receipt.memory_id)
    await (await simple_engine._workspace(None)).restore(receipt.memory_id)  # and then the process died
    async with trio.open_nursery() as nursery:
        nursery.start_soon(simple_engine._upkeep().purge_for_ever, simple_engine._catch_up)
        await until_embedded(simple_engine)
        nursery.cancel_scope.cancel()


async def test_what_works_in_the_background_outlives_a_data_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with captured_log("warning") as log, trio.fail_after(30):
        async with open_engine(Settings(data_dir=tmp_path, store_linger=0)) as engine:
            await engine.ready()
            while "upkeep_failed" not in log.text:  # noqa: ASYNC110  # the log is all that tells
                await trio.sleep(0.02)
            with pytest.raises(ConfigError, match="is a file"):
                await engine.get_stats()


async def test_a_large_update_tells_how_far_it_is_and_is_known_before_it_is_embedded_again(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    receipt = await simple_engine.add_memory("the violin")
    reports: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reports.append(done)

    changed = await simple_engine.update_memory(receipt.memory_id, text=PARAGRAPHS, metadata={}, progress=progress)
    assert changed.replaced
    assert reports == sorted(reports)
    assert reports[-1] == changed.chunks_created
    assert (await simple_engine.get_memory(receipt.memory_id)).text == PARAGRAPHS
    done = embedder.embedded
    assert (await simple_engine.update_memory(receipt.memory_id, text=PARAGRAPHS, metadata={})).duplicate
    assert embedder.embedded == done


async def test_another_model_is_refused_for_writing_and_told_in_answers(
    simple_engine: MemoryEngine, store_settings: Settings
) -> None:
    name = simple_engine.current_workspace
    await simple_engine.add_memory("the violin")
    for other in (FakeEmbedder("other"), FakeEmbedder(dimension=16)):
        async with open_engine_with(attrs.evolve(store_settings, workspace=name), other) as switched:
            result = await switched.search_memory("violin")
            assert [hit.text for hit in result.hits] == ["the violin"]
            assert result.notice is not None
            assert "zapomni reembed" in result.notice
            with pytest.raises(ConfigError, match="zapomni reembed"):
                await switched.add_memory("the viola")
            assert (await switched.list_memories()).memories[0].preview == "the violin"
    assert (await simple_engine.get_stats()).total_memories == 1


async def test_a_new_model_takes_over_while_searches_go_on(
    simple_engine: MemoryEngine, store_settings: Settings
) -> None:
    name = simple_engine.current_workspace
    await simple_engine.add_memory("automobile")
    await simple_engine.add_memory(PARAGRAPHS)
    chunks = (await simple_engine.get_stats()).total_chunks
    other = FakeEmbedder("other", 24)
    reports: list[tuple[float, float | None]] = []
    async with open_engine_with(attrs.evolve(store_settings, workspace=name), other) as switched:

        async def progress(done: float, total: float | None, message: str | None) -> None:
            reports.append((done, total))
            assert (await found(simple_engine, "car"))[0] == "automobile"
            result = await switched.search_memory("automobile")
            assert (result.hits[0].text, result.notice is None) == ("automobile", False)
            if len(reports) == 1:
                await simple_engine.add_memory("physician")  # written meanwhile, by the old model

        with trio.fail_after(60):
            assert await switched.reembed(progress=progress) == chunks + 1
        assert [done for done, _ in reports] == sorted(done for done, _ in reports)
        assert len(reports) > 1
        result = await switched.search_memory("doctor")
        assert (result.hits[0].text, result.notice) == ("physician", None)
        await switched.add_memory("feline")
        assert (await found(switched, "cat"))[0] == "feline"
        assert await switched.reembed() == 0
    result = await simple_engine.search_memory("automobile")
    assert (result.hits[0].text, result.notice is None) == ("automobile", False)


async def test_a_re_embedding_that_was_cancelled_can_be_taken_up_again(
    simple_engine: MemoryEngine, store_settings: Settings
) -> None:
    await simple_engine.add_memory("automobile")
    await simple_engine.add_memory(PARAGRAPHS)
    name, other = simple_engine.current_workspace, FakeEmbedder("other")
    async with open_engine_with(attrs.evolve(store_settings, workspace=name), other) as switched:
        with trio.CancelScope() as scope:

            async def progress(*_: object) -> None:
                scope.cancel()

            await switched.reembed(progress=progress)
        assert scope.cancelled_caught
        assert (await found(simple_engine, "car"))[0] == "automobile"
        before = other.embedded
        await switched.reembed()
        assert other.embedded == (await switched.get_stats()).total_chunks > before > 0
        assert (await found(switched, "car"))[0] == "automobile"


async def test_a_re_embedding_clears_away_what_a_dead_writer_left(
    simple_engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await simple_engine.add_memory("the violin")
    workspace = await simple_engine._workspace(None)
    space = await workspace._write()
    text = " ".join(f"word{number}" for number in range(600))
    chunks = chunks_of(text, model=None)
    other = FakeEmbedder("other", 16)
    asked = 0
    finish = Workspace.finish_reembedding

    async def finish_after_a_writer(self: Workspace, model: EmbeddingModel) -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:  # it writes a batch for both models, and dies
            draft = Draft(space, memory_of(text, model=None), len(chunks))
            await draft.append(chunks[:50])
            await space.connection.write("DEL", draft._lease)
        return await finish(self, model)

    monkeypatch.setattr(Workspace, "finish_reembedding", finish_after_a_writer)
    with trio.fail_after(20):
        assert await upkeep.reembed(workspace, other) == 1
    assert asked == 2


async def test_a_workspace_of_another_model_does_not_stop_the_background(
    simple_engine: MemoryEngine, store_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its missing vectors are for its own model; the others' are made nevertheless."""
    monkeypatch.setattr(upkeep, "RETRY_SECONDS", 0.05)
    name, other = simple_engine.current_workspace, FakeEmbedder("other")
    receipt = await simple_engine.add_memory("the violin")
    await simple_engine.delete_memory(receipt.memory_id)
    async with open_engine_with(attrs.evolve(store_settings, workspace=f"{name}-b", defer_embedding=True), other) as b:
        assert (await b.restore_memory(receipt.memory_id, workspace=name)).text == "the violin"
        assert (await b.workspace_info(name)).pending == 1
        other.down = True
        await b.add_memory("automobile")
        other.down = False
        await until_embedded(b)
        assert (await b.workspace_info(name)).pending == 1
        await b.delete_workspace(f"{name}-b")


async def test_a_model_that_is_down_stops_a_re_embedding_with_its_error(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    await simple_engine.add_memory("the violin")
    embedder.down = True
    with pytest.raises(EmbeddingError):
        await simple_engine.reembed()
