"""The official SDK's client against our server: in memory through the real framing, and as a real process."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from tests.fakes import FakeEngine, SlowTool, SomeTool
from zapomni.config import Settings
from zapomni.server import MCPServer
from zapomni.server.transport import open_transport
from zapomni.tools import ALL_TOOLS
from zapomni.tools.call import current_call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

ROOT = Path(__file__).parent.parent
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
MODES = pytest.mark.parametrize(("mode", "version"), [("legacy", HANDSHAKE), ("auto", STATELESS)])


class CountingTool(SomeTool):
    """Reports progress three times."""

    name = "counting_tool"

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        report = current_call().reporter
        for done in range(1, 4):
            if report is not None:
                await report(done, 3, f"step {done}")
        return {"content": [{"type": "text", "text": f"reported: {report is not None}"}], "isError": False}


def server_with(*tools: SomeTool, **settings: Any) -> MCPServer:
    server = MCPServer(FakeEngine(), Settings(**settings))  # type: ignore[arg-type]
    server.register_all_tools()
    for tool in tools:
        server.register_tool(tool)
    return server


@contextlib.asynccontextmanager
async def in_memory(server: MCPServer) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the client's streams; the server runs at the other end of a pair of pipes in memory."""
    to_server, server_source = trio.testing.memory_stream_one_way_pair()
    server_sink, from_server = trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run, server_source, server_sink)
        async with open_transport(from_server, to_server, max_bytes=1 << 20, grace=0) as transport:
            yield transport.incoming, transport.outgoing
        await to_server.aclose()
        await from_server.aclose()


@contextlib.asynccontextmanager
async def in_process(_: MCPServer) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams of a client whose server is a real child process."""
    command = StdioServerParameters(command=sys.executable, args=["-m", "tests.server_process"], cwd=ROOT)
    async with stdio_client(command) as streams:
        yield streams


@MODES
@pytest.mark.parametrize("transport", [in_memory, in_process])
async def test_a_client_lists_and_calls_tools(transport: Callable[..., Any], mode: str, version: str) -> None:
    with trio.fail_after(30):
        async with Client(transport(server_with()), mode=mode) as client:
            assert client.protocol_version == version
            assert client.server_info is not None
            assert client.server_info.name == "zapomni"
            assert "memory" in (client.instructions or "")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools["add_memory"].annotations is not None
            assert tools["add_memory"].annotations.read_only_hint is False
            assert tools["search_memory"].output_schema is not None
            added = await client.call_tool("add_memory", {"text": "The cat sleeps", "metadata": {"tags": ["pets"]}})
            assert added.structured_content is not None
            assert added.structured_content["memory_id"] == "id-1"
            found = await client.call_tool("search_memory", {"query": "cat"})
            assert found.structured_content is not None
            assert found.structured_content["hits"][0]["text"] == "The cat sleeps"
            stats = await client.call_tool("get_stats")
            assert stats.structured_content is not None
            assert stats.structured_content["total_memories"] == 1


@MODES
async def test_wrong_arguments_are_an_answer_that_the_model_reads(mode: str, version: str) -> None:
    async with Client(in_memory(server_with()), mode=mode) as client:
        answer = await client.call_tool("add_memory", {"txt": "typo"})
        assert answer.is_error is True
        assert answer.content[0].text == "Error: field required: text; unexpected field: txt"  # type: ignore[union-attr]


@MODES
async def test_an_unknown_tool_is_told_with_those_there_are(mode: str, version: str) -> None:
    async with Client(in_memory(server_with()), mode=mode) as client:
        with pytest.raises(MCPError, match="Tool not found: forget") as caught:
            await client.call_tool("forget", {})
        assert caught.value.error.code == -32601
        assert caught.value.error.data == {"available_tools": [tool.name for tool in ALL_TOOLS]}


@MODES
async def test_progress_reaches_a_client_that_asks_for_it(mode: str, version: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with Client(in_memory(server_with(CountingTool())), mode=mode) as client:
        answer = await client.call_tool("counting_tool", progress_callback=note)
        assert answer.content[0].text == "reported: True"  # type: ignore[union-attr]
        await trio.testing.wait_all_tasks_blocked()
    assert sorted(seen) == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_no_progress_is_sent_to_a_client_that_did_not_ask() -> None:
    async with Client(in_memory(server_with(CountingTool())), mode="legacy") as client:
        answer = await client.call_tool("counting_tool")
        assert answer.content[0].text == "reported: False"  # type: ignore[union-attr]


@MODES
async def test_a_client_that_gives_up_stops_the_work(mode: str, version: str) -> None:
    tool = SlowTool()
    async with Client(in_memory(server_with(tool)), mode=mode) as client:
        with trio.move_on_after(0.2):
            await client.call_tool("slow_tool", {})
        assert tool.started == 1
        await client.list_tools()
        await trio.testing.wait_all_tasks_blocked()
        assert tool.running == 0


@MODES
async def test_a_call_over_its_deadline_is_told_by_name_and_seconds(mode: str, version: str) -> None:
    async with Client(in_memory(server_with(SlowTool(), request_timeout=0.05)), mode=mode) as client:
        answer = await client.call_tool("slow_tool", {})
        assert answer.is_error is True
        assert answer.content[0].text == "Error: slow_tool timed out after 0.05 s"  # type: ignore[union-attr]


async def test_the_order_of_tools_is_the_same_every_time() -> None:
    async with Client(in_memory(server_with(SlowTool())), mode="legacy") as client:
        names = [[tool.name for tool in (await client.list_tools()).tools] for _ in range(3)]
    assert names == [[*(tool.name for tool in ALL_TOOLS), "slow_tool"]] * 3
