"""The registry: tools by name, in order, and nothing that is no tool."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED, FakeEngine, SomeTool, tool_without
from zapomni.tools import AddMemoryTool, GetStatsTool, MCPTool, SearchMemoryTool, ToolRegistry


def registry_of(*names: str) -> ToolRegistry:
    registry = ToolRegistry()
    registry.register_all([SomeTool(name=name) for name in names])
    return registry


def test_a_new_registry_is_empty() -> None:
    registry = ToolRegistry()
    assert registry.list_tools() == []
    assert registry.get_tool("add_memory") is None
    assert len(registry) == 0


def test_a_registered_tool_is_found_and_listed() -> None:
    registry, tool = ToolRegistry(), SomeTool()
    registry.register(tool)
    assert registry.get_tool("some_tool") is tool
    assert registry.list_tools() == ["some_tool"]


def test_several_tools_are_registered_at_once() -> None:
    registry = ToolRegistry()
    tools = [SomeTool(name=name) for name in ("first", "second", "third")]
    registry.register_all(tools)
    assert registry.list_tools() == ["first", "second", "third"]
    assert [registry.get_tool(tool.name) for tool in tools] == tools


def test_a_name_finds_its_own_tool() -> None:
    registry = ToolRegistry()
    one, other = SomeTool(name="one"), SomeTool(name="other")
    registry.register_all([one, other])
    assert registry.get_tool("one") is one
    assert registry.get_tool("other") is other


def test_all_names_are_listed_in_the_order_of_registration() -> None:
    registry = registry_of("zebra", "ape", "newt")
    assert registry.list_tools() == ["zebra", "ape", "newt"]
    assert [tool.name for tool in registry] == ["zebra", "ape", "newt"]


def test_a_name_is_taken_once() -> None:
    registry, first = ToolRegistry(), SomeTool()
    registry.register(first)
    with pytest.raises(ValueError, match="Tool 'some_tool' already registered"):
        registry.register(SomeTool())
    assert registry.get_tool("some_tool") is first


def test_an_empty_name_is_refused() -> None:
    registry = ToolRegistry()
    with pytest.raises(ValueError, match="cannot be empty"):
        registry.register(SomeTool(name=""))
    assert len(registry) == 0


def test_an_object_that_is_no_tool_is_refused() -> None:
    not_a_tool: Any = object()
    with pytest.raises(TypeError, match="must implement MCPTool protocol"):
        ToolRegistry().register(not_a_tool)


@pytest.mark.parametrize("attribute", ["name", "description", "input_schema"])
def test_a_tool_that_lacks_an_attribute_is_refused(attribute: str) -> None:
    with pytest.raises(AttributeError, match=f"missing required attribute: {attribute}"):
        ToolRegistry().register(tool_without(attribute))


def test_a_refused_tool_does_not_undo_those_before_it() -> None:
    registry = ToolRegistry()
    with pytest.raises(AttributeError):
        registry.register_all([SomeTool(), tool_without("description"), SomeTool(name="never_reached")])
    assert registry.list_tools() == ["some_tool"]


def test_an_unknown_name_finds_nothing() -> None:
    assert registry_of("add_memory").get_tool("nonexistent") is None


def test_names_are_matched_by_case() -> None:
    assert registry_of("add_memory").get_tool("Add_Memory") is None


def test_an_empty_registry_lists_nothing() -> None:
    registry = ToolRegistry()
    assert registry.list_tools() == []
    assert list(registry) == []


def test_registering_no_tools_is_no_error() -> None:
    registry = ToolRegistry()
    registry.register_all([])
    assert registry.list_tools() == []


def test_a_tool_is_recognised_without_being_registered() -> None:
    registry = ToolRegistry()
    assert registry.validate_tool(SomeTool())
    assert registry.list_tools() == []


@pytest.mark.parametrize(
    "not_a_tool",
    [
        object(),
        None,
        tool_without("execute"),
        tool_without("description"),
        SomeTool(name=5),
        SomeTool(execute="no function"),
    ],
    ids=["object", "none", "no execute", "no description", "name of a wrong type", "execute is no function"],
)
def test_what_is_no_tool_is_recognised(not_a_tool: Any) -> None:
    assert not ToolRegistry().validate_tool(not_a_tool)


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("name", 5, "Tool.name must be str, got int"),
        ("description", None, "Tool.description must be str, got NoneType"),
        ("input_schema", "{}", "Tool.input_schema must be dict, got str"),
    ],
)
def test_an_attribute_of_a_wrong_type_is_refused(attribute: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ToolRegistry().register(SomeTool(**{attribute: value}))


def test_the_list_of_names_is_the_callers_to_change() -> None:
    registry = registry_of("one")
    registry.list_tools().clear()
    assert registry.list_tools() == ["one"]


@pytest.mark.parametrize("tool_class", [AddMemoryTool, SearchMemoryTool, GetStatsTool])
def test_our_own_tools_are_tools(tool_class: Any) -> None:
    tool = tool_class(FakeEngine())
    registry = ToolRegistry()
    registry.register(tool)
    assert isinstance(tool, MCPTool)
    assert registry.get_tool(tool.name) is tool


@AT_ANY_SPEED
@given(st.lists(st.text(min_size=1), unique=True))
def test_every_name_that_was_registered_is_found_again(names: list[str]) -> None:
    registry = registry_of(*names)
    assert registry.list_tools() == names
    assert [tool.name for tool in map(registry.get_tool, names) if tool] == names
