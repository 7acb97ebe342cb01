"""Workspaces, as a model makes, uses, empties and removes them, on the real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from tests.calls import refused, use
from tests.fakes import FakeEngine
from zapomni.engine import open_engine
from zapomni.tools import AddMemoryTool, SearchMemoryTool
from zapomni.tools.delete_memory import DeleteMemoryTool, RestoreMemoryTool
from zapomni.tools.removal import ClearAllTool, DeleteWorkspaceTool
from zapomni.tools.workspaces import (
    CreateWorkspaceTool,
    GetCurrentWorkspaceTool,
    ListWorkspacesTool,
    SetCurrentWorkspaceTool,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine


@pytest.fixture
async def other(engine: MemoryEngine) -> AsyncIterator[str]:
    """The name of a second workspace."""
    name = f"{engine.settings.workspace}-other"
    await engine.create_workspace(name)
    yield name
    if name in {info.name for info in await engine.list_workspaces()}:
        await engine.delete_workspace(name)


async def test_a_workspace_is_made_once_and_named_in_one_spelling(engine: MemoryEngine, other: str) -> None:
    spelt = other.upper().replace("-", " ")
    again = await use(CreateWorkspaceTool(engine), name=spelt)
    assert again["said"] == f"Workspace {other} was there before."
    assert (again["name"], again["created"]) == (other, False)
    await engine.delete_workspace(other)
    made = await use(CreateWorkspaceTool(engine), name=spelt)
    assert (made["name"], made["created"]) == (other, True)
    assert made["said"] == f"Workspace {other} created. It is not the current one before set_current_workspace."
    assert (await use(GetCurrentWorkspaceTool(engine)))["name"] == engine.settings.workspace


@pytest.mark.parametrize("name", ["", "-", "a/b", "x" * 65])
async def test_what_is_no_name_is_refused(engine: MemoryEngine, name: str) -> None:
    for tool in (CreateWorkspaceTool, SetCurrentWorkspaceTool):
        assert "name" in await refused(tool(engine), name=name)
    assert "name" in await refused(DeleteWorkspaceTool(engine), name=name, confirm=name)
    assert (await use(GetCurrentWorkspaceTool(engine)))["name"] == engine.settings.workspace


async def test_calls_that_name_no_workspace_use_the_current_one(engine: MemoryEngine, other: str) -> None:
    own = engine.settings.workspace
    await use(AddMemoryTool(engine), text="At home.")
    chosen = await use(SetCurrentWorkspaceTool(engine), name=other)
    assert chosen["said"] == f"The current workspace is {other}, with 0 memories."
    await use(AddMemoryTool(engine), text="At work.")
    assert [hit["text"] for hit in (await use(SearchMemoryTool(engine), query="at"))["hits"]] == ["At work."]
    current = await use(GetCurrentWorkspaceTool(engine))
    assert (current["name"], current["memories"]) == (other, 1)
    listed = await use(ListWorkspacesTool(engine))
    assert listed["current"] == other
    assert {"name": own, "memories": 1} in listed["workspaces"]
    assert f"{other}: 1 memory (current)" in listed["said"].splitlines()
    assert f"{own}: 1 memory" in listed["said"].splitlines()


async def test_a_workspace_that_is_not_there_cannot_be_used(engine: MemoryEngine) -> None:
    before = (await use(GetCurrentWorkspaceTool(engine)))["name"]
    assert await refused(SetCurrentWorkspaceTool(engine), name="nowhere") == "there is no workspace 'nowhere'"
    assert (await use(GetCurrentWorkspaceTool(engine)))["name"] == before


async def test_the_workspace_of_the_settings_is_there_from_the_first_call_on(
    engine: MemoryEngine, store_settings: Settings
) -> None:
    name = f"{engine.settings.workspace} Fresh"
    async with open_engine(attrs.evolve(store_settings, workspace=name)) as fresh:
        spelt = name.lower().replace(" ", "-")
        listed = await use(ListWorkspacesTool(fresh))
        assert listed["current"] == spelt
        assert {"name": spelt, "memories": 0} in listed["workspaces"]
        await fresh.delete_workspace(name)


async def test_a_connection_has_a_current_workspace_of_its_own(engine: MemoryEngine, other: str) -> None:
    async with open_engine(engine.settings) as second:
        await use(SetCurrentWorkspaceTool(engine), name=other)
        assert (await use(GetCurrentWorkspaceTool(second)))["name"] == engine.settings.workspace


async def test_everything_is_deleted_only_at_the_exact_phrase(engine: MemoryEngine, other: str) -> None:
    own = engine.settings.workspace
    for text in ("One.", "Two.", "Three."):
        kept = (await use(AddMemoryTool(engine), text=text))["memory_id"]
    await use(DeleteMemoryTool(engine), memory_id=kept, confirm=True)
    elsewhere = (await use(AddMemoryTool(engine), text="Elsewhere.", workspace=other))["memory_id"]
    phrase = f"delete everything in {own}"
    for wrong in ("", "yes", "true", phrase.upper(), phrase + " ", f"delete everything in {other}"):
        assert await refused(ClearAllTool(engine), confirm=wrong) == (
            f"Nothing was deleted. Workspace {own} has 2 memories and 1 deleted that could be restored. To delete all "
            f'of it for good, ask the user, then call again with confirm set to "{phrase}".'
        )
    cleared = await use(ClearAllTool(engine), confirm=phrase)
    assert (cleared["workspace"], cleared["memories_deleted"]) == (own, 2)
    assert cleared["said"].startswith(f"Workspace {own} is empty now.")
    assert (await use(GetCurrentWorkspaceTool(engine)))["memories"] == 0
    assert "not even in the trash" in await refused(RestoreMemoryTool(engine), memory_id=kept)
    assert (await use(AddMemoryTool(engine), text="One."))["duplicate"] is False
    assert (await engine.get_memory(elsewhere, workspace=other)).text == "Elsewhere."


async def test_a_workspace_is_deleted_only_when_its_name_is_said_twice(engine: MemoryEngine, other: str) -> None:
    await use(SetCurrentWorkspaceTool(engine), name=other)
    await use(AddMemoryTool(engine), text="Gone soon.")
    for wrong in ("", "true", engine.settings.workspace):
        assert await refused(DeleteWorkspaceTool(engine), name=other, confirm=wrong) == (
            f"Nothing was deleted. Workspace {other} has 1 memory. To delete it for good, ask the user, then call "
            f'again with confirm set to "{other}".'
        )
    deleted = await use(DeleteWorkspaceTool(engine), name=other, confirm=other)
    assert (deleted["workspace"], deleted["memories_deleted"]) == (other, 1)
    assert deleted["said"].endswith("The current workspace is default.")
    assert other not in {info.name for info in await engine.list_workspaces()}
    assert await refused(DeleteWorkspaceTool(engine), name=other, confirm=other) == f"there is no workspace {other!r}"


async def test_a_refusal_deletes_nothing() -> None:
    engine = FakeEngine()
    engine.memories.append(("kept", {}))
    await refused(ClearAllTool(engine), confirm="delete everything")  # type: ignore[arg-type]
    await refused(DeleteWorkspaceTool(engine), name="default")  # type: ignore[arg-type]
    assert (engine.memories, engine.workspaces) == ([("kept", {})], ["default"])
