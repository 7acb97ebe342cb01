"""The tool that says what is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from zapomni.tools.base import Annotations, Answer, Tool
from zapomni.tools.caption import iso
from zapomni.tools.schema import argument, given, result

if TYPE_CHECKING:
    from zapomni.models import Statistics


@attrs.frozen
class GetStatsRequest:
    workspace: str | None = argument("If not the current one.", default=None)


@attrs.frozen
class GetStatsResult:
    workspace: str = result()
    total_memories: int = result()
    total_chunks: int = result()
    workspaces: Mapping[str, int] = result()
    bytes_in_memory: int = result()
    bytes_on_disk: int = result()
    oldest: str | None = result(default=None)
    newest: str | None = result(default=None)
    embedding_model: str = result(default="")
    embedding_dimension: int = result(default=0)
    latency_ms: Mapping[str, Mapping[str, float]] = result(default=None)


@attrs.frozen
class GetStatsTool(Tool[GetStatsRequest]):
    """Describes the store; it reads counters and searches nothing."""

    name: ClassVar[str] = "get_stats"
    description: ClassVar[str] = (
        "Tell how much is remembered: counts, sizes, the embedding model, response times. Use it when the user asks "
        "about the memory itself."
    )
    annotations: ClassVar[Annotations] = Annotations("Statistics", read_only=True, idempotent=True)
    request_class: ClassVar[type[Any]] = GetStatsRequest
    result_class: ClassVar[type[Any]] = GetStatsResult

    async def respond(self, request: GetStatsRequest) -> Answer:
        found = await self.core_engine.get_stats(**given(workspace=request.workspace))
        return Answer(
            text=_describe(found),
            data=GetStatsResult(
                workspace=found.workspace,
                total_memories=found.total_memories,
                total_chunks=found.total_chunks,
                workspaces={space.name: space.memories for space in found.workspaces},
                bytes_in_memory=found.bytes_in_memory,
                bytes_on_disk=found.bytes_on_disk,
                oldest=iso(found.oldest),
                newest=iso(found.newest),
                embedding_model=found.embedding_model,
                embedding_dimension=found.embedding_dimension,
                latency_ms={name: dict(figures) for name, figures in found.latency_ms.items()},
            ),
        )


def _describe(found: Statistics) -> str:
    memories = "1 memory" if found.total_memories == 1 else f"{found.total_memories:,} memories"
    passages = "1 passage" if found.total_chunks == 1 else f"{found.total_chunks:,} passages"
    lines = [
        f"Workspace {found.workspace}: {memories} in {passages}.",
        f"Size: {found.bytes_on_disk / 1e6:.1f} MB on disk, {found.bytes_in_memory / 1e6:.1f} MB in memory.",
    ]
    if found.oldest and found.newest:
        lines.append(f"From {found.oldest:%Y-%m-%d} to {found.newest:%Y-%m-%d}.")
    if len(found.workspaces) > 1:
        lines.append("Workspaces: " + ", ".join(f"{space.name} ({space.memories:,})" for space in found.workspaces))
    if found.embedding_model:
        lines.append(f"Embedding model: {found.embedding_model}, {found.embedding_dimension} dimensions.")
    lines += [
        f"{name}: " + ", ".join(f"{percentile} {value:.1f} ms" for percentile, value in figures.items())
        for name, figures in found.latency_ms.items()
    ]
    return "\n".join(lines)
