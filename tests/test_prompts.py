"""The prompts, over the wire, in both forms of the protocol."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.fakes import server_with
from tests.test_server_wire import MODES, in_memory
from zapomni.server.prompts import PROMPTS
from zapomni.tools import ALL_TOOLS

if TYPE_CHECKING:
    from zapomni.server import MCPServer


def serving(**options: Any) -> MCPServer:
    server = server_with(**options)
    server.register_all_tools()
    return server


async def get(name: str, server: MCPServer | None = None, **arguments: Any) -> str:
    request = {"method": "prompts/get", "params": {"name": name, "arguments": arguments}, "id": 1}
    answer = await (server or serving()).handle_request(request)
    (message,) = answer["messages"]
    assert message["role"] == "user"
    return str(message["content"]["text"])


@MODES
async def test_prompts_are_listed_and_filled_in(mode: Any, version: str) -> None:
    async with Client(in_memory(serving()), mode=mode) as client:
        prompts = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert list(prompts) == ["remember", "recall"]
        required = [argument.name for argument in prompts["recall"].arguments or () if argument.required]
        assert required == ["question"]
        answer = await client.get_prompt("recall", {"question": "Where is the key?", "workspace": "home"})
        text: str = answer.messages[0].content.text  # type: ignore[union-attr]
    assert text.startswith("Answer this from memory:\n\nWhere is the key?\n\nWorkspace: home\n\nHow to recall well:\n")


async def test_what_to_remember_is_the_text_or_the_conversation() -> None:
    assert (await get("remember", text="Anna likes tea.", tags="anna, tea")).startswith(
        "Remember this for later conversations:\n\nAnna likes tea.\n\nTags: anna, tea\n\nHow to remember well:\n"
    )
    assert (await get("remember")).startswith("Go through this conversation and remember what later ones will need.\n")


@pytest.mark.parametrize("prompt", PROMPTS)
def test_prompts_name_only_tools_and_arguments_that_there_are(prompt: Any) -> None:
    tools = {tool.name: tool for tool in ALL_TOOLS}
    named = set(re.findall(r"\b[a-z]+_memory\b", prompt.advice))
    assert prompt.needs in named
    assert named <= tools.keys()
    arguments = {name for tool in ALL_TOOLS for name in tool(None).input_schema["properties"]}  # type: ignore[arg-type]
    assert set(re.findall(r"\bdate_\w+|\bmetadata\b|\bkey\b(?=,)|\bsource\b", prompt.advice)) <= arguments


@pytest.mark.parametrize("options", [{}, {"tools": "core"}])
async def test_prompts_name_only_tools_that_are_offered(options: Any) -> None:
    server = serving(**options)
    for prompt in (await server.handle_request({"method": "prompts/list", "id": 1}))["prompts"]:
        text = await get(prompt["name"], server, **{prompt["arguments"][0]["name"]: "x"})
        assert set(re.findall(r"\b[a-z]+_memory\b", text)) <= set(server.registry.list_tools())


async def test_a_server_that_only_reads_does_not_ask_to_remember() -> None:
    server = serving(read_only=True)
    answer = await server.handle_request({"method": "prompts/list", "id": 1})
    assert [prompt["name"] for prompt in answer["prompts"]] == ["recall"]
    answer = await server.handle_request({"method": "prompts/get", "params": {"name": "remember"}, "id": 1})
    assert answer == {"error": {"code": -32602, "message": "there is no such prompt; there are: recall"}}


@MODES
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("forget", {}, "there is no such prompt; there are: remember, recall"),
        ("recall", {}, "field required: question"),
        ("recall", {"question": ""}, "field required: question"),
        ("recall", {"qestion": "typo"}, "field required: question; unexpected field: qestion"),
    ],
)
async def test_a_prompt_that_cannot_be_filled_in_is_refused(
    mode: Any, version: str, name: str, arguments: dict[str, str], words: str
) -> None:
    async with Client(in_memory(serving()), mode=mode) as client:
        with pytest.raises(MCPError, match=words) as caught:
            await client.get_prompt(name, arguments)
    assert caught.value.error.code == -32602


@pytest.mark.parametrize("arguments", [["question"], {"question": 5}, "question"])
async def test_arguments_are_strings_by_name(arguments: Any) -> None:
    params = {"name": "recall", "arguments": arguments}
    answer = await serving().handle_request({"method": "prompts/get", "params": params, "id": 1})
    assert answer == {"error": {"code": -32602, "message": "arguments must be an object of strings"}}
