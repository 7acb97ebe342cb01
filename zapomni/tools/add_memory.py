"""The tool that remembers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from zapomni.errors import ValidationError
from zapomni.models import MAX_TEXT_LENGTH
from zapomni.tools.base import Annotations, Answer, Tool
from zapomni.tools.call import current_call
from zapomni.tools.schema import argument, given, result

if TYPE_CHECKING:
    from zapomni.models import MemoryResult

UNCHANGED = "the memory's metadata and tags are as before, not as they were given now; update_memory replaces them."


@attrs.frozen
class AddMemoryRequest:
    text: str = argument("What to remember.", min_length=1, max_length=MAX_TEXT_LENGTH)
    metadata: Mapping[str, Any] | None = argument(
        "Anything to keep with it. Known: tags (list), source, timestamp (ISO 8601, when it happened), language.",
        default=None,
    )
    key: str | None = argument("A name for this fact; adding under it again replaces it.", default=None, max_length=512)
    workspace: str | None = argument("If not the current one.", default=None)

    def __attrs_post_init__(self) -> None:
        if not self.text.strip():
            raise ValidationError("text cannot be empty or whitespace-only")


@attrs.frozen
class AddMemoryResult:
    memory_id: str = result()
    chunks_created: int = result()
    text_preview: str = result()
    duplicate: bool = result("The same text was there already.")
    replaced: bool = result("The key's earlier memory became history.")
    notice: str | None = result("What was given and not kept.", default=None)


@attrs.frozen
class AddMemoryTool(Tool[AddMemoryRequest]):
    """Stores a text and answers when it is durable."""

    name: ClassVar[str] = "add_memory"
    description: ClassVar[str] = (
        "Remember a text for later conversations: a fact, preference, decision, note, code. Use it when the user says "
        "something worth keeping or asks you to remember."
    )
    annotations: ClassVar[Annotations] = Annotations("Remember", idempotent=True)
    request_class: ClassVar[type[Any]] = AddMemoryRequest
    result_class: ClassVar[type[Any]] = AddMemoryResult
    core: ClassVar[bool] = True
    failure: ClassVar[str] = "An internal error occurred while processing your memory."

    async def respond(self, request: AddMemoryRequest) -> Answer:
        metadata = dict(request.metadata or {})
        workspace = request.workspace or self.core_engine.current_workspace  # which another call may change meanwhile
        stored = await self.core_engine.add_memory(
            text=request.text.strip(),
            metadata=metadata,
            **given(key=request.key, workspace=request.workspace, progress=current_call().reporter),
        )
        notice = None
        if stored.duplicate:
            # The engine counts what the text is made of; of a memory that was there already, nothing was created.
            stored = attrs.evolve(stored, chunks_created=0)
            if metadata and await self._lacks(stored.memory_id, metadata, workspace):
                notice = UNCHANGED
        return Answer(
            text=_receipt(stored, notice),
            data=AddMemoryResult(
                memory_id=stored.memory_id,
                chunks_created=stored.chunks_created,
                text_preview=stored.text_preview,
                duplicate=stored.duplicate,
                replaced=stored.replaced,
                notice=notice,
            ),
            facts={"memory_id": stored.memory_id, "chunks_created": stored.chunks_created},
        )

    async def _lacks(self, memory_id: str, metadata: Mapping[str, Any], workspace: str) -> bool:
        """Tell whether anything of this metadata is not what the memory has."""
        memory = await self.core_engine.get_memory(memory_id, workspace=workspace)
        return not metadata.items() <= memory.metadata.items()


def _receipt(stored: MemoryResult, notice: str | None) -> str:
    lines = [
        "The same text was stored before; nothing was added." if stored.duplicate else "Memory stored successfully.",
        f"ID: {stored.memory_id}",
        f"Chunks created: {stored.chunks_created}",
        f"Preview: {stored.text_preview}",
    ]
    if notice is not None:
        lines.append(f"Note: {notice}")
    if stored.replaced:
        lines.append("Note: the earlier memory of this key was replaced; it is kept as history.")
    return "\n".join(lines)
