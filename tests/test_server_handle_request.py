"""One request in, one answer out: routing, error answers, deadlines and cancellation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED, BrokenTool, EchoTool, FakeEngine, SlowTool, SomeTool, captured_log, server_with
from zapomni.errors import DatabaseError
from zapomni.tools import ALL_TOOLS

if TYPE_CHECKING:
    from zapomni.server import MCPServer

LIST = {"method": "tools/list", "id": 1}


def call(name: Any, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments or {}}, **fields}


def own_server(engine: Any = None, **options: Any) -> MCPServer:
    server = server_with(engine=engine, **options)
    server.register_all_tools()
    return server


def text_of(answer: dict[str, Any]) -> str:
    (block,) = answer["content"]
    assert block["type"] == "text"
    return str(block["text"])


async def test_a_call_is_answered_by_its_tool() -> None:
    engine = FakeEngine()
    answer = await own_server(engine).handle_request(call("add_memory", {"text": "The sky is blue."}, id=1))
    assert answer["isError"] is False
    assert text_of(answer).startswith("Memory stored successfully.\nID: id-1\n")
    assert engine.memories == [("The sky is blue.", {})]


async def test_the_tools_are_listed() -> None:
    answer = await own_server().handle_request(LIST)
    assert [tool["name"] for tool in answer["tools"]] == [tool.name for tool in ALL_TOOLS]
    for tool in answer["tools"]:
        assert tool["description"]
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
    destructive = {tool["name"] for tool in answer["tools"] if tool["annotations"].get("destructiveHint")}
    assert destructive == {"delete_memory", "delete_workspace", "clear_all"}


async def test_calls_reach_the_tools_that_they_name() -> None:
    server = own_server()
    added = await server.handle_request(call("add_memory", {"text": "Tea, not coffee."}, id=1))
    found = await server.handle_request(call("search_memory", {"query": "Tea"}, id=2))
    counted = await server.handle_request(call("get_stats", id=3))
    assert "ID: id-1" in text_of(added)
    assert "Tea, not coffee." in text_of(found)
    assert counted["structuredContent"]["total_memories"] == 1


async def test_a_number_may_be_the_id() -> None:
    with captured_log() as log:
        await server_with(SomeTool()).handle_request(call("some_tool", id=42))
    assert log.of("request")["request_id"] == 42


async def test_a_string_may_be_the_id() -> None:
    with captured_log() as log:
        await server_with(SomeTool()).handle_request(call("some_tool", id="req-123"))
    assert log.of("request")["request_id"] == "req-123"


async def test_an_empty_request_lacks_its_method() -> None:
    answer = await server_with().handle_request({})
    assert answer == {"error": {"code": -32600, "message": "Invalid request: missing method field"}}


async def test_an_unknown_method_is_not_found() -> None:
    answer = await server_with().handle_request({"method": "foo/bar", "id": 1})
    assert answer == {"error": {"code": -32601, "message": "Method not found: foo/bar"}}


async def test_a_call_without_a_name_is_refused() -> None:
    answer = await server_with().handle_request({"method": "tools/call", "params": {"arguments": {}}, "id": 1})
    assert answer == {"error": {"code": -32602, "message": "Invalid params: missing tool name"}}


async def test_a_call_without_arguments_is_refused() -> None:
    server = server_with(SomeTool())
    answer = await server.handle_request({"method": "tools/call", "params": {"name": "some_tool"}, "id": 1})
    assert answer == {"error": {"code": -32602, "message": "Invalid params: missing arguments"}}


async def test_an_unknown_tool_is_not_found_and_the_others_are_named() -> None:
    answer = await own_server().handle_request(call("fake_tool", id=1))
    assert answer["error"]["code"] == -32601
    assert answer["error"]["message"] == "Tool not found: fake_tool"
    assert answer["error"]["data"] == {"available_tools": [tool.name for tool in ALL_TOOLS]}


async def test_a_tool_that_raises_is_answered_without_its_words() -> None:
    server = server_with(BrokenTool(RuntimeError("Internal bug")))
    answer = await server.handle_request(call("buggy_tool", id=1))
    assert answer == {"error": {"code": -32603, "message": "Tool execution failed: buggy_tool"}}
    assert server.get_stats().total_errors == 1


async def test_no_tools_are_an_empty_list() -> None:
    assert await server_with().handle_request(LIST) == {"tools": []}


async def test_a_request_without_an_id_is_answered() -> None:
    with captured_log() as log:
        answer = await own_server().handle_request(call("add_memory", {"text": "test"}))
    assert answer["isError"] is False
    assert log.of("request")["request_id"] == "<no-id>"


async def test_the_tool_gets_the_arguments_as_they_were_sent() -> None:
    tool = EchoTool()
    arguments = {"text": "  spaces  ", "nested": {"list": [1, None, "ü"]}}
    await server_with(tool).handle_request(call("echo_tool", arguments, id=1))
    assert tool.calls == [arguments]


async def test_a_request_is_logged_in_one_line() -> None:
    server = own_server()
    with captured_log() as log:
        await server.handle_request(call("add_memory", {"text": "test"}, id=7))
    (line,) = log.lines
    assert line["request_id"] == 7
    assert line["method"] == "tools/call"
    assert line["ms"] >= 0
    assert (line["memory_id"], line["chunks_created"]) == ("id-1", 1)


@pytest.mark.parametrize(
    ("name", "arguments", "outcome"),
    [
        ("add_memory", {"text": "test"}, "ok"),
        ("add_memory", {}, "error"),
        ("buggy_tool", {}, "failed"),
        ("nobody", {}, "error"),
    ],
)
async def test_the_log_tells_which_tool_ran_and_how_it_went(name: str, arguments: dict[str, Any], outcome: str) -> None:
    server = own_server()
    server.register_tool(BrokenTool(RuntimeError("bug")))
    with captured_log() as log:
        await server.handle_request(call(name, arguments, id=1))
    assert (log.of("request")["tool"], log.of("request")["outcome"]) == (name, outcome)
    assert server.get_stats().total_errors == (outcome != "ok")


async def test_routing_a_request_takes_little_work() -> None:
    """Counts function calls, which are the same on every machine, where the clock is not.

    A call here takes about a tenth of a microsecond to a microsecond, so the limit is far below five milliseconds.
    """
    server = own_server()
    called = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    with captured_log(), trio.fail_after(30):
        await server.handle_request(LIST)  # schemas are made once, at the first request
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            await server.handle_request(LIST)
        finally:
            sys.setprofile(before)
    assert 0 < called < 1000


async def test_a_slow_call_reports_its_deadline(autojump_clock: trio.testing.MockClock) -> None:
    tool = SlowTool()
    server = server_with(tool, request_timeout=2.5)
    began = trio.current_time()
    with captured_log() as log:
        answer = await server.handle_request(call("slow_tool", id=1))
    assert answer == {
        "content": [{"type": "text", "text": "Error: slow_tool timed out after 2.5 s"}],
        "isError": True,
    }
    assert trio.current_time() - began == pytest.approx(2.5)
    assert tool.running == 0
    assert log.of("request")["outcome"] == "timeout"
    assert server.get_stats().total_errors == 1


async def test_a_tool_may_have_a_deadline_of_its_own(autojump_clock: trio.testing.MockClock) -> None:
    server = server_with(SlowTool(timeout=300.0), request_timeout=2.5)
    answer = await server.handle_request(call("slow_tool", {"seconds": 299}, id=1))
    assert answer["isError"] is False
    answer = await server.handle_request(call("slow_tool", {"seconds": 301}, id=2))
    assert text_of(answer) == "Error: slow_tool timed out after 300 s"


async def test_waiting_for_a_turn_counts_against_the_deadline(autojump_clock: trio.testing.MockClock) -> None:
    tool = SlowTool()
    server = server_with(tool, EchoTool(), request_timeout=10, max_concurrent=1)
    answers: dict[str, dict[str, Any]] = {}

    async def ask(name: str, arguments: dict[str, Any]) -> None:
        answers[name] = await server.handle_request(call(name, arguments, id=name))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "slow_tool", {"seconds": 9})
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "slow_tool", {"seconds": 9})
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "echo_tool", {})
    assert tool.started == 2
    assert text_of(answers["slow_tool"]) == "Error: slow_tool timed out after 10 s"
    assert text_of(answers["echo_tool"]) == "Error: echo_tool timed out after 10 s"
    assert trio.current_time() == pytest.approx(10)


async def test_the_tools_are_listed_while_all_turns_are_taken(autojump_clock: trio.testing.MockClock) -> None:
    server = server_with(SlowTool(), max_concurrent=2)
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(server.handle_request, call("slow_tool", id=number))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        assert len((await server.handle_request(LIST))["tools"]) == 1
        assert (await server.handle_request({"method": "foo"}))["error"]["code"] == -32601
        assert trio.current_time() == began
        nursery.cancel_scope.cancel()


async def test_no_more_calls_run_at_the_same_time_than_allowed(autojump_clock: trio.testing.MockClock) -> None:
    tool = SlowTool()
    server = server_with(tool, max_concurrent=3)
    async with trio.open_nursery() as nursery:
        for number in range(7):
            nursery.start_soon(server.handle_request, call("slow_tool", {"seconds": 1}, id=number))
        await trio.testing.wait_all_tasks_blocked()
        assert tool.running == 3
    assert tool.started == 7
    assert trio.current_time() == pytest.approx(3)


async def test_a_cancelled_request_is_no_answer_and_no_error(autojump_clock: trio.testing.MockClock) -> None:
    tool = SlowTool()
    server = server_with(tool)
    answers: list[object] = []
    with captured_log() as log, trio.move_on_after(1) as scope:
        answers.append(await server.handle_request(call("slow_tool", id=1)))
    assert scope.cancelled_caught
    assert answers == []
    assert tool.running == 0
    assert log.of("request")["outcome"] == "cancelled"
    assert server.get_stats().total_errors == 0


async def test_a_request_cancelled_while_it_waits_gives_its_turn_to_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    tool = SlowTool()
    server = server_with(tool, max_concurrent=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.handle_request, call("slow_tool", {"seconds": 5}, id=1))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await server.handle_request(call("slow_tool", id=2))
        answer = await server.handle_request(call("slow_tool", {"seconds": 5}, id=3))
    assert answer["isError"] is False
    assert tool.started == 2


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
async def test_what_ends_the_process_passes_through(ending: type[BaseException]) -> None:
    error: Any = ending()
    with pytest.raises(ending):
        await server_with(BrokenTool(error)).handle_request(call("buggy_tool", id=1))


async def test_an_error_in_a_nursery_of_a_tool_is_answered_like_any_other() -> None:
    class Branching(SomeTool):
        async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.start_soon(BrokenTool(RuntimeError("secret")).execute, {})
            raise AssertionError("not reached")

    answer = await server_with(Branching()).handle_request(call("some_tool", id=1))
    assert answer == {"error": {"code": -32603, "message": "Tool execution failed: some_tool"}}


async def test_an_engine_without_its_database_is_an_answer_for_the_model() -> None:
    server = own_server(FakeEngine(DatabaseError("Connection to 10.0.0.7 lost")))
    answer = await server.handle_request(call("add_memory", {"text": "test"}, id=1))
    assert text_of(answer) == "Error: Database temporarily unavailable. Please retry in a few seconds."


@pytest.mark.parametrize("name", [None, 5, 1.5, True, [], {}, ["add_memory"]])
async def test_a_tool_name_that_is_no_text_is_refused(name: object) -> None:
    server = own_server()
    answer = await server.handle_request(call(name, id=1))
    assert answer["error"]["code"] == -32602
    assert server.get_stats().total_errors == 1


async def test_params_that_are_no_object_are_refused() -> None:
    answer = await own_server().handle_request({"method": "tools/call", "params": ["add_memory"], "id": 1})
    assert answer == {"error": {"code": -32602, "message": "Invalid params: params must be an object"}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
REQUESTS = JSON | st.fixed_dictionaries(
    {},
    optional={
        "method": st.sampled_from(["tools/call", "tools/list", "ping", ""]) | JSON,
        "id": JSON,
        "params": JSON
        | st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["add_memory", "get_stats", "nobody"]) | JSON, "arguments": JSON}
        ),
    },
)


@AT_ANY_SPEED
@given(request=REQUESTS)
async def test_whatever_is_sent_gets_one_answer_and_is_counted_once(request: Any) -> None:
    server = own_server()
    with captured_log() as log, trio.fail_after(30):
        answer = await server.handle_request(request)
    assert sum(key in answer for key in ("content", "tools", "error")) == 1
    assert server.get_stats().total_requests == 1
    assert server.get_stats().total_errors == ("error" in answer or answer.get("isError", False))
    assert log.of("request")["event"] == "request"
