"""What clients are told of the tools: little enough to read every time, and enough to use them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from rs_bpe.bpe import openai

from tests.fakes import FakeEngine, server_with
from tests.wire import connected, request
from zapomni.tools import ALL_TOOLS

BUDGET = 3000
"""Tokens for the whole answer to tools/list."""
TOOLS = pytest.mark.parametrize("tool", ALL_TOOLS)


async def listing(**options: Any) -> list[dict[str, Any]]:
    """Return the tools as a client sees them."""
    server = server_with(**options)
    server.register_all_tools()
    async with connected(server) as client:
        tools: list[dict[str, Any]] = (await client.ask(request(1, "tools/list")))["result"]["tools"]
    return tools


def tokens_in(value: Any) -> int:
    encoding = openai.o200k_base()
    return int(encoding.count(json.dumps(value, separators=(",", ":"), ensure_ascii=False)))


async def test_the_whole_list_of_tools_is_short() -> None:
    tools = await listing()
    assert [tool["name"] for tool in tools] == [tool.name for tool in ALL_TOOLS]
    assert all({"inputSchema", "outputSchema", "annotations", "title"} <= tool.keys() for tool in tools)
    assert 1000 < tokens_in({"tools": tools}) < BUDGET


async def test_the_core_costs_half_as_much() -> None:
    assert tokens_in(await listing(tools="core")) < BUDGET / 2


@TOOLS
def test_every_description_says_when_to_use_the_tool(tool: Any) -> None:
    assert 10 <= len(tool.description) <= 500
    assert re.search(r"\bUse it (only )?(when|before|to)\b", tool.description) or tool.description.startswith("Undo")


@TOOLS
def test_what_changes_nothing_is_marked_so_and_what_destroys_as_well(tool: Any) -> None:
    reads = {"search_memory", "set_current_workspace"}
    assert tool.annotations.read_only == (tool.name.startswith(("get_", "list_")) or tool.name in reads)
    assert tool.annotations.destructive == tool.name.startswith(("delete_", "clear_"))


@TOOLS
def test_every_memory_tool_takes_a_workspace(tool: Any) -> None:
    about_workspaces = tool.name.endswith(("_workspace", "_workspaces"))
    assert ("workspace" in tool(FakeEngine()).input_schema["properties"]) != about_workspaces


@TOOLS
def test_what_must_be_given_is_named_first(tool: Any) -> None:
    schema = tool(FakeEngine()).input_schema
    required = schema.get("required", [])
    assert list(schema["properties"])[: len(required)] == required


@TOOLS
def test_no_answer_promises_vectors(tool: Any) -> None:
    assert not re.search(r"vector|\"embedding\"", json.dumps(tool(FakeEngine()).output_schema))
