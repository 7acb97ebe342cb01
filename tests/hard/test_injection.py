"""Every text field of every tool, with what has broken other programs: it is data, and stays data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.hard.test_leaks import served
from tests.wire import call, request

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = (
    "' OR 1=1 //",
    '"}) MATCH (n) DETACH DELETE n //',
    "$id",
    "`; MATCH (n) DELETE n",
    "CYPHER x=1 MATCH (n) RETURN n",
    "*",
    "-*",
    "@text:(a|b)=>{$weight:5}",
    '"] AND .source == "x" or 1 == 1',
    "a\r\nFLUSHALL\r\n",
    '{"a": {"$gt": ""}}',
    "\\u0000\\x00\\",
    "nul \x00 inside",
    "\x1b]0;title\x07\x1b[2J",
    "../../../../etc/passwd",
    "file:///etc/passwd",
    "{zapomni:default}:graph",
    "\u202eevil",
    "\x01\x02\x7f\x85",
    "a" * 5000,
    "💥" * 50,
    "%s%n{}",
    "<script>alert(1)</script>",
    "-1",
    "null",
)
KEPT = "the one memory that must survive"


def fields_of(tool: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields of a tool that take text, with what makes a value of text for each."""
    found: list[tuple[str, Any]] = []
    for name, schema in tool["inputSchema"]["properties"].items():
        if schema["type"] == "string":
            found.append((name, lambda text: text))
        elif schema["type"] == "array":
            found.append((name, lambda text: [text]))
        elif schema["type"] == "object":
            found.append((name, lambda text: {text: text, "tags": [text], "source": text}))
    return found


def harmless(tool: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a tool takes; nothing here confirms anything."""
    schema = tool["inputSchema"]
    return {name: "x" if schema["properties"][name]["type"] == "string" else 1 for name in schema.get("required", [])}


async def test_no_text_in_any_field_of_any_tool_is_more_than_text(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        kept = (await client.ask(call("keep", "add_memory", text=KEPT)))["result"]["structuredContent"]["memory_id"]
        tools = (await client.ask(request("list", "tools/list")))["result"]["tools"]
        assert len(tools) >= 3
        for tool in tools:
            for name, shaped in fields_of(tool):
                for number, text in enumerate(HOSTILE):
                    arguments = harmless(tool) | {name: shaped(text)}
                    answer = await client.ask(call(f"{tool['name']} {name} {number}", tool["name"], **arguments))
                    assert "error" not in answer, (tool["name"], name, text, answer)
                    said = answer["result"]["content"][0]["text"]
                    assert "internal error" not in said, (tool["name"], name, text, said)
                    assert "Database" not in said, (tool["name"], name, text, said)
            alive = (await client.ask(call(f"alive {tool['name']}", "search_memory", query=KEPT, workspace="default")))[
                "result"
            ]
            assert kept in {hit["memory_id"] for hit in alive["structuredContent"]["hits"]}, tool["name"]


async def test_what_goes_in_comes_out_whatever_it_looks_like(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        for number, text in enumerate(HOSTILE):
            added = await client.ask(call(f"add {number}", "add_memory", text=f"x{text}x"))
            memory_id = added["result"]["structuredContent"]["memory_id"]
            got = await client.ask(call(f"get {number}", "get_memory", memory_id=memory_id))
            assert got["result"]["structuredContent"]["text"] == f"x{text}x"
