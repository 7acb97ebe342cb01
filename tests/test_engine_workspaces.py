"""Workspaces, lists, and what the statistics say."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from tests.engines import FakeEmbedder, found, open_engine_with
from zapomni.engine import open_engine
from zapomni.errors import ConfigError, NotFoundError, ValidationError
from zapomni.models import DEFAULT_WORKSPACE, Filters

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine


async def test_the_workspace_of_the_settings_is_made_when_it_is_first_used(store_settings: Settings) -> None:
    name = f"test-{uuid.uuid4().hex}"
    settings = attrs.evolve(store_settings, workspace=name)
    async with open_engine_with(settings, FakeEmbedder()) as engine:
        assert engine.current_workspace == name
        assert await found(engine, "anything") == []
        assert name in {info.name for info in await engine.list_workspaces()}
        await engine.delete_workspace(name)


async def test_a_workspace_that_nobody_made_is_not_there(simple_engine: MemoryEngine) -> None:
    for call in (
        simple_engine.add_memory("text", workspace="nobody-made-this"),
        simple_engine.search_memory("text", workspace="nobody-made-this"),
        simple_engine.list_memories(workspace="nobody-made-this"),
        simple_engine.get_stats(workspace="nobody-made-this"),
        simple_engine.use_workspace("nobody-made-this"),
        simple_engine.delete_workspace("nobody-made-this"),
    ):
        with pytest.raises(NotFoundError, match="nobody-made-this"):
            await call
    with pytest.raises(ValidationError):
        await simple_engine.create_workspace("no/name")


async def test_memories_stay_in_their_workspace(simple_engine: MemoryEngine) -> None:
    own, other = simple_engine.current_workspace, f"test-{uuid.uuid4().hex}"
    assert await simple_engine.create_workspace(other)
    assert not await simple_engine.create_workspace(other)
    first = await simple_engine.add_memory("the violin")
    second = await simple_engine.add_memory("the violin", workspace=other)
    assert not second.duplicate
    assert first.memory_id != second.memory_id
    with pytest.raises(NotFoundError):
        await simple_engine.get_memory(first.memory_id, workspace=other)
    assert (await simple_engine.use_workspace(other)).memories == 1
    assert simple_engine.current_workspace == other
    assert (await simple_engine.get_memory(second.memory_id)).text == "the violin"
    assert (await simple_engine.delete_workspace(other)).memories == 1
    assert simple_engine.current_workspace == DEFAULT_WORKSPACE
    assert (await simple_engine.get_memory(first.memory_id, workspace=own)).text == "the violin"


async def test_a_list_goes_on_where_it_stopped(simple_engine: MemoryEngine) -> None:
    ids = [(await simple_engine.add_memory(f"memory {number}")).memory_id for number in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await simple_engine.list_memories(limit=3, cursor=cursor)
        seen += [memory.id for memory in page.memories]
        if (cursor := page.cursor) is None:
            break
        await simple_engine.add_memory(f"meanwhile {len(seen)}")  # moves nothing behind the cursor
    assert seen == ids[::-1]
    with pytest.raises(ValidationError, match="cursor"):
        await simple_engine.list_memories(cursor="none")


async def test_a_list_is_limited_by_filters(simple_engine: MemoryEngine) -> None:
    await simple_engine.add_memory("one", {"tags": ["a"], "timestamp": "2026-05-01", "n": 1})
    await simple_engine.add_memory("two", {"tags": ["a", "b"], "source": "s"})
    await simple_engine.add_memory("three " * 100, {"tags": ["b"]})

    async def listed(**filters: object) -> list[str]:
        page = await simple_engine.list_memories(filters=Filters(**filters))  # type: ignore[arg-type]
        return [memory.preview[:5].strip() for memory in page.memories]

    assert await listed() == ["three", "two", "one"]
    assert await listed(tags=("a", "b")) == ["three", "two", "one"]
    assert await listed(all_tags=("a", "b")) == ["two"]
    assert await listed(source="s") == ["two"]
    assert await listed(date_to=datetime(2026, 5, 2, tzinfo=UTC)) == ["one"]
    assert await listed(metadata={"n": 1}) == ["one"]
    assert await listed(tags=("nobody",)) == []
    assert await simple_engine.tags() == {"a": 2, "b": 2}


async def test_statistics_say_what_is_stored_and_how_long_calls_took(simple_engine: MemoryEngine) -> None:
    empty = await simple_engine.get_stats()
    assert (empty.total_memories, empty.total_chunks, empty.oldest, dict(empty.latency_ms)) == (0, 0, None, {})
    receipt = await simple_engine.add_memory("the violin")
    await simple_engine.add_memory("the viola")
    await simple_engine.search_memory("violin")
    await simple_engine.update_memory(receipt.memory_id, text="the fiddle")
    await simple_engine.delete_memory(receipt.memory_id)
    found_ = await simple_engine.get_stats()
    assert (found_.total_memories, found_.total_chunks) == (1, 1)
    assert (found_.embedding_model, found_.embedding_dimension) == ("fake", 32)
    assert found_.bytes_in_memory > 0
    assert (found_.bytes_on_disk > 0) is simple_engine._store.connection.embedded  # a server elsewhere does not tell
    assert found_.oldest is not None
    own = [info for info in found_.workspaces if info.name == simple_engine.current_workspace]
    assert [(info.memories, info.trashed) for info in own] == [(1, 1)]
    assert {"add", "search", "update"} <= found_.latency_ms.keys()
    for figures in found_.latency_ms.values():
        assert 0 < figures["p50"] <= figures["p95"] <= figures["p99"]


async def test_an_engine_opens_without_waiting_for_anything_and_ends_without_a_trace(tmp_path: Path) -> None:
    from zapomni.config import Settings

    async with open_engine(Settings(data_dir=tmp_path / "data", store_linger=0.0)) as engine:
        assert engine.current_workspace == DEFAULT_WORKSPACE
    assert not (tmp_path / "data").exists()


async def test_an_engine_that_is_made_ready_answers_and_ends(store_settings: Settings) -> None:
    with trio.fail_after(30):
        async with open_engine(attrs.evolve(store_settings, retention_days=36_500)) as engine:
            await engine.ready()
            await engine.search_memory("anything")


async def test_settings_that_cannot_work_are_told_as_they_are(store_settings: Settings) -> None:
    with pytest.raises(ConfigError, match="embedding_model"):
        async with open_engine(attrs.evolve(store_settings, embedder="onnx")):
            pass


async def test_an_error_inside_leaves_the_engine_as_it_is(store_settings: Settings) -> None:
    with pytest.raises(NotFoundError):
        async with open_engine(store_settings) as engine:
            await engine.get_memory(str(uuid.uuid4()))
