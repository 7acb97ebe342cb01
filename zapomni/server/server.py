"""The MCP server: the tools it offers, and the run loop around them."""

from __future__ import annotations

import contextlib
import inspect
import re
import time
from typing import TYPE_CHECKING, Any

import attrs
import trio

from zapomni.config import Settings
from zapomni.log import get_logger
from zapomni.server.completions import Completions
from zapomni.server.dispatch import Dispatcher
from zapomni.server.prompts import Prompts
from zapomni.server.protocol import build_protocol
from zapomni.server.requests import RequestError, Requests
from zapomni.server.resources import Resources
from zapomni.server.stdio import open_stdio
from zapomni.server.transport import open_transport
from zapomni.server.watch import watch_parent, watch_signals
from zapomni.tools import ALL_TOOLS, ToolRegistry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from zapomni.engine import MemoryEngine
    from zapomni.tools import MCPTool

_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LONGEST_NAME = 50
_SHORTEST_DESCRIPTION, _LONGEST_DESCRIPTION = 10, 500

Streams = tuple[trio.abc.ReceiveStream, trio.abc.SendStream]

log = get_logger("server")


@attrs.frozen
class ServerStats:
    """How a server is doing."""

    total_requests: int
    total_errors: int
    registered_tools: int
    uptime_seconds: float
    running: bool


class MCPServer:
    """Serves the tools of a memory engine to one MCP client."""

    def __init__(self, core_engine: MemoryEngine, config: Settings | None = None) -> None:
        self.config = config or Settings()
        self.registry = ToolRegistry()
        self._engine = core_engine
        self._requests = Requests(timeout=self.config.request_timeout, max_concurrent=self.config.max_concurrent)
        prompts = Prompts(self.registry)
        parts = (Resources(core_engine), prompts, Completions(core_engine, prompts))
        methods = {name: method for part in parts for name, method in part.methods().items()}
        self._dispatcher = Dispatcher(self.registry, self._requests, methods)
        self._running = False
        self._started = self._ended = time.monotonic()
        self._stop: Callable[[], None] | None = None
        self._told_to_stop = False

    @property
    def running(self) -> bool:
        """Whether `run` is serving."""
        return self._running

    def get_stats(self) -> ServerStats:
        """Return the counters since the server was made, and how long it has been running."""
        until = time.monotonic() if self._running else self._ended
        return ServerStats(
            total_requests=self._requests.total,
            total_errors=self._requests.errors,
            registered_tools=len(self.registry),
            uptime_seconds=until - self._started,
            running=self._running,
        )

    def register_tool(self, tool: MCPTool) -> None:
        """Offer a tool to clients.

        Raises `TypeError` where an attribute is missing, `ValueError` where one is wrong or the name is taken, and
        `RuntimeError` once the server runs: clients have been told what there is.
        """
        self._register(tool)
        log.info("tool_registered", tool_name=tool.name, total_tools=len(self.registry))

    def register_all_tools(self) -> None:
        """Offer every tool of ours that the settings allow; the line that the server starts with names them."""
        for tool in ALL_TOOLS:
            if (tool.annotations.read_only or not self.config.read_only) and (tool.core or self.config.tools == "all"):
                self._register(tool(self._engine))
                log.debug("tool_registered", tool_name=tool.name, total_tools=len(self.registry))

    def _register(self, tool: MCPTool) -> None:
        if self._running:
            raise RuntimeError("Cannot register tools after server has started")
        _check_tool(tool)
        self.registry.register(tool)

    async def handle_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request given as a dict, with a result or with ``{"error": ...}``.

        Nothing but cancellation is raised, whatever the request and its tool do.
        """
        try:
            return await self._dispatcher.handle(request)
        except RequestError as error:
            answer: dict[str, Any] = {"code": error.code, "message": error.message}
            return {"error": answer | ({"data": dict(error.data)} if error.data else {})}

    async def run(
        self,
        stdin: trio.abc.ReceiveStream | None = None,
        stdout: trio.abc.SendStream | None = None,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until the input ends, a signal comes, the parent dies, or `shutdown` is called.

        Streams that are given are closed at the end; without them, file descriptors 0 and 1 are used. Requests that
        are running at the end get the grace of the settings. Raises `RuntimeError` when already running,
        `ValueError` without tools, and `ConnectionError` without standard streams.
        """
        if self._running:
            raise RuntimeError("Server is already running")
        if not len(self.registry):
            raise ValueError(
                "Cannot start server with zero tools registered. Call register_all_tools() or register_tool() first."
            )
        async with contextlib.AsyncExitStack() as stack:
            source, sink = await stack.enter_async_context(_open_streams(stdin, stdout))
            self._running, self._started = True, time.monotonic()
            stack.callback(self._note_end)
            log.info("server_starting", tools=self.registry.list_tools(), tool_count=len(self.registry))
            await self._serve(source, sink, watch_for_orphaning=stdin is None, task_status=task_status)

    def _note_end(self) -> None:
        self._running, self._ended, self._stop, self._told_to_stop = False, time.monotonic(), None, False
        stats = self.get_stats()
        log.info(
            "server_stopped",
            total_requests=stats.total_requests,
            total_errors=stats.total_errors,
            uptime_seconds=round(stats.uptime_seconds, 3),
        )

    async def _serve(
        self,
        source: trio.abc.ReceiveStream,
        sink: trio.abc.SendStream,
        *,
        watch_for_orphaning: bool,
        task_status: trio.TaskStatus[None],
    ) -> None:
        protocol = build_protocol(self._dispatcher)
        connection = open_transport(
            source, sink, max_bytes=self.config.max_request_bytes, grace=self.config.shutdown_grace
        )
        async with connection as transport, trio.open_nursery() as nursery:
            token = trio.lowlevel.current_trio_token()
            self._stop = lambda: token.run_sync_soon(transport.stop, idempotent=True)
            if self._told_to_stop:
                transport.stop()
            await nursery.start(watch_signals, transport.stop)
            if watch_for_orphaning:
                nursery.start_soon(watch_parent, transport.stop)
            task_status.started()
            await protocol.run(transport.incoming, transport.outgoing, protocol.create_initialization_options())
            nursery.cancel_scope.cancel()

    def shutdown(self) -> None:
        """Ask a running server to end; `run` returns after the grace, or sooner when nothing is running.

        It may be called at any time, again, and from any thread; before `run` has begun it does nothing.
        """
        self._told_to_stop = self._running
        stop = self._stop
        if stop is not None:
            with contextlib.suppress(trio.RunFinishedError):
                stop()


@contextlib.asynccontextmanager
async def _open_streams(
    stdin: trio.abc.ReceiveStream | None, stdout: trio.abc.SendStream | None
) -> AsyncIterator[Streams]:
    if stdin is None and stdout is None:
        async with open_stdio() as streams:
            yield streams
    elif stdin is None or stdout is None:
        raise ValueError("run() takes both stdin and stdout, or neither")
    else:
        async with stdin, stdout:
            yield stdin, stdout


def _check_tool(tool: Any) -> None:
    """Check what clients will be shown of a tool; the registry checks that it is one."""
    for pair in (("name", "description"), ("input_schema", "execute")):
        if not all(hasattr(tool, name) for name in pair):
            raise TypeError(f"Tool must have '{pair[0]}' and '{pair[1]}' attributes")
    if not isinstance(tool.name, str):
        raise ValueError(f"Tool name must be string, got {type(tool.name)}")
    if not 1 <= len(tool.name) <= _LONGEST_NAME:
        raise ValueError(f"Tool name length must be 1-{_LONGEST_NAME} chars, got {len(tool.name)}")
    if not _TOOL_NAME.fullmatch(tool.name):
        raise ValueError(f"Tool name '{tool.name}' invalid (must be lowercase, alphanumeric, underscores)")
    if not isinstance(tool.description, str):
        raise ValueError("Tool description must be string")
    if len(tool.description) < _SHORTEST_DESCRIPTION:
        raise ValueError(f"Tool description too short (min {_SHORTEST_DESCRIPTION} chars)")
    if len(tool.description) > _LONGEST_DESCRIPTION:
        raise ValueError(f"Tool description too long (max {_LONGEST_DESCRIPTION} chars)")
    if not isinstance(tool.input_schema, dict):
        raise ValueError("Tool input_schema must be dict")
    if tool.input_schema.get("type") != "object":
        raise ValueError("Tool input_schema must have type='object'")
    if "properties" not in tool.input_schema:
        raise ValueError("Tool input_schema must have 'properties' field")
    if not callable(tool.execute):
        raise ValueError("Tool must have callable 'execute' method")
    if not inspect.iscoroutinefunction(tool.execute):
        raise ValueError("Tool execute method must be async")
