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
        stored = await self.core_engine.add_memory(
            text=request.text.strip(),
            metadata=dict(request.metadata or {}),
            **given(key=request.key, workspace=request.workspace, progress=current_call().reporter),
        )
        return Answer(
            text=_receipt(stored),
            data=AddMemoryResult(
                memory_id=stored.memory_id,
                chunks_created=stored.chunks_created,
                text_preview=stored.text_preview,
                duplicate=stored.duplicate,
                replaced=stored.replaced,
            ),
            facts={"memory_id": stored.memory_id, "chunks_created": stored.chunks_created},
        )


def _receipt(stored: MemoryResult) -> str:
    lines = [
        "Memory stored successfully.",
        f"ID: {stored.memory_id}",
        f"Chunks created: {stored.chunks_created}",
        f"Preview: {stored.text_preview}",
    ]
    if stored.duplicate:
        lines.append("Note: the same text was stored before; this is its ID, and nothing was added.")
    if stored.replaced:
        lines.append("Note: the earlier memory of this key was replaced; it is kept as history.")
    return "\n".join(lines)
