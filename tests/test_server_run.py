"""The run loop: how a server starts, serves over its streams, and ends."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from tests.fakes import BrokenTool, FakeEngine, SlowTool, SomeTool, captured_log, server_with
from tests.wire import call, connected, request
from zapomni.models import MAX_TEXT_LENGTH
from zapomni.tools import ALL_TOOLS

if TYPE_CHECKING:
    from zapomni.server import MCPServer


def own_server(engine: Any = None, **options: Any) -> MCPServer:
    server = server_with(engine=engine, **options)
    server.register_all_tools()
    return server


def binary_stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO())


async def wait_until_ended(server: MCPServer) -> None:
    with trio.fail_after(30):
        while server.running:  # noqa: ASYNC110  # what ends it is what is tested
            await trio.sleep(0.001)


async def test_a_started_server_waits_for_its_client() -> None:
    server = own_server()
    assert not server.running
    with captured_log() as log:
        async with connected(server, initialized=False):
            await trio.testing.wait_all_tasks_blocked()
            assert server.running
            first, second = server.get_stats(), server.get_stats()
            assert first.running
            assert 0 <= first.uptime_seconds <= second.uptime_seconds
    assert log.of("server_starting")["tools"] == [tool.name for tool in ALL_TOOLS]


async def test_a_valid_request_is_answered_and_counted() -> None:
    engine = FakeEngine()
    server = own_server(engine)
    async with connected(server) as client:
        answer = await client.ask(call(1, "add_memory", text="test"))
    assert answer["result"]["isError"] is False
    assert engine.memories == [("test", {})]
    assert (server.get_stats().total_requests, server.get_stats().total_errors) == (1, 0)


async def test_the_end_of_the_input_ends_the_server() -> None:
    server = own_server()
    with captured_log() as log, trio.fail_after(30):
        async with connected(server, initialized=False) as client:
            await client.sink.aclose()
            assert await client.receive() is None
    assert not server.running
    assert server.get_stats().total_requests == 0
    assert [line["level"] for line in log.lines] == ["info", "info"]
    assert log.of("server_stopped")["total_requests"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_an_interrupt_ends_the_server(number: signal.Signals) -> None:
    await check_signal(number)


async def test_a_termination_signal_ends_the_server() -> None:
    await check_signal(signal.SIGTERM)


async def check_signal(number: signal.Signals) -> None:
    server = own_server()
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with captured_log() as log, trio.fail_after(30):
        async with connected(server) as client:
            os.kill(os.getpid(), number)
            assert await client.receive() is None
    assert not server.running
    assert log.of("signal_received")["signal"] == number.name
    assert log.of("server_stopped")["total_errors"] == 0
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


async def test_a_server_without_tools_does_not_start() -> None:
    server = server_with()
    with pytest.raises(ValueError, match="zero tools registered") as caught:
        await server.run()
    assert "register_all_tools()" in str(caught.value)
    assert not server.running


async def test_a_server_runs_once_at_a_time() -> None:
    server = own_server()
    async with connected(server) as client:
        with pytest.raises(RuntimeError, match="Server is already running"):
            await server.run()
        assert server.running
        assert "result" in await client.ask(request(1, "ping"))
    async with connected(server) as client:  # and again, once it has ended
        assert "result" in await client.ask(request(1, "ping"))


async def test_a_missing_stdin_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    server = own_server()
    for stdin in (io.StringIO(), None):  # no binary mode; no console at all
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", binary_stream())
        with pytest.raises(ConnectionError, match="stdin not available in binary mode"):
            await server.run()
    assert not server.running


async def test_a_closed_stdout_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    server = own_server()
    stdout = binary_stream()
    stdout.buffer.close()
    monkeypatch.setattr(sys, "stdin", binary_stream())
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(ConnectionError, match="stdout is closed"):
        await server.run()
    assert not server.running


async def test_a_tool_that_raises_does_not_end_the_server() -> None:
    server = server_with(BrokenTool(RuntimeError("Bug!")), SomeTool())
    async with connected(server) as client:
        answer = await client.ask(call(1, "buggy_tool"))
        assert answer["error"]["code"] == -32603
        assert answer["error"]["message"] == "Tool execution failed: buggy_tool"
        assert server.running
        assert server.get_stats().total_errors == 1
        assert (await client.ask(call(2, "some_tool")))["result"]["isError"] is False


async def test_a_whole_cycle_from_handshake_to_answer() -> None:
    server = own_server()
    async with connected(server, initialized=False) as client:
        greeting = await client.initialize()
        assert greeting["result"]["serverInfo"]["name"] == "zapomni"
        listing = await client.ask(request(1, "tools/list"))
        assert [tool["name"] for tool in listing["result"]["tools"]] == [tool.name for tool in ALL_TOOLS]
        added = await client.ask(call(2, "add_memory", text="Python is great"))
        assert added["result"]["structuredContent"]["memory_id"] == "id-1"
        found = await client.ask(call(3, "search_memory", query="Python"))
        (hit,) = found["result"]["structuredContent"]["hits"]
        assert (hit["memory_id"], hit["text"]) == ("id-1", "Python is great")


async def test_requests_one_after_another_are_all_answered() -> None:
    engine = FakeEngine()
    server = own_server(engine)
    async with connected(server) as client:
        await client.send(*(call(number, "add_memory", text=f"test {number}") for number in range(5)))
        answers = [await client.answer_to(number) for number in range(5)]
    assert all(answer["result"]["isError"] is False for answer in answers)
    assert sorted(engine.memories) == [(f"test {number}", {}) for number in range(5)]
    assert server.get_stats().total_requests == 5


async def test_answering_a_call_takes_little_work() -> None:
    """Counts function calls, which are the same on every machine, where the clock is not.

    They take a microsecond at the most, so the limit is far below twenty milliseconds.
    """
    server = own_server()
    question = {"method": "tools/call", "params": {"name": "add_memory", "arguments": {"text": "test"}}, "id": 1}
    called = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    with captured_log():
        await server.handle_request(question)
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            await server.handle_request(question)
        finally:
            sys.setprofile(before)
    assert 0 < called < 2000


async def test_a_text_over_the_limit_is_refused_in_few_words() -> None:
    engine = FakeEngine()
    async with connected(own_server(engine)) as client:
        answer = await client.ask(call(1, "add_memory", text="x" * (MAX_TEXT_LENGTH + 1)))
        (block,) = answer["result"]["content"]
        assert answer["result"]["isError"] is True
        assert block["text"] == "Error: text exceeds maximum length of 10,000,000 characters"
        assert len(str(answer)) < 1000
        assert "result" in await client.ask(request(2, "ping"))
    assert engine.calls == []


async def test_memory_does_not_grow_with_the_requests() -> None:
    engine = FakeEngine()
    server = own_server(engine)

    async def ask(rounds: int) -> None:
        for number in range(rounds):
            await client.ask(call(number, "add_memory", text=f"{number:<20000}."))
            engine.memories.clear()
            engine.calls.clear()

    with captured_log("error"):
        async with connected(server) as client:
            await ask(50)  # what is made once has been made
            gc.collect()
            tracemalloc.start()
            try:
                await ask(20)
                gc.collect()
                held, _ = tracemalloc.get_traced_memory()
                await ask(200)
                gc.collect()
                held_later, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert held_later - held < 200 * 20_000 / 10, "requests leave their texts behind"


async def test_shutdown_ends_the_server_from_any_thread_and_any_number_of_times() -> None:
    server = own_server()
    server.shutdown()  # not running: nothing to end
    with trio.fail_after(30):
        async with connected(server) as client:
            thread = threading.Thread(target=server.shutdown)
            thread.start()
            server.shutdown()
            assert await client.receive() is None
            await trio.to_thread.run_sync(thread.join)
    server.shutdown()
    assert not server.running


async def test_calls_that_are_running_get_the_grace_to_answer() -> None:
    server = server_with(SlowTool(), shutdown_grace=25)
    with trio.fail_after(20):
        async with connected(server) as client:
            await client.send(call(1, "slow_tool", seconds=0.05))
            await client.sink.aclose()
            assert (await client.answer_to(1))["result"]["isError"] is False


async def test_calls_that_outlast_the_grace_are_stopped() -> None:
    tool = SlowTool()
    server = server_with(tool, shutdown_grace=0.01)
    with trio.fail_after(20):
        async with connected(server) as client:
            await client.send(call(1, "slow_tool"))
            await trio.testing.wait_all_tasks_blocked()
            assert tool.running == 1
            server.shutdown()
            while await client.receive() is not None:
                pass
    assert tool.running == 0


async def test_a_client_that_stops_reading_ends_the_server() -> None:
    server = own_server()
    with trio.fail_after(20):
        async with connected(server) as client:
            await client.source.aclose()
            await client.send(request(1, "ping"))
            await wait_until_ended(server)


async def test_a_run_that_is_cancelled_leaves_nothing_running() -> None:
    tool = SlowTool()
    server = server_with(tool)
    to_server, server_source = trio.testing.memory_stream_one_way_pair()
    server_sink, _ = trio.testing.memory_stream_one_way_pair()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, server_source, server_sink)
            nursery.cancel_scope.cancel()
    assert not server.running
    with pytest.raises(trio.BrokenResourceError):
        await to_server.send_all(b"anybody there?\n")


async def test_both_streams_are_given_or_none() -> None:
    server = own_server()
    stream, _ = trio.testing.memory_stream_one_way_pair()
    with pytest.raises(ValueError, match="both stdin and stdout, or neither"):
        await server.run(stdout=stream)
