"""Stand-ins at the edges: an engine without a store, and tools that misbehave in one way each."""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import structlog
import trio
from hypothesis import HealthCheck, settings

from zapomni import log
from zapomni.config import Settings
from zapomni.errors import NotFoundError
from zapomni.models import (
    Memory,
    MemoryPage,
    MemoryResult,
    MemorySummary,
    SearchHit,
    SearchResult,
    Statistics,
    WorkspaceInfo,
    preview_of,
)
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
        self.settings = Settings()
        self.current_workspace = self.settings.workspace
        self.workspaces = [self.current_workspace]  # of which only the first has memories
        self.memories: list[tuple[str, dict[str, Any]]] = []
        self.earlier: dict[str, list[Memory]] = {}
        self.deleted: set[str] = set()
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

    async def get_memory(self, memory_id: str, **options: Any) -> Memory:
        await self._note(memory_id=memory_id, **options)
        for number, (text, metadata) in enumerate(self.memories, start=1):
            if memory_id == f"id-{number}" and memory_id not in self.deleted:
                version = len(self.earlier.get(memory_id, ())) + 1
                return Memory(
                    memory_id, text, metadata, NOON, version=version, updated_at=NOON if version > 1 else None
                )
        raise NotFoundError(f"there is no memory {memory_id}")

    async def history(self, memory_id: str, **options: Any) -> tuple[Memory, ...]:
        await self._note(memory_id=memory_id, **options)
        earlier = tuple(reversed(self.earlier.get(memory_id, ())))
        wanted = (memory for memory in earlier if options.get("version") in (None, memory.version))
        return tuple(wanted)[: options.get("limit")]

    async def update_memory(self, memory_id: str, **options: Any) -> MemoryResult:
        old = await self.get_memory(memory_id, **options)
        self.earlier.setdefault(memory_id, []).append(old)
        text, metadata = options.get("text", old.text), options.get("metadata", old.metadata)
        self.memories[int(memory_id.removeprefix("id-")) - 1] = text, metadata
        return MemoryResult(memory_id, 1, preview_of(text), replaced=True)

    async def delete_memory(self, memory_id: str, **options: Any) -> Memory:
        memory = await self.get_memory(memory_id, **options)
        self.deleted.add(memory_id)
        return attrs.evolve(memory, deleted_at=NOON)

    async def restore_memory(self, memory_id: str, **options: Any) -> Memory:
        self.deleted.discard(memory_id)
        return await self.get_memory(memory_id, **options)

    async def list_memories(self, limit: int, **options: Any) -> MemoryPage:
        await self._note(limit=limit, **options)
        listed = [
            MemorySummary(f"id-{number}", preview_of(text), len(text), metadata, NOON)
            for number, (text, metadata) in enumerate(self.memories, start=1)
            if f"id-{number}" not in self.deleted
        ]
        return MemoryPage(tuple(reversed(listed))[:limit])

    async def tags(self, **options: Any) -> dict[str, int]:
        await self._note(**options)
        return dict(Counter(tag for _, metadata in self.memories for tag in metadata.get("tags", ())).most_common())

    async def list_workspaces(self) -> tuple[WorkspaceInfo, ...]:
        await self._note()
        return tuple([await self.workspace_info(name) for name in self.workspaces])

    async def workspace_info(self, name: str | None = None) -> WorkspaceInfo:
        await self._note(name=name)
        name = name or self.current_workspace
        if name not in self.workspaces:
            raise NotFoundError(f"there is no workspace {name!r}")
        return WorkspaceInfo(name, len(self.memories) if name == self.workspaces[0] else 0)

    async def use_workspace(self, name: str) -> WorkspaceInfo:
        info = await self.workspace_info(name)
        self.current_workspace = name
        return info

    async def create_workspace(self, name: str) -> bool:
        await self._note(name=name)
        new = name not in self.workspaces
        self.workspaces += [name] * new
        return new

    async def delete_workspace(self, name: str) -> WorkspaceInfo:
        info = await self.workspace_info(name)
        self.workspaces.remove(name)
        if self.current_workspace == name:
            self.current_workspace = self.settings.workspace
        return info

    async def clear_workspace(self, name: str) -> WorkspaceInfo:
        info = await self.workspace_info(name)
        self.memories.clear()
        return info

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
