"""Stand-ins at the edges: an engine without a store, and tools that misbehave in one way each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import trio

from zapomni.models import MemoryResult, SearchHit, SearchResult, Statistics, WorkspaceInfo, preview_of

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
