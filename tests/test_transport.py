"""Messages over byte streams: what may go wrong between two processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import mcp_types as types
import pytest
import trio
import trio.testing
from mcp.shared.message import SessionMessage

from tests.fakes import FakeEngine, SlowTool, SomeTool
from tests.wire import RawClient, call, cancel, connected, request
from zapomni.config import Settings
from zapomni.server import MCPServer
from zapomni.server.transport import MAX_IN_FLIGHT, InFlight, Outgoing

if TYPE_CHECKING:
    from zapomni.tools import MCPTool


def server_with(*tools: MCPTool, **settings: Any) -> MCPServer:
    server = MCPServer(FakeEngine(), Settings(**settings))  # type: ignore[arg-type]
    for tool in tools or (SomeTool(),):
        server.register_tool(tool)
    return server


async def test_a_malformed_line_is_answered_and_the_next_one_served() -> None:
    async with connected(server_with()) as client:
        await client.send(b"{broken", b"[]", request(1, "ping"))
        answers = [await client.receive() for _ in range(3)]
    assert [(answer or {}).get("error", {}).get("code") for answer in answers] == [-32700, -32600, None]


async def test_empty_lines_are_no_messages() -> None:
    async with connected(server_with()) as client:
        await client.send(b"", b"  ", b"\r", request(1, "ping"))
        assert (await client.receive() or {})["id"] == 1


async def test_a_line_over_the_limit_is_refused_while_it_streams_in() -> None:
    async with connected(server_with(max_request_bytes=2000)) as client:
        await client.sink.send_all(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 5000)
        answer = await client.receive()  # before the line has ended
        assert answer is not None
        assert answer["error"]["code"] == -32600
        assert "2000 bytes" in answer["error"]["message"]
        await client.sink.send_all(b"y" * 5000 + b"\n")
        assert (await client.ask(request(2, "ping")))["result"] == {}


async def test_a_line_of_exactly_the_limit_is_served() -> None:
    line = json.dumps(request(1, "ping", {"_meta": {"x": ""}})).encode()
    async with connected(server_with(max_request_bytes=2000)) as client:
        await client.send(line.replace(b'"x": ""', b'"x": "' + b"a" * (2000 - len(line)) + b'"'))
        assert (await client.answer_to(1))["result"] == {}


async def test_answers_leave_as_they_are_ready() -> None:
    async with connected(server_with(SlowTool())) as client:
        await client.send(call(1, "slow_tool", seconds=0.2), call(2, "slow_tool", seconds=0))
        assert [(await client.receive() or {})["id"] for _ in range(2)] == [2, 1]


async def test_answers_that_are_ready_together_leave_in_one_write() -> None:
    writes: list[bytes] = []

    class Recorder(trio.abc.SendStream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            writes.append(bytes(data))
            await trio.sleep(0.05)  # a slow reader lets answers gather

        async def wait_send_all_might_not_block(self) -> None: ...

        async def aclose(self) -> None: ...

    to_server, source = trio.testing.memory_stream_one_way_pair()
    server = server_with()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run, source, Recorder())
        client = RawClient(to_server, source)
        await client.send(*(request(number, "ping") for number in range(20)))
        await to_server.aclose()
    lines = b"".join(writes).splitlines()
    assert {json.loads(line)["id"] for line in lines} == set(range(20))
    assert len(writes) < len(lines)


async def test_the_last_line_needs_no_line_break() -> None:
    async with connected(server_with()) as client:
        await client.sink.send_all(json.dumps(request(1, "ping")).encode())
        await client.sink.aclose()
        assert (await client.answer_to(1))["result"] == {}
        assert await client.receive() is None


async def test_running_calls_may_answer_after_the_end_of_input() -> None:
    async with connected(server_with(SlowTool(), shutdown_grace=5)) as client:
        await client.send(call(1, "slow_tool", seconds=0.1))
        await client.sink.aclose()
        assert (await client.answer_to(1))["result"]["isError"] is False


async def test_calls_that_outlast_the_grace_are_cancelled_and_told_so() -> None:
    tool = SlowTool()
    with trio.fail_after(5):
        async with connected(server_with(tool, shutdown_grace=0.1)) as client:
            await client.send(call(1, "slow_tool"))
            await client.sink.aclose()
            assert (await client.answer_to(1))["error"]["code"] == -32000
            assert await client.receive() is None
    assert (tool.started, tool.running) == (1, 0)


async def test_a_cancelled_call_stops_and_is_not_answered() -> None:
    tool = SlowTool()
    async with connected(server_with(tool)) as client:
        await client.send(call(1, "slow_tool"))
        await trio.testing.wait_all_tasks_blocked()
        assert tool.running == 1
        await client.send(cancel(1), request(2, "ping"))
        assert (await client.receive() or {})["id"] == 2
        await trio.testing.wait_all_tasks_blocked()
        assert tool.running == 0
        await client.sink.aclose()
        assert await client.receive() is None


async def test_a_peer_that_stops_reading_ends_the_server_quietly() -> None:
    to_server, source = trio.testing.memory_stream_one_way_pair()
    sink, from_server = trio.testing.memory_stream_one_way_pair()
    server = server_with()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run, source, sink)
            await from_server.aclose()
            await to_server.send_all(json.dumps(request(1, "ping")).encode() + b"\n")
    assert not server.running


async def test_a_result_that_cannot_be_written_costs_one_answer() -> None:
    class Surrogates(SomeTool):
        async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": "ok"}], "structuredContent": {"name": "\udcff"}}

    async with connected(server_with(Surrogates())) as client:
        assert (await client.ask(call(1, "some_tool")))["error"]["code"] == -32603
        assert (await client.ask(request(2, "ping")))["result"] == {}


@pytest.mark.parametrize("baggage", [5, [True], "a=1"])
async def test_what_a_client_sends_for_tracing_harms_no_call(baggage: object) -> None:
    message = call(1, "some_tool")
    message["params"]["_meta"] = {"baggage": baggage}
    async with connected(server_with()) as client:
        assert (await client.ask(message))["result"]["isError"] is False


async def test_a_tool_that_returns_nonsense_costs_one_answer() -> None:
    class Nonsense(SomeTool):
        async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"content": "no list"}

    async with connected(server_with(Nonsense())) as client:
        assert (await client.ask(call(1, "some_tool")))["error"]["code"] == -32603
        assert (await client.ask(request(2, "ping")))["result"] == {}


async def test_more_requests_than_are_sane_are_refused_and_those_before_are_kept() -> None:
    tool = SlowTool()
    async with connected(server_with(tool, shutdown_grace=0)) as client:
        for start in range(0, MAX_IN_FLIGHT, 100):
            await client.send(*(call(number, "slow_tool") for number in range(start, start + 100)))
        await client.send(call("one more", "slow_tool"))
        assert (await client.answer_to("one more"))["error"]["code"] == -32000
        await client.send(cancel(0), request("after", "ping"))
        assert (await client.answer_to("after"))["result"] == {}


@pytest.mark.parametrize("how", ["cancelled", "input ends"])
async def test_five_hundred_calls_leave_no_task_behind(how: str) -> None:
    tool = SlowTool()
    before = trio.lowlevel.current_statistics().tasks_living
    with trio.fail_after(30):
        async with connected(server_with(tool, max_concurrent=100, shutdown_grace=0.2)) as client:
            await client.send(*(call(number, "slow_tool") for number in range(500)))
            await trio.testing.wait_all_tasks_blocked()
            assert tool.running == 100
            if how == "cancelled":
                idle = trio.lowlevel.current_statistics().tasks_living - 500
                await client.send(*(cancel(number) for number in range(500)), request("after", "ping"))
                assert (await client.answer_to("after"))["result"] == {}
                await trio.testing.wait_all_tasks_blocked()
                assert tool.running == 0
                assert trio.lowlevel.current_statistics().tasks_living == idle
            nursery_end = client.sink
            await nursery_end.aclose()
            while await client.receive() is not None:
                pass
    assert tool.running == 0
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_cancelling_run_itself_unwinds_at_once() -> None:
    tool = SlowTool()
    server = server_with(tool, shutdown_grace=60)
    with trio.fail_after(5):
        with trio.CancelScope() as scope:
            async with connected(server) as client:
                await client.send(call(1, "slow_tool"))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
    assert (tool.started, tool.running, server.running) == (1, 0, False)


@pytest.mark.parametrize("again", [7, "7"])
async def test_an_id_that_is_in_use_is_refused_and_the_first_call_stays(again: int | str) -> None:
    tool = SlowTool()
    async with connected(server_with(tool)) as client:
        await client.send(call(7, "slow_tool", seconds=0.05), call(again, "slow_tool"))
        refusal, answer = [await client.receive() or {} for _ in range(2)]
    assert (refusal["id"], refusal["error"]["code"]) == (again, -32600)
    assert "still running" in refusal["error"]["message"]
    assert (answer["id"], answer["result"]["isError"]) == (7, False)
    assert tool.started == 1


async def test_nothing_that_shares_an_id_outlives_its_cancel() -> None:
    tool = SlowTool()
    async with connected(server_with(tool)) as client:
        await client.send(*(call(7, "slow_tool") for _ in range(20)))
        await client.send(*(cancel(7) for _ in range(20)), call(8, "slow_tool", seconds=0))
        assert (await client.answer_to(8))["result"]["isError"] is False
        await trio.testing.wait_all_tasks_blocked()
        assert tool.running == 0


async def test_an_id_is_free_again_after_its_answer_or_its_cancel() -> None:
    async with connected(server_with(SlowTool())) as client:
        for _ in range(3):
            assert "result" in await client.ask(call(7, "slow_tool", seconds=0))
            await client.send(call(7, "slow_tool"), cancel(7))


async def test_ids_are_free_while_their_answers_are_being_written_and_settled_afterwards() -> None:
    room = trio.Event()

    class FullPipe(trio.abc.SendStream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            await room.wait()

        async def wait_send_all_might_not_block(self) -> None: ...

        async def aclose(self) -> None: ...

    in_flight, outgoing = InFlight(), Outgoing()
    for number in (1, 2):
        in_flight.note_incoming(types.JSONRPCRequest(jsonrpc="2.0", id=number, method="ping"))
        await outgoing.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=number, result={})))
        assert number in in_flight
    outgoing.close()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outgoing.write_to, FullPipe(), in_flight)
            await trio.testing.wait_all_tasks_blocked()
            assert 1 not in in_flight, "its line may have been read, while the next finds no room"
            with trio.move_on_after(0.01) as waiting:
                await in_flight.wait_settled()
            assert waiting.cancelled_caught
            room.set()
        await in_flight.wait_settled()


async def test_a_ping_is_answered_however_much_is_in_flight() -> None:
    async with connected(server_with(SlowTool(), shutdown_grace=0)) as client:
        for start in range(0, MAX_IN_FLIGHT, 100):
            await client.send(*(call(number, "slow_tool") for number in range(start, start + 100)))
        assert (await client.ask(request("alive?", "ping")))["result"] == {}


async def test_what_breaks_at_the_deadline_is_an_answer_like_any_other() -> None:
    class BreaksWhenCancelled(SomeTool):
        async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                try:
                    await trio.sleep_forever()
                finally:
                    raise ValueError("the text of a memory")

    server = server_with(BreaksWhenCancelled(), request_timeout=0.05)
    answer = await server.handle_request(call(1, "some_tool"))
    assert answer["error"] == {"code": -32603, "message": "Tool execution failed: some_tool"}
    async with connected(server) as client:
        assert (await client.ask(call(2, "some_tool")))["error"]["code"] == -32603
    assert server.get_stats().total_errors == 2
