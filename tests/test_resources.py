"""Memories as resources, over the wire, in both forms of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from tests.fakes import AT_ANY_SPEED, FakeEngine, SlowTool, captured_log, server_with
from tests.test_server_wire import MODES, in_memory
from tests.wire import cancel, connected, request
from zapomni.errors import ConfigError, DatabaseError
from zapomni.server import MCPServer
from zapomni.server.resources import LATEST, MEMORY, RECENT

if TYPE_CHECKING:
    from zapomni.engine import MemoryEngine
    from zapomni.models import Memory

METHODS = (
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
)
WORDS = ("uri", "name", "arguments", "ref", "type", "argument", "value", "context", "question")
TAGS = PromptReference(name="recall")


def serving(engine: Any) -> MCPServer:
    server = MCPServer(engine)
    server.register_all_tools()
    return server


def texts(answer: Any) -> list[str]:
    return [content.text for content in answer.contents]


class StuckEngine(FakeEngine):
    """Never comes to an end of reading."""

    reading = 0

    async def get_memory(self, memory_id: str, **options: Any) -> Memory:
        self.reading += 1
        try:
            await trio.sleep_forever()
        finally:
            self.reading -= 1
        raise AssertionError


@MODES
async def test_a_memory_is_read_by_its_address(engine: MemoryEngine, mode: Any, version: str) -> None:
    with trio.fail_after(30):
        added = await engine.add_memory("Le thé est servi.\n\n  — verbatim ", {"source": "maison", "mood": "calm"})
        async with Client(in_memory(serving(engine)), mode=mode) as client:
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.uri_template for template in templates] == [MEMORY, RECENT]
            answer = await client.read_resource(f"zapomni://memory/{added.memory_id}")
    (text,) = texts(answer)
    head, body = text.split("\n\n", 1)
    assert f"source: maison] ID: {added.memory_id}" in head
    assert head.endswith('\nMetadata: {"mood": "calm"}')
    assert body == "Le thé est servi.\n\n  — verbatim "
    assert answer.contents[0].mime_type == "text/plain"


@MODES
async def test_the_latest_memories_of_each_workspace_are_listed(engine: MemoryEngine, mode: Any, version: str) -> None:
    name = f"{engine.settings.workspace}-кіт.1"
    await engine.create_workspace(name)
    with trio.fail_after(60):
        for number in range(LATEST + 2):
            await engine.add_memory(f"note {number}", workspace=name)
        async with Client(in_memory(serving(engine)), mode=mode) as client:
            listed = {resource.title: resource for resource in (await client.list_resources()).resources}
            uri = listed[f"Latest memories in {name}"].uri
            assert uri.isascii()
            (recent,) = texts(await client.read_resource(uri))
            (empty,) = texts(await client.read_resource(RECENT.format(name=engine.settings.workspace)))
    assert [line.rpartition("note ")[2] for line in recent.splitlines()] == [
        str(number) for number in range(LATEST + 1, 1, -1)
    ]
    assert empty == "No memories found."
    await engine.delete_workspace(name)


async def test_a_memory_is_found_whatever_workspace_it_is_in(engine: MemoryEngine) -> None:
    name = f"{engine.settings.workspace}-other"
    await engine.create_workspace(name)
    added = await engine.add_memory("Elsewhere.", workspace=name)
    async with Client(in_memory(serving(engine)), mode="legacy") as client:
        (text,) = texts(await client.read_resource(f"zapomni://memory/{added.memory_id}"))
        await engine.delete_memory(added.memory_id, workspace=name)
        with pytest.raises(MCPError, match="there is no memory"):
            await client.read_resource(f"zapomni://memory/{added.memory_id}")
    assert text.endswith("\n\nElsewhere.")
    await engine.delete_workspace(name)


@MODES
@pytest.mark.parametrize(
    "uri",
    [
        "zapomni://memory/00000000-0000-4000-8000-000000000000",
        "zapomni://memory/",
        "zapomni://memory/id/more",
        "zapomni://workspace/nowhere/recent",
        "zapomni://workspace/%2F/recent",
        "zapomni://nothing",
        "file:///etc/passwd",
    ],
)
async def test_what_is_not_there_is_told_with_its_address(
    engine: MemoryEngine, mode: Any, version: str, uri: str
) -> None:
    async with Client(in_memory(serving(engine)), mode=mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
    assert caught.value.error.code == -32602


async def test_the_address_that_was_not_found_is_in_the_error() -> None:
    async with connected(serving(FakeEngine())) as client:
        answer = await client.ask(request(1, "resources/read", {"uri": "zapomni://memory/id-9"}))
    assert answer["error"] == {
        "code": -32602,
        "message": "there is no memory id-9",
        "data": {"uri": "zapomni://memory/id-9"},
    }


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DatabaseError("10.0.0.7 refused"), "Database temporarily unavailable. Please retry in a few seconds."),
        (ConfigError("the store was written by a newer version"), "the store was written by a newer version"),
        (RuntimeError("a bug at 0x7f"), "Internal error occurred while processing request"),
    ],
)
@pytest.mark.parametrize("method", ["resources/list", "resources/read", "completion/complete"])
async def test_an_error_is_told_in_words_and_its_detail_only_logged(
    error: Exception, message: str, method: str
) -> None:
    params = {
        "uri": "zapomni://memory/id-1",
        "ref": {"type": "ref/resource", "uri": RECENT},
        "argument": {"name": "name", "value": ""},
    }
    server = serving(FakeEngine(error))
    with captured_log() as log:
        answer = await server.handle_request({"method": method, "params": params, "id": 1})
    assert answer == {"error": {"code": -32603, "message": message}}
    assert str(error) in log.text
    assert log.of("request")["outcome"] in ("error", "failed")
    assert server.get_stats().total_errors == 1


async def test_reading_is_counted_and_logged_without_its_text() -> None:
    engine = FakeEngine()
    engine.memories.append(("a secret", {}))
    server = serving(engine)
    with captured_log() as log:
        answer = await server.handle_request(
            {"method": "resources/read", "params": {"uri": "zapomni://memory/id-1"}, "id": 7}
        )
    assert answer["contents"][0]["text"].endswith("a secret")
    assert "secret" not in log.text
    line = log.of("request")
    assert (line["method"], line["outcome"], line["request_id"]) == ("resources/read", "ok", 7)
    assert (server.get_stats().total_requests, server.get_stats().total_errors) == (1, 0)


async def test_reading_is_cancelled_when_the_client_gives_up() -> None:
    engine = StuckEngine()
    async with connected(serving(engine)) as client:
        await client.send(request(1, "resources/read", {"uri": "zapomni://memory/id-1"}))
        await trio.testing.wait_all_tasks_blocked()
        assert engine.reading == 1
        await client.send(cancel(1), request(2, "ping"))
        assert (await client.receive() or {})["id"] == 2
        await trio.testing.wait_all_tasks_blocked()
        assert engine.reading == 0


async def test_reading_has_a_deadline(autojump_clock: trio.testing.MockClock) -> None:
    server = server_with(engine=StuckEngine(), request_timeout=5)
    answer = await server.handle_request({"method": "resources/read", "params": {"uri": "zapomni://memory/id-1"}})
    assert answer == {"error": {"code": -32001, "message": "resources/read timed out after 5 s"}}


async def test_reading_waits_for_its_turn(autojump_clock: trio.testing.MockClock) -> None:
    server = server_with(SlowTool(), max_concurrent=1)
    ended: list[str] = []

    async def ask(method: str, params: dict[str, Any]) -> None:
        await server.handle_request({"method": method, "params": params})
        ended.append(method)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "tools/call", {"name": "slow_tool", "arguments": {"seconds": 10}})
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "resources/list", {})
    assert ended == ["tools/call", "resources/list"]


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("resources/read", {}, "uri must be a string"),
        ("resources/read", {"uri": 5}, "uri must be a string"),
        ("resources/read", ["uri"], "Invalid params: params must be an object"),
        ("completion/complete", {}, "ref must name a prompt or a resource template of this server"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}, "there is no such prompt"),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": MEMORY}}, "argument must be one of id"),
    ],
)
async def test_params_that_make_no_sense_are_refused(method: str, params: Any, words: str) -> None:
    answer = await serving(FakeEngine()).handle_request({"method": method, "params": params, "id": 1})
    assert answer["error"]["code"] == -32602
    assert answer["error"]["message"].startswith(words)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([MEMORY, RECENT, "recall"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=6,
)


@AT_ANY_SPEED
@given(st.sampled_from(METHODS), st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=4))
async def test_whatever_the_params_are_there_is_one_answer(method: str, params: dict[str, Any]) -> None:
    server = serving(FakeEngine())
    answer = await server.handle_request({"method": method, "params": params, "id": 1})
    assert answer.get("error", {}).get("code") in (None, -32602)
    assert len(answer) == 1 or method == "prompts/get"
    assert server.get_stats().total_requests == 1


@MODES
async def test_workspaces_and_tags_are_completed(engine: MemoryEngine, mode: Any, version: str) -> None:
    own = engine.settings.workspace
    for text, tags in (("one", ["Cats", "pets"]), ("two", ["pets"]), ("three", ["scat, sung"])):
        await engine.add_memory(text, {"tags": tags})
    async with Client(in_memory(serving(engine)), mode=mode) as client:

        async def complete(ref: Any, name: str, value: str, **context: str) -> list[str]:
            answer = await client.complete(ref, {"name": name, "value": value}, context_arguments=context or None)
            assert answer.completion.total == len(answer.completion.values)
            return answer.completion.values

        recent = ResourceTemplateReference(uri=RECENT)
        assert await complete(recent, "name", own.upper()) == [own]
        assert await complete(recent, "name", own[5:12]) == [own]
        assert await complete(TAGS, "workspace", own) == [own]
        assert await complete(TAGS, "tags", "") == ["pets", "Cats", "scat, sung"]
        assert await complete(TAGS, "tags", "cat") == ["Cats", "scat, sung"]
        assert await complete(TAGS, "tags", "pets,c") == ["pets, Cats", "pets, scat, sung"]
        assert await complete(TAGS, "tags", "", workspace="default") == list(await engine.tags(workspace="default"))
        assert await complete(TAGS, "question", "anything") == []
        assert await complete(ResourceTemplateReference(uri=MEMORY), "id", "0") == []


async def test_a_hundred_values_are_completed_at_the_most() -> None:
    engine = FakeEngine()
    engine.workspaces = [f"w{number:03}" for number in range(150)]
    params = {"ref": {"type": "ref/resource", "uri": RECENT}, "argument": {"name": "name", "value": "W"}}
    answer = await serving(engine).handle_request({"method": "completion/complete", "params": params, "id": 1})
    assert answer["completion"]["values"] == engine.workspaces[:100]
    assert (answer["completion"]["total"], answer["completion"]["hasMore"]) == (150, True)
