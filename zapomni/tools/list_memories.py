"""The tool that lists what is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from zapomni.models import tags_of
from zapomni.tools.base import Annotations, Answer, Tool
from zapomni.tools.caption import caption, iso, on_one_line
from zapomni.tools.filters import FilterArguments, filters_from
from zapomni.tools.schema import argument, given, result

if TYPE_CHECKING:
    from zapomni.models import MemoryPage, MemorySummary


@attrs.frozen(kw_only=True)
class ListMemoriesRequest(FilterArguments):
    limit: int = argument("How many at most.", default=20, minimum=1, maximum=100)
    cursor: str | None = argument("Goes on where the last answer ended.", default=None)
    workspace: str | None = argument("If not the current one.", default=None)


@attrs.frozen
class ListedMemory:
    memory_id: str = result()
    preview: str = result()
    created_at: str = result()
    timestamp: str | None = result(default=None)
    tags: tuple[str, ...] = result(default=())
    source: str | None = result(default=None)


@attrs.frozen
class ListMemoriesResult:
    memories: tuple[ListedMemory, ...] = result()
    cursor: str | None = result(default=None)


@attrs.frozen
class ListMemoriesTool(Tool[ListMemoriesRequest]):
    """Lists memories by when they were stored, a page at a time."""

    name: ClassVar[str] = "list_memories"
    description: ClassVar[str] = (
        "List memories, newest first, a line each. Use it to see what was remembered lately, or under a tag, source or "
        "date; to find something by what it says, use search_memory."
    )
    annotations: ClassVar[Annotations] = Annotations("List memories", read_only=True, idempotent=True)
    request_class: ClassVar[type[Any]] = ListMemoriesRequest
    result_class: ClassVar[type[Any]] = ListMemoriesResult

    async def respond(self, request: ListMemoriesRequest) -> Answer:
        page = await self.core_engine.list_memories(
            limit=request.limit,
            **given(filters=filters_from(request) or None, cursor=request.cursor, workspace=request.workspace),
        )
        text = describe(page)
        if page.cursor:
            text += f"\nThere are more: call again with cursor {page.cursor}"
        return Answer(
            text=text,
            data=ListMemoriesResult(tuple(_as_data(memory) for memory in page.memories), page.cursor),
            facts={"memories": len(page.memories)},
        )


def describe(page: MemoryPage) -> str:
    """Return a page as one line for each memory."""
    return "\n".join(_row(memory) for memory in page.memories) or "No memories found."


def _row(memory: MemorySummary) -> str:
    when = caption(memory.timestamp or memory.created_at, memory.metadata)
    return f"{when} ID: {memory.id} {on_one_line(memory.preview)}"


def _as_data(memory: MemorySummary) -> ListedMemory:
    source = memory.metadata.get("source")
    return ListedMemory(
        memory_id=memory.id,
        preview=memory.preview,
        created_at=memory.created_at.isoformat(),
        timestamp=iso(memory.timestamp),
        tags=tags_of(memory.metadata),
        source=None if source is None else str(source),
    )
