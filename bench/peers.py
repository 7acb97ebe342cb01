"""Server processes to measure: ours, and one on the SDK's own transport that does nothing."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import psutil

from zapomni.store import reaper

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BARE = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def list_tools(ctx, params):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="echo", description="Says it again", input_schema=schema)])

async def call_tool(ctx, params):
    text = types.TextContent(type="text", text=params.arguments["text"])
    return types.CallToolResult(content=[text])

async def main():
    server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main, backend="trio")
"""

OURS_WITH_ECHO = """
import trio
from zapomni.config import Settings
from zapomni.log import configure
from zapomni.server import MCPServer

class Echo:
    name = "echo"
    description = "Says it again"
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def execute(self, arguments):
        return {"content": [{"type": "text", "text": arguments["text"]}], "isError": False}

configure("info")
server = MCPServer(object(), Settings())
server.register_tool(Echo())
trio.run(server.run)
"""


@attrs.frozen
class Peer:
    """A process that speaks the protocol, driven line by line without an event loop in between."""

    process: subprocess.Popen[bytes]
    spawned: float

    @classmethod
    def start(
        cls, arguments: list[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Peer:
        spawned = time.perf_counter()
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            cwd=folder,
        )
        return cls(process, spawned)

    def send(self, method: str, params: Mapping[str, Any], request_id: int | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the server ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, method: str, params: Mapping[str, Any], request_id: int) -> dict[str, Any]:
        """Send a request and return its answer; what the server says unasked meanwhile is passed over."""
        self.send(method, params, request_id)
        while (answer := self.receive()).get("id") != request_id or "method" in answer:
            pass
        return answer

    def call(self, tool: str, arguments: Mapping[str, Any], request_id: int) -> dict[str, Any]:
        """Call a tool; raises `RuntimeError` if it failed, since a failure is quick and would flatter the figures."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments}, request_id)
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{tool}: {answer.get('error') or answer['result']['content'][0].get('text')}")
        return answer

    def initialize(self) -> float:
        """Shake hands; return the seconds since the process was spawned."""
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}, 0)
        passed = time.perf_counter() - self.spawned
        self.send("notifications/initialized", {})
        return passed

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def end(self) -> tuple[float, float]:
        """Close the input; return the seconds until the process was gone, and the processor time it took in all."""
        assert self.process.stdin is not None
        closed = time.perf_counter()
        self.process.stdin.close()
        _, _, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = 0
        passed = time.perf_counter() - closed
        assert self.process.stdout is not None
        self.process.stdout.close()
        return passed, usage.ru_utime + usage.ru_stime


def inhabitants(folder: Path) -> list[psutil.Process]:
    """Return the processes that work in a folder, such as a store that outlives its server for a moment."""
    return [
        process
        for process in psutil.process_iter(["cwd"])
        if Path(process.info["cwd"] or "/").is_relative_to(folder.resolve())
    ]


def belongings(folder: Path) -> set[psutil.Process]:
    """Return those with their children, and whatever was started with the folder as an argument."""
    here = inhabitants(folder)
    told = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder.resolve()) in word for word in process.info["cmdline"] or ())
    ]
    return {*here, *told, *(child for process in here for child in process.children(recursive=True))}


def resident_megabytes(processes: Iterable[psutil.Process]) -> float:
    return float(sum(process.memory_info().rss for process in processes)) / 1e6


def bare() -> list[str]:
    return [sys.executable, "-c", BARE]


def ours_with_echo() -> list[str]:
    return [sys.executable, "-c", OURS_WITH_ECHO]


def ours(data: Path) -> list[str]:
    return [sys.executable, "-m", "zapomni", "serve", "--data-dir", str(data), "--request-timeout", "600"]


def wait_for_the_store_to_end(data: Path) -> None:
    """Wait until the store of a data directory has compacted its log and is gone."""
    if not (data / "store").exists():
        return
    lock = reaper.open_lock(data / "store", reaper.SERVER)
    while not reaper.try_lock(lock, fcntl.LOCK_EX):
        time.sleep(0.02)
    os.close(lock)
