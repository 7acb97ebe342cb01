"""Registering tools with a server: what clients will be shown is checked first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import FakeEngine, SomeTool, captured_log, server_with, tool_without
from tests.wire import connected
from zapomni.tools import ALL_TOOLS, AddMemoryTool, GetStatsTool, SearchMemoryTool


def own_tools() -> list[Any]:
    engine: Any = FakeEngine()
    return [AddMemoryTool(engine), SearchMemoryTool(engine), GetStatsTool(engine)]


def execute_without_waiting(arguments: dict[str, Any]) -> dict[str, Any]:
    return {}


def test_a_valid_tool_is_registered() -> None:
    server = server_with()
    server.register_tool(own_tools()[0])
    assert server.registry.list_tools() == ["add_memory"]


def test_several_tools_are_registered_one_after_another() -> None:
    server = server_with()
    for tool in own_tools():
        server.register_tool(tool)
    assert server.registry.list_tools() == ["add_memory", "search_memory", "get_stats"]


def test_a_schema_may_be_nested() -> None:
    schema = {
        "type": "object",
        "properties": {
            "filter": {
                "type": "object",
                "properties": {"dates": {"type": "array", "items": {"type": "object", "properties": {}}}},
            }
        },
    }
    server = server_with(SomeTool(input_schema=schema))
    (tool,) = server.registry
    assert tool.input_schema == schema


def test_underscores_may_stand_in_a_name() -> None:
    server = server_with(SomeTool(name="search_memory_advanced"))
    assert server.registry.get_tool("search_memory_advanced") is not None


def test_the_longest_name_is_taken() -> None:
    server = server_with(SomeTool(name="a" * 50))
    assert server.registry.list_tools() == ["a" * 50]


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name length must be 1-50 chars, got 0"):
        server_with(SomeTool(name=""))


def test_a_name_is_taken_once() -> None:
    first = SomeTool()
    server = server_with(first)
    with pytest.raises(ValueError, match="Tool 'some_tool' already registered"):
        server.register_tool(SomeTool())
    assert list(server.registry) == [first]


@pytest.mark.parametrize(
    "name",
    ["Add-Memory", "add_memory!", "addMemory", "add memory", "123_add", "_add", "add_memory\n", "ádd", "добавить"],
)
def test_a_name_with_other_characters_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"invalid \(must be lowercase, alphanumeric, underscores\)"):
        server_with(SomeTool(name=name))


def test_a_name_over_the_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="name length must be 1-50 chars, got 51"):
        server_with(SomeTool(name="a" * 51))


def test_a_description_that_says_too_little_is_refused() -> None:
    assert len(server_with(SomeTool(description="d" * 10)).registry) == 1
    with pytest.raises(ValueError, match=r"description too short \(min 10 chars\)"):
        server_with(SomeTool(description="d" * 9))


def test_a_description_that_says_too_much_is_refused() -> None:
    assert len(server_with(SomeTool(description="d" * 500)).registry) == 1
    with pytest.raises(ValueError, match=r"description too long \(max 500 chars\)"):
        server_with(SomeTool(description="d" * 501))


def test_a_tool_without_a_name_or_a_description_is_refused() -> None:
    for attribute in ("name", "description"):
        with pytest.raises(TypeError, match="must have 'name' and 'description' attributes"):
            server_with(tool_without(attribute))


def test_a_tool_without_a_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="must have 'input_schema' and 'execute' attributes"):
        server_with(tool_without("input_schema"))


def test_a_name_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(ValueError, match=r"name must be string, got <class 'int'>"):
        server_with(SomeTool(name=123))


def test_a_description_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(ValueError, match="description must be string"):
        server_with(SomeTool(description=None))


def test_a_schema_of_no_object_is_refused() -> None:
    with pytest.raises(ValueError, match="must have type='object'"):
        server_with(SomeTool(input_schema={"type": "array", "items": {"type": "string"}}))


def test_a_schema_without_properties_is_refused() -> None:
    with pytest.raises(ValueError, match="must have 'properties' field"):
        server_with(SomeTool(input_schema={"type": "object"}))


def test_a_schema_that_is_no_dict_is_refused() -> None:
    with pytest.raises(ValueError, match="input_schema must be dict"):
        server_with(SomeTool(input_schema="invalid"))


def test_an_execute_that_does_not_wait_is_refused() -> None:
    with pytest.raises(ValueError, match="execute method must be async"):
        server_with(SomeTool(execute=execute_without_waiting))


def test_a_tool_that_cannot_be_executed_is_refused() -> None:
    with pytest.raises(TypeError, match="must have 'input_schema' and 'execute' attributes"):
        server_with(tool_without("execute"))
    with pytest.raises(ValueError, match="must have callable 'execute' method"):
        server_with(SomeTool(execute="no function"))


async def test_a_running_server_takes_no_more_tools() -> None:
    server = server_with(SomeTool())
    async with connected(server):
        with pytest.raises(RuntimeError, match="Cannot register tools after server has started"):
            server.register_tool(SomeTool(name="late_tool"))
    assert server.registry.list_tools() == ["some_tool"]


def test_a_registered_tool_is_reached_by_its_name() -> None:
    tool = SomeTool()
    assert server_with(tool).registry.get_tool(tool.name) is tool


def test_each_registration_is_counted() -> None:
    server = server_with()
    counts = [server.get_stats().registered_tools]
    for tool in own_tools():
        server.register_tool(tool)
        counts.append(server.get_stats().registered_tools)
    assert counts == [0, 1, 2, 3]
    assert len(server.registry) == 3


def test_a_registration_is_logged() -> None:
    with captured_log() as log:
        server_with(SomeTool(), SomeTool(name="other_tool"))
    lines = [(line["event"], line["level"], line["tool_name"], line["total_tools"]) for line in log.lines]
    assert lines == [
        ("tool_registered", "info", "some_tool", 1),
        ("tool_registered", "info", "other_tool", 2),
    ]


def test_a_refused_tool_leaves_nothing_behind() -> None:
    server = server_with()
    with captured_log() as log, pytest.raises(ValueError, match="type='object'"):
        server.register_tool(SomeTool(input_schema={"properties": {}}))
    assert server.registry.list_tools() == []
    assert log.lines == []


def test_a_read_only_server_offers_no_tool_that_writes() -> None:
    server = server_with(read_only=True)
    server.register_all_tools()
    assert server.registry.list_tools() == [
        "search_memory",
        "get_memory",
        "list_memories",
        "get_stats",
        "list_workspaces",
        "get_current_workspace",
        "set_current_workspace",
    ]


def test_the_core_is_the_life_of_a_memory() -> None:
    server = server_with(tools="core")
    server.register_all_tools()
    assert server.registry.list_tools() == [
        "add_memory",
        "search_memory",
        "get_memory",
        "update_memory",
        "delete_memory",
    ]


def test_a_read_only_core_only_reads() -> None:
    server = server_with(tools="core", read_only=True)
    server.register_all_tools()
    assert server.registry.list_tools() == ["search_memory", "get_memory"]


def test_all_tools_of_a_server_are_registered_together() -> None:
    server = server_with()
    server.register_all_tools()
    assert server.registry.list_tools() == [tool.name for tool in ALL_TOOLS]


def test_registering_all_tools_is_a_matter_for_debugging() -> None:
    with captured_log() as log:
        server_with().register_all_tools()
    assert log.lines == []
    with captured_log("debug") as log:
        server_with().register_all_tools()
    assert [line["tool_name"] for line in log.lines] == [tool.name for tool in ALL_TOOLS]
    assert [line["total_tools"] for line in log.lines] == list(range(1, len(ALL_TOOLS) + 1))
