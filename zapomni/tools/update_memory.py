"""The tool that changes what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from zapomni.errors import ValidationError
from zapomni.models import MAX_TEXT_LENGTH
from zapomni.tools.base import Annotations, Answer, Tool
from zapomni.tools.call import current_call
from zapomni.tools.schema import argument, given, result


@attrs.frozen
class UpdateMemoryRequest:
    memory_id: str = argument("Its id.")
    text: str | None = argument("The new text, if it changes.", default=None, max_length=MAX_TEXT_LENGTH)
    metadata: Mapping[str, Any] | None = argument(
        "The new metadata, in place of all the old, if it changes.", default=None
    )
    workspace: str | None = argument("If not the current one.", default=None)

    def __attrs_post_init__(self) -> None:
        if self.text is not None and not self.text.strip():
            raise ValidationError("text cannot be empty or whitespace-only")


@attrs.frozen
class UpdateMemoryResult:
    memory_id: str = result()
    text_preview: str = result()
    changed: bool = result()


@attrs.frozen
class UpdateMemoryTool(Tool[UpdateMemoryRequest]):
    """Replaces a memory's text or metadata; what it was stays readable as history."""

    name: ClassVar[str] = "update_memory"
    description: ClassVar[str] = (
        "Correct or extend a memory under its id. Use it when something that was remembered is no longer true, instead "
        "of adding a second memory. The old version is kept as history."
    )
    annotations: ClassVar[Annotations] = Annotations("Change a memory", idempotent=True)
    request_class: ClassVar[type[Any]] = UpdateMemoryRequest
    result_class: ClassVar[type[Any]] = UpdateMemoryResult
    core: ClassVar[bool] = True

    async def respond(self, request: UpdateMemoryRequest) -> Answer:
        stored = await self.core_engine.update_memory(
            request.memory_id,
            **given(
                text=None if request.text is None else request.text.strip(),
                metadata=None if request.metadata is None else dict(request.metadata),
                workspace=request.workspace,
                progress=current_call().reporter,
            ),
        )
        changed = not stored.duplicate
        first = "Memory updated; the earlier version is kept as history." if changed else "Nothing to change."
        return Answer(
            text=f"{first}\nID: {stored.memory_id}\nPreview: {stored.text_preview}",
            data=UpdateMemoryResult(
                memory_id=stored.memory_id,
                text_preview=stored.text_preview,
                changed=changed,
            ),
            facts={"memory_id": stored.memory_id, "changed": changed},
        )
