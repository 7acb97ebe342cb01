"""Server processes to measure: ours, and one on the SDK's own transport that does nothing."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import psutil
from redis import Redis, exceptions

from zapomni.store import reaper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

QUIET = 1.0  # seconds without growth after which a process is taken to be idle

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
class End:
    """How a process ended once its input was closed."""

    status: int
    """As `subprocess` has it."""
    seconds: float
    """From the end of the input until it was gone."""
    processor: float
    """Seconds that it worked in all."""


@attrs.frozen
class Peer:
    """A process that speaks the protocol, driven line by line without an event loop in between."""

    process: subprocess.Popen[bytes]
    spawned: float
    _ids: Iterator[int] = attrs.field(factory=itertools.count, init=False)

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

    def request(self, method: str, params: Mapping[str, Any]) -> int:
        """Send a request; return its id, which no other has."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        return number

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the server ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(
        self, method: str, params: Mapping[str, Any], unasked: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Send a request and return its answer; what the server says unasked meanwhile goes to the list, if any."""
        number = self.request(method, params)
        while (answer := self.receive()).get("id") != number or "method" in answer:
            if unasked is not None:
                unasked.append(answer)
        return answer

    def call(
        self, tool: str, arguments: Mapping[str, Any], reports: list[dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Call a tool, and ask for reports of its progress if there is a list for them.

        Raises `RuntimeError` if it failed, since a failure is quick and would flatter the figures.
        """
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if reports is not None:
            params["_meta"] = {"progressToken": "progress"}
        answer = self.ask("tools/call", params, reports)
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{tool}: {answer.get('error') or answer['result']['content'][0].get('text')}")
        return answer

    def initialize(self) -> float:
        """Shake hands; return the seconds since the process was spawned."""
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        passed = time.perf_counter() - self.spawned
        self._send({"method": "notifications/initialized", "params": {}})
        return passed

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def settle(self) -> None:
        """Wait until the process has taken no more memory for a while."""
        most, since = self.resident_bytes(), time.monotonic()
        while time.monotonic() - since < QUIET:
            time.sleep(0.05)
            if (now := self.resident_bytes()) > most:
                most, since = now, time.monotonic()

    def close(self) -> End:
        """Close the input, and wait until the process is gone, in whatever way."""
        assert self.process.stdin is not None
        closed = time.perf_counter()
        self.process.stdin.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        passed = time.perf_counter() - closed
        self.process.returncode = os.waitstatus_to_exitcode(status)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return End(self.process.returncode, passed, usage.ru_utime + usage.ru_stime)

    def end(self) -> End:
        """Do the same to a server that has to end in order; raises `RuntimeError` if not, since a crash is quick."""
        ended = self.close()
        if ended.status:
            raise RuntimeError(f"the server ended with status {ended.status}")
        return ended


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


def wait_for_the_store_to_answer(data: Path) -> None:
    """Wait until the store of a data directory has been started and has read its file."""
    with Redis(unix_socket_path=str(data / "store" / "server.sock")) as client:
        while not answers(client):
            time.sleep(0.02)


def answers(client: Any) -> bool:  # not all of a client has types
    try:
        return bool(client.ping())
    except (exceptions.ConnectionError, exceptions.BusyLoadingError):
        return False
