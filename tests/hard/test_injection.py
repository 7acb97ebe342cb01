"""Every text field of every tool, with what has broken other programs: it is data, and stays data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import trio

from tests.hard.served import served
from tests.wire import Message, call, request

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
FREE = {("add_memory", "text"), ("search_memory", "query")}
"""Fields that take any text."""
KEPT = "the one memory that must survive"


def fields_of(tool: Message) -> list[tuple[str, Any]]:
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


def harmless(tool: Message, memory_id: str) -> Message:
    """Return arguments that a tool takes, about a memory that there is; nothing here confirms anything."""
    schema = tool["inputSchema"]
    values = {"string": "x", "boolean": False, "integer": 1}
    needed = {name: values[schema["properties"][name]["type"]] for name in schema.get("required", [])}
    return needed | ({"memory_id": memory_id} if "memory_id" in needed else {})


async def test_no_text_in_any_field_of_any_tool_is_more_than_text(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        kept = (await client.ask(call("keep", "add_memory", text=KEPT)))["result"]["structuredContent"]["memory_id"]
        other = await client.ask(call("other", "add_memory", text="a memory that is changed and changed again"))
        memory_id = other["result"]["structuredContent"]["memory_id"]
        tools = (await client.ask(request("list", "tools/list")))["result"]["tools"]
        assert len(tools) >= 3
        for tool in tools:
            for name, shaped in fields_of(tool):
                for number, text in enumerate(HOSTILE):
                    arguments = harmless(tool, memory_id) | {name: shaped(text)}
                    answer = await client.ask(call(f"{tool['name']} {name} {number}", tool["name"], **arguments))
                    assert "error" not in answer, (tool["name"], name, text, answer)
                    said = answer["result"]["content"][0]["text"]
                    assert (tool["name"], name) not in FREE or answer["result"]["isError"] is False, (text, said)
                    assert "internal error" not in said, (tool["name"], name, text, said)
                    assert "Database" not in said, (tool["name"], name, text, said)
            alive = (await client.ask(call(f"alive {tool['name']}", "search_memory", query=KEPT, workspace="default")))[
                "result"
            ]
            assert kept in {hit["memory_id"] for hit in alive["structuredContent"]["hits"]}, tool["name"]


async def test_no_removal_that_is_confirmed_takes_more_than_what_it_names(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        kept = (await client.ask(call("keep", "add_memory", text=KEPT)))["result"]["structuredContent"]["memory_id"]
        tools = (await client.ask(request("list", "tools/list")))["result"]["tools"]
        asked: list[tuple[str, Message]] = []
        for text in HOSTILE:
            asked.append(("delete_memory", {"memory_id": text, "confirm": True}))
            asked.append(("delete_memory", {"memory_id": kept, "workspace": text, "confirm": True}))
            asked.append(("delete_workspace", {"name": text, "confirm": text}))
            asked += (("clear_all", {"workspace": text, "confirm": phrase}) for phrase in ("", text))
        assert {name for name, _ in asked} == {tool["name"] for tool in tools if "confirm" in properties(tool)}
        for number, (name, arguments) in enumerate(asked):
            result = (await client.ask(call(number, name, **arguments)))["result"]
            said = result["content"][0]["text"]
            if phrase := re.search(r'confirm set to "(.*)"', said, re.DOTALL):
                again = call(f"again {number}", name, **arguments | {"confirm": phrase[1]})
                said = (await client.ask(again))["result"]["content"][0]["text"]
            assert "internal error" not in said, (name, arguments, said)
            assert "Database" not in said, (name, arguments, said)
        got = await client.ask(call("kept", "get_memory", memory_id=kept))
        assert got["result"]["structuredContent"]["text"] == KEPT


def properties(tool: Message) -> Message:
    found: Message = tool["inputSchema"]["properties"]
    return found


async def test_no_text_in_a_prompt_a_resource_or_a_completion_is_more_than_text(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        kept = (await client.ask(call("keep", "add_memory", text=KEPT)))["result"]["structuredContent"]["memory_id"]
        prompts = (await client.ask(request("prompts", "prompts/list")))["result"]["prompts"]
        asked: list[tuple[str, Message]] = [
            ("resources/read", {"uri": prefix + text + suffix})
            for text in HOSTILE
            for prefix, suffix in (("", ""), ("zapomni://memory/", ""), ("zapomni://workspace/", "/recent"))
        ]
        for prompt in prompts:
            names = [argument["name"] for argument in prompt["arguments"]]
            for text in HOSTILE:
                asked.append(("prompts/get", {"name": text}))
                asked.append(("prompts/get", {"name": prompt["name"], "arguments": dict.fromkeys(names, text)}))
                asked += (("completion/complete", completion(prompt["name"], name, text)) for name in names)
        for number, (method, params) in enumerate(asked):
            answer = await client.ask(request(number, method, params))
            assert answer.get("error", {"code": -32602})["code"] == -32602, (method, params, answer)
        got = await client.ask(request("kept", "resources/read", {"uri": f"zapomni://memory/{kept}"}))
        assert KEPT in got["result"]["contents"][0]["text"]


def completion(prompt: str, argument: str, text: str) -> Message:
    return {
        "ref": {"type": "ref/prompt", "name": prompt},
        "argument": {"name": argument, "value": text},
        "context": {"arguments": {"workspace": text}},
    }


async def test_half_a_surrogate_pair_in_any_field_is_answered_under_its_id(tmp_path: Path) -> None:
    """JavaScript writes it as an escape when it cuts a text inside an emoji; whoever sent it must not wait for ever."""
    async with served(tmp_path) as (client, _):
        tools = (await client.ask(request("list", "tools/list")))["result"]["tools"]
        asked = [
            (tool["name"], harmless(tool, "none") | {name: shaped(text)})
            for tool in tools
            for name, shaped in fields_of(tool)
            for text in ("\ud83d", "half \ud83d and more", "\ude00\ud83d")
        ]
        with trio.fail_after(60):
            for number, (tool, arguments) in enumerate(asked):
                await client.send(call(number, tool, **arguments))
                answer = await client.receive()
                assert answer is not None
                assert answer["id"] == number, (tool, arguments, answer)
                refused = "error" in answer or answer["result"]["isError"]
                assert refused or tool in ("search_memory", "list_memories"), (tool, arguments, answer)
                assert "nternal error" not in str(answer), (tool, arguments, answer)
        stats = await client.ask(call("stats", "get_stats"))
        assert stats["result"]["structuredContent"]["total_memories"] == 0


async def test_what_goes_in_comes_out_whatever_it_looks_like(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, _):
        for number, text in enumerate(HOSTILE):
            added = await client.ask(call(f"add {number}", "add_memory", text=f"x{text}x"))
            memory_id = added["result"]["structuredContent"]["memory_id"]
            got = await client.ask(call(f"get {number}", "get_memory", memory_id=memory_id))
            assert got["result"]["structuredContent"]["text"] == f"x{text}x"
