"""Stand-ins at the edges: an engine without a store, and tools that misbehave in one way each."""

from __future__ import annotations

import contextlib
import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
import trio
from hypothesis import HealthCheck, settings

from zapomni import log
from zapomni.config import Settings
from zapomni.models import MemoryResult, SearchHit, SearchResult, Statistics, WorkspaceInfo, preview_of
from zapomni.server import MCPServer

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine is no failure of ours.
AT_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class FakeEngine:
    """Remembers in a list and finds by substring; `error` is raised instead, where it is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.memories: list[tuple[str, dict[str, Any]]] = []
        self.calls: list[dict[str, Any]] = []

    async def add_memory(self, text: str, metadata: dict[str, Any], **options: Any) -> MemoryResult:
        await self._note(text=text, metadata=metadata, **options)
        self.memories.append((text, metadata))
        return MemoryResult(memory_id=f"id-{len(self.memories)}", chunks_created=1, text_preview=preview_of(text))

    async def search_memory(self, query: str, limit: int, **options: Any) -> SearchResult:
        await self._note(query=query, limit=limit, **options)
        return SearchResult(
            tuple(
                SearchHit(memory_id=f"id-{number}", text=text, score=1.0, created_at=NOON, metadata=metadata)
                for number, (text, metadata) in enumerate(self.memories, start=1)
                if query in text
            )[:limit]
        )

    async def get_stats(self, **options: Any) -> Statistics:
        await self._note(**options)
        return Statistics(
            workspace="default",
            total_memories=len(self.memories),
            total_chunks=len(self.memories),
            workspaces=(WorkspaceInfo("default", len(self.memories), len(self.memories)),),
        )

    async def _note(self, **arguments: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.calls.append(arguments)
        if self.error is not None:
            raise self.error


class SomeTool:
    """A tool that does nothing; tests change what they are about."""

    name: Any = "some_tool"
    description: Any = "A tool for tests"
    input_schema: Any = {"type": "object", "properties": {}}  # noqa: RUF012  # shared, and never changed

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "done"}], "isError": False}


class SlowTool(SomeTool):
    """Sleeps until it is told to stop, and knows how many of its calls did what."""

    name = "slow_tool"
    running = 0
    started = 0

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.started += 1
        self.running += 1
        try:
            await trio.sleep(arguments.get("seconds", float("inf")))
        finally:
            self.running -= 1
        return await super().execute(arguments)


class BrokenTool(SomeTool):
    """Raises what it is given."""

    name = "buggy_tool"

    def __init__(self, error: Exception, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.error = error

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        raise self.error


class EchoTool(SomeTool):
    """Keeps the arguments of its calls."""

    name = "echo_tool"

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.calls: list[dict[str, Any]] = []

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(arguments)
        return await super().execute(arguments)


def tool_without(attribute: str) -> Any:
    """Return an object with everything that a tool has, but one thing."""
    parts = {name: getattr(SomeTool, name) for name in ("name", "description", "input_schema", "execute")}
    del parts[attribute]
    return type("Incomplete", (), parts)()


def server_with(*tools: Any, engine: Any = None, **options: Any) -> MCPServer:
    """Return a server with these tools, on an engine without a store."""
    core: Any = engine or FakeEngine()
    server = MCPServer(core, Settings(**options))
    for tool in tools:
        server.register_tool(tool)
    return server


class CapturedLog:
    """The log lines of a test, as they were written."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.split("\n") if line]

    def of(self, event: str) -> dict[str, Any]:
        """Return the one line of an event."""
        (line,) = (line for line in self.lines if line["event"] == event)
        return line


@contextlib.contextmanager
def captured_log(level: str = "info") -> Iterator[CapturedLog]:
    """Read what is logged inside; the configuration is as before afterwards."""
    before = structlog.get_config()
    captured = CapturedLog()
    log.configure(level, captured.stream)
    try:
        yield captured
    finally:
        structlog.configure(**before)
