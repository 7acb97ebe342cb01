"""Anything at all on the wire, and then a ping: it is always answered, and nothing grows."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes import FakeEngine, SlowTool
from tests.wire import RawClient, call, cancel, connected, request
from zapomni.config import Settings
from zapomni.server import MCPServer

LIMIT = 20_000

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
ids: st.SearchStrategy[Any] = (
    st.integers() | st.text(max_size=20) | st.sampled_from([0, 1, "1", -1, 2**70, None, True, 1.5, [], {}])
)
methods = st.sampled_from(
    [
        "tools/call",
        "tools/list",
        "resources/list",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "ping",
        "initialize",
        "server/discover",
        "x",
        "",
        "logging/setLevel",
    ]
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2, None]),
        "id": ids,
        "method": methods | values,
        "params": values | st.fixed_dictionaries({"name": st.text() | values, "arguments": values}),
        "result": values,
        "error": values,
    },
)
nested = st.builds(
    lambda depth, opening: opening * depth, st.integers(1, 3000), st.sampled_from([b"[", b'{"a":', b'{"jsonrpc":'])
)
lines = st.one_of(
    st.binary(max_size=200),
    messages.map(lambda message: json.dumps(message).encode()),
    nested,
    st.integers(LIMIT, 5 * LIMIT).map(lambda length: b"x" * length),
    st.sampled_from(["slow_tool", "add_memory", "search_memory", "get_stats", "none"]).flatmap(
        lambda tool: st.builds(
            lambda arguments, number: json.dumps(request(number, "tools/call", {"name": tool, "arguments": arguments})),
            values,
            st.integers(0, 5),
        ).map(str.encode)
    ),
    st.integers(0, 5).map(lambda number: json.dumps(cancel(number)).encode()),
)


def fuzzed_server() -> MCPServer:
    server = MCPServer(FakeEngine(), Settings(max_request_bytes=LIMIT, shutdown_grace=0))  # type: ignore[arg-type]
    server.register_all_tools()
    server.register_tool(SlowTool())
    return server


async def drain_until_pong(client: RawClient, number: int) -> None:
    name = f"the ping after line {number}"
    await client.send(request(name, "ping"))
    assert (await client.answer_to(name)).get("result") == {}
    client.kept.clear()


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(sent=st.lists(lines, max_size=12))
async def test_whatever_is_sent_the_next_ping_is_answered(sent: list[bytes]) -> None:
    with trio.fail_after(60):
        async with connected(fuzzed_server()) as client:
            for number, line in enumerate(sent):
                await client.send(line.replace(b"\n", b" "))
                await drain_until_pong(client, number)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.binary(max_size=2000), size=st.integers(1, 300))
async def test_a_stream_of_noise_in_any_pieces_is_survived(data: bytes, size: int) -> None:
    with trio.fail_after(60):
        async with connected(fuzzed_server()) as client:
            for start in range(0, len(data), size):
                await client.sink.send_all(data[start : start + size])
            await client.send(b"")
            await drain_until_pong(client, 0)


async def test_an_endless_line_takes_no_more_memory_than_the_limit() -> None:
    async with connected(fuzzed_server()) as client:
        await drain_until_pong(client, 0)
        tracemalloc.start()
        try:
            for _ in range(200):
                await client.sink.send_all(b"x" * 100_000)
                await trio.testing.wait_all_tasks_blocked()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5_000_000  # of 20,000,000 bytes sent
        await client.send(b"")
        await drain_until_pong(client, 1)


async def test_many_refused_and_failed_requests_leave_nothing_behind() -> None:
    async with connected(fuzzed_server()) as client:
        bad: list[Any] = [b"{", {}, call(1, "none"), call(2, "add_memory", text=5), request(3, "nope"), cancel(9)]

        async def one_round(number: int) -> None:
            await client.send(*bad * 20)
            await drain_until_pong(client, number)

        for number in range(5):
            await one_round(number)
        tracemalloc.start()
        try:
            await one_round(5)
            first, _ = tracemalloc.get_traced_memory()
            for number in range(6, 30):
                await one_round(number)
            last, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert last - first < 500_000  # 2,880 lines, most of them answered
