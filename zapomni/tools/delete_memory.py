"""The tool that forgets, and the one that takes it back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

import attrs

from zapomni.models import preview_of
from zapomni.tools.base import Annotations, Answer, Refusal, Tool
from zapomni.tools.caption import caption
from zapomni.tools.schema import argument, given, result


@attrs.frozen
class DeleteMemoryRequest:
    memory_id: str = argument("Its id.")
    confirm: bool = argument("Unless true, you are only told what would go.", default=False)
    workspace: str | None = argument("If not the current one.", default=None)


@attrs.frozen
class DeleteMemoryResult:
    memory_id: str = result()
    restorable_until: str = result()


@attrs.frozen
class DeleteMemoryTool(Tool[DeleteMemoryRequest]):
    """Puts a memory into the trash; it is found no more, and is gone for good after the retention."""

    name: ClassVar[str] = "delete_memory"
    description: ClassVar[str] = (
        "Forget one memory. Use it when the user asks to forget something, or what was remembered is wrong and cannot "
        "be corrected. It can be undone for a while."
    )
    annotations: ClassVar[Annotations] = Annotations("Forget", destructive=True, idempotent=True)
    request_class: ClassVar[type[Any]] = DeleteMemoryRequest
    result_class: ClassVar[type[Any]] = DeleteMemoryResult
    core: ClassVar[bool] = True

    async def respond(self, request: DeleteMemoryRequest) -> Answer | Refusal:
        where = given(workspace=request.workspace)
        if not request.confirm:
            memory = await self.core_engine.get_memory(request.memory_id, **where)
            return Refusal(
                "Nothing was deleted. To delete this memory, call again with confirm set to true.\n"
                f"{caption(memory.timestamp or memory.created_at, memory.metadata)} ID: {memory.id}\n"
                f"Preview: {preview_of(memory.text)}"
            )
        memory = await self.core_engine.delete_memory(request.memory_id, **where)
        assert memory.deleted_at is not None
        until = memory.deleted_at + timedelta(days=self.core_engine.settings.retention_days)
        return Answer(
            text=(
                f"Memory deleted.\nID: {memory.id}\nPreview: {preview_of(memory.text)}\n"
                f"To undo, until {until:%Y-%m-%d %H:%M} UTC: restore_memory, or 'zapomni undelete' in a terminal."
            ),
            data=DeleteMemoryResult(memory.id, until.isoformat()),
            facts={"memory_id": memory.id},
        )


@attrs.frozen
class RestoreMemoryRequest:
    memory_id: str = argument("Its id.")
    workspace: str | None = argument("If not the current one.", default=None)


@attrs.frozen
class RestoreMemoryResult:
    memory_id: str = result()


@attrs.frozen
class RestoreMemoryTool(Tool[RestoreMemoryRequest]):
    """Brings a memory back from the trash, with its id, key and history."""

    name: ClassVar[str] = "restore_memory"
    description: ClassVar[str] = "Undo delete_memory. Use it when a memory was deleted by mistake."
    annotations: ClassVar[Annotations] = Annotations("Undo forgetting", idempotent=True)
    request_class: ClassVar[type[Any]] = RestoreMemoryRequest
    result_class: ClassVar[type[Any]] = RestoreMemoryResult

    async def respond(self, request: RestoreMemoryRequest) -> Answer:
        memory = await self.core_engine.restore_memory(request.memory_id, **given(workspace=request.workspace))
        return Answer(
            text=f"Memory restored.\nID: {memory.id}\nPreview: {preview_of(memory.text)}",
            data=RestoreMemoryResult(memory.id),
            facts={"memory_id": memory.id},
        )
