"""The tool that finds again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from zapomni.errors import ValidationError
from zapomni.tools.base import Annotations, Answer, Tool
from zapomni.tools.caption import caption, iso
from zapomni.tools.filters import FilterArguments, filters_from
from zapomni.tools.schema import argument, given, result

if TYPE_CHECKING:
    from zapomni.models import SearchHit, SearchResult


@attrs.frozen(kw_only=True)
class SearchMemoryRequest(FilterArguments):
    query: str = argument("Words or a question, in any language.", min_length=1, max_length=10_000)
    limit: int = argument("How many at most.", default=10, minimum=1, maximum=100)
    max_tokens: int | None = argument("Cut the answer to about this.", default=None, minimum=50)
    workspace: str | None = argument("If not the current one.", default=None)

    def __attrs_post_init__(self) -> None:
        if not self.query.strip():
            raise ValidationError("query cannot be empty or whitespace-only")


@attrs.frozen
class FoundMemory:
    memory_id: str = result()
    text: str = result("The best passage, verbatim.")
    score: float = result()
    created_at: str = result()
    timestamp: str | None = result("When it happened.", default=None)
    metadata: Mapping[str, Any] = result(default=None)
    chunks: int = result("Passages in all.", default=1)


@attrs.frozen
class SearchMemoryResult:
    hits: tuple[FoundMemory, ...] = result()
    notice: str | None = result(default=None)
    truncated: bool = result(default=False)


@attrs.frozen
class SearchMemoryTool(Tool[SearchMemoryRequest]):
    """Finds memories by meaning and by words."""

    name: ClassVar[str] = "search_memory"
    description: ClassVar[str] = (
        "Look up what was remembered, by meaning and by words. Use it before answering anything that may depend on "
        "earlier conversations, preferences, decisions or notes. Each hit has its id and date."
    )
    annotations: ClassVar[Annotations] = Annotations("Recall", read_only=True, idempotent=True)
    request_class: ClassVar[type[Any]] = SearchMemoryRequest
    result_class: ClassVar[type[Any]] = SearchMemoryResult
    core: ClassVar[bool] = True

    async def respond(self, request: SearchMemoryRequest) -> Answer:
        filters = filters_from(request) or None
        found = await self.core_engine.search_memory(
            query=request.query.strip(),
            limit=request.limit,
            **given(filters=filters, workspace=request.workspace, max_tokens=request.max_tokens),
        )
        return Answer(
            text=_describe(found),
            data=SearchMemoryResult(
                hits=tuple(_as_data(hit) for hit in found.hits), notice=found.notice, truncated=found.truncated
            ),
            facts={"hits": len(found.hits)},
        )


def _as_data(hit: SearchHit) -> FoundMemory:
    return FoundMemory(
        memory_id=hit.memory_id,
        text=hit.text,
        score=round(hit.score, 4),
        created_at=hit.created_at.isoformat(),
        timestamp=iso(hit.timestamp),
        metadata=dict(hit.metadata),
        chunks=hit.chunks,
    )


def _describe(found: SearchResult) -> str:
    if not found.hits:
        lines = ["No memories found."]
    else:
        count = len(found.hits)
        lines = [f"Found {count} {'memory' if count == 1 else 'memories'}."]
    lines += [_passage(number, hit) for number, hit in enumerate(found.hits, start=1)]
    if found.truncated:
        lines.append("More were found, but they did not fit max_tokens.")
    if found.notice:
        lines.append(f"Note: {found.notice}")
    return "\n\n".join(lines)


def _passage(number: int, hit: SearchHit) -> str:
    notes = (f"one of {hit.chunks} passages",) if hit.chunks > 1 else ()
    return f"{number}. {caption(hit.timestamp or hit.created_at, hit.metadata, *notes)} ID: {hit.memory_id}\n{hit.text}"
