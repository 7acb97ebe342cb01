"""The tools that remove for good; each has to be told in so many words."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from zapomni.tools.base import Annotations, Answer, Refusal, Tool
from zapomni.tools.schema import argument, result
from zapomni.tools.workspaces import count


@attrs.frozen
class ClearAllRequest:
    confirm: str = argument("The phrase that the first call tells.", default="")
    workspace: str | None = argument("If not the current one.", default=None)


@attrs.frozen
class DeleteWorkspaceRequest:
    name: str = argument("Its name.", min_length=1)
    confirm: str = argument("The name again.", default="")


@attrs.frozen
class RemovalResult:
    workspace: str = result()
    memories_deleted: int = result()


@attrs.frozen
class ClearAllTool(Tool[ClearAllRequest]):
    """Empties one workspace."""

    name: ClassVar[str] = "clear_all"
    description: ClassVar[str] = (
        "Delete every memory of one workspace for good. Use it only when the user asks for exactly that. The first "
        "call deletes nothing and tells the phrase to confirm with."
    )
    annotations: ClassVar[Annotations] = Annotations("Forget everything", destructive=True, idempotent=True)
    request_class: ClassVar[type[Any]] = ClearAllRequest
    result_class: ClassVar[type[Any]] = RemovalResult

    async def respond(self, request: ClearAllRequest) -> Answer | Refusal:
        info = await self.core_engine.workspace_info(request.workspace)
        phrase = f"delete everything in {info.name}"
        if request.confirm != phrase:
            return Refusal(
                f"Nothing was deleted. Workspace {info.name} has {count(info)}. To delete all of it for good, ask the "
                f'user, then call again with confirm set to "{phrase}".'
            )
        held = await self.core_engine.clear_workspace(info.name)
        return Answer(
            text=f"Workspace {held.name} is empty now. Deleted for good: {count(held)}.",
            data=RemovalResult(held.name, held.memories),
            facts={"memories_deleted": held.memories},
        )


@attrs.frozen
class DeleteWorkspaceTool(Tool[DeleteWorkspaceRequest]):
    """Removes a workspace and everything in it."""

    name: ClassVar[str] = "delete_workspace"
    description: ClassVar[str] = (
        "Delete a workspace with every memory in it for good. Use it only when the user asks for exactly that."
    )
    annotations: ClassVar[Annotations] = Annotations("Delete a workspace", destructive=True, idempotent=True)
    request_class: ClassVar[type[Any]] = DeleteWorkspaceRequest
    result_class: ClassVar[type[Any]] = RemovalResult

    async def respond(self, request: DeleteWorkspaceRequest) -> Answer | Refusal:
        info = await self.core_engine.workspace_info(request.name)
        if request.confirm not in (request.name, info.name):
            return Refusal(
                f"Nothing was deleted. Workspace {info.name} has {count(info)}. To delete it for good, ask the user, "
                f'then call again with confirm set to "{info.name}".'
            )
        held = await self.core_engine.delete_workspace(info.name)
        return Answer(
            text=(
                f"Workspace {held.name} deleted for good, with {count(held)}. "
                f"The current workspace is {self.core_engine.current_workspace}."
            ),
            data=RemovalResult(held.name, held.memories),
            facts={"memories_deleted": held.memories},
        )
