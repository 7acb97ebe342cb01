"""The tool that reads one memory, whole or as much of it as the reader has room for."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from zapomni.chunking import BYTES_PER_TOKEN, estimate_tokens
from zapomni.errors import NotFoundError, ValidationError
from zapomni.models import preview_of
from zapomni.tools.base import Annotations, Answer, Tool
from zapomni.tools.caption import caption, iso, on_one_line
from zapomni.tools.schema import argument, given, result

if TYPE_CHECKING:
    from datetime import datetime

    from zapomni.models import Memory

VERSIONS = 20
"""Earlier versions that are listed, at the most."""
_SHOWN_ALREADY = frozenset({"tags", "source", "timestamp"})


@attrs.frozen
class GetMemoryRequest:
    memory_id: str = argument("Its id.")
    offset: int = argument("Start here in the text, to read on.", default=0, minimum=0)
    max_tokens: int = argument("Cut the text to about this.", default=4000, minimum=50, maximum=100_000)
    version: int | None = argument("Read this earlier version.", default=None, minimum=1)
    history: bool = argument("List earlier versions, too.", default=False)
    workspace: str | None = argument("If not the current one.", default=None)


@attrs.frozen
class EarlierVersion:
    version: int = result()
    stored_at: str = result()
    preview: str = result()


@attrs.frozen
class GetMemoryResult:
    memory_id: str = result()
    text: str = result()
    length: int = result("Of the whole text.")
    version: int = result()
    created_at: str = result()
    metadata: Mapping[str, Any] = result()
    next_offset: int | None = result("Where the rest starts.", default=None)
    key: str | None = result(default=None)
    timestamp: str | None = result(default=None)
    updated_at: str | None = result(default=None)
    history: tuple[EarlierVersion, ...] | None = result(default=None)


@attrs.frozen
class GetMemoryTool(Tool[GetMemoryRequest]):
    """Returns a memory's text verbatim, with everything that is known about it."""

    name: ClassVar[str] = "get_memory"
    description: ClassVar[str] = (
        "Read one memory: the whole text, metadata, dates, versions. Use it when a search hit shows only a passage "
        "and you need the rest, or to see what it said before it was changed."
    )
    annotations: ClassVar[Annotations] = Annotations("Read a memory", read_only=True, idempotent=True)
    request_class: ClassVar[type[Any]] = GetMemoryRequest
    result_class: ClassVar[type[Any]] = GetMemoryResult
    core: ClassVar[bool] = True

    async def respond(self, request: GetMemoryRequest) -> Answer:
        where = given(workspace=request.workspace)
        current = await self.core_engine.get_memory(request.memory_id, **where)
        memory, listed = current, None
        if request.version is not None and request.version != current.version:
            memory = await self._version(request.version, current, where)
        if request.history:
            listed = await self.core_engine.history(request.memory_id, limit=VERSIONS, **where)
        if request.offset and request.offset >= len(memory.text):
            raise ValidationError(f"offset must be less than the text's length of {len(memory.text):,} characters")
        end = cut(memory.text, request.offset, request.max_tokens)
        return Answer(
            text="\n\n".join(_describe(memory, request.offset, end, listed, current.version - 1)),
            data=GetMemoryResult(
                memory_id=memory.id,
                text=memory.text[request.offset : end],
                length=len(memory.text),
                version=memory.version,
                created_at=memory.created_at.isoformat(),
                metadata=dict(memory.metadata),
                next_offset=end if end < len(memory.text) else None,
                key=memory.key,
                timestamp=iso(memory.timestamp),
                updated_at=iso(memory.updated_at),
                history=None if listed is None else tuple(_as_data(version) for version in listed),
            ),
            facts={"memory_id": memory.id, "characters": end - request.offset},
        )

    async def _version(self, number: int, current: Memory, where: Mapping[str, Any]) -> Memory:
        if number < current.version:
            for memory in await self.core_engine.history(current.id, version=number, **where):
                return memory
        raise NotFoundError(f"memory {current.id} has no version {number}; the current one is {current.version}")


def cut(text: str, start: int, tokens: int) -> int:
    """Return where to stop reading a text within a budget: after a word, where there is one to stop after."""
    most = min(start + tokens * BYTES_PER_TOKEN, len(text))  # no character is less than a byte, or more than a token
    if estimate_tokens(text[start:most]) > tokens:
        ends = range(start + 1, most)
        most = start + bisect_right(ends, tokens, key=lambda end: estimate_tokens(text[start:end]))
    if most >= len(text):
        return len(text)
    space = max(text.rfind(mark, start + (most - start) // 2, most) for mark in " \n")
    return most if space < 0 else space + 1


def introduce(memory: Memory) -> str:
    """Return the lines that stand above a memory's text."""
    lines = [f"{caption(memory.timestamp or memory.created_at, memory.metadata)} ID: {memory.id}"]
    about = [f"Key: {memory.key}"] if memory.key else []
    if memory.timestamp:
        about.append(f"Stored: {memory.created_at:%Y-%m-%d %H:%M}")
    if memory.updated_at:
        about.append(f"Version {memory.version}, stored {memory.updated_at:%Y-%m-%d %H:%M}")
    if about:
        lines.append("; ".join(about))
    if rest := {name: value for name, value in memory.metadata.items() if name not in _SHOWN_ALREADY}:
        lines.append(f"Metadata: {json.dumps(rest, ensure_ascii=False)}")
    return "\n".join(lines)


def _describe(memory: Memory, start: int, end: int, listed: tuple[Memory, ...] | None, earlier: int) -> list[str]:
    total = len(memory.text)
    parts = [introduce(memory), memory.text[start:end]]
    if end < total:
        parts.append(f"Note: characters {start:,} to {end:,} of {total:,}. Read on with offset {end}.")
    elif start:
        parts.append(f"Note: characters {start:,} to {end:,} of {total:,}, the end.")
    if listed is not None:
        lines = [f"Earlier versions: {earlier}." if earlier else "There are no earlier versions."]
        lines += [
            f"{each.version}. [{_stored(each):%Y-%m-%d %H:%M}] {on_one_line(preview_of(each.text))}" for each in listed
        ]
        parts.append("\n".join(lines))
    return parts


def _as_data(memory: Memory) -> EarlierVersion:
    return EarlierVersion(memory.version, _stored(memory).isoformat(), preview_of(memory.text))


def _stored(memory: Memory) -> datetime:
    return memory.updated_at or memory.created_at
