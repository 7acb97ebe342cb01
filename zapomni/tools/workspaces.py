"""The tools for workspaces: memories that are kept apart from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from zapomni.tools.base import Annotations, Answer, Tool
from zapomni.tools.schema import argument, result

if TYPE_CHECKING:
    from zapomni.models import WorkspaceInfo


@attrs.frozen
class NoArguments:
    """For tools that need to be told nothing."""


@attrs.frozen
class WorkspaceRequest:
    name: str = argument("Its name.", min_length=1)


@attrs.frozen
class WorkspaceResult:
    name: str = result()
    memories: int = result()


@attrs.frozen
class CreateWorkspaceResult:
    name: str = result()
    created: bool = result()


@attrs.frozen
class CreateWorkspaceTool(Tool[WorkspaceRequest]):
    """Makes a workspace."""

    name: ClassVar[str] = "create_workspace"
    description: ClassVar[str] = (
        "Make a workspace, whose memories are kept apart. Use it when the user wants a project or topic to have a "
        "memory of its own."
    )
    annotations: ClassVar[Annotations] = Annotations("New workspace", idempotent=True)
    request_class: ClassVar[type[Any]] = WorkspaceRequest
    result_class: ClassVar[type[Any]] = CreateWorkspaceResult

    async def respond(self, request: WorkspaceRequest) -> Answer:
        created = await self.core_engine.create_workspace(request.name)
        name = (await self.core_engine.workspace_info(request.name)).name
        return Answer(
            text=(
                f"Workspace {name} created. It is not the current one before set_current_workspace."
                if created
                else f"Workspace {name} was there before."
            ),
            data=CreateWorkspaceResult(name, created),
            facts={"created": created},
        )


@attrs.frozen
class ListWorkspacesResult:
    current: str = result()
    workspaces: tuple[WorkspaceResult, ...] = result()


@attrs.frozen
class ListWorkspacesTool(Tool[NoArguments]):
    """Lists the workspaces."""

    name: ClassVar[str] = "list_workspaces"
    description: ClassVar[str] = (
        "List the workspaces and how much is in each. Use it to find where something may be remembered."
    )
    annotations: ClassVar[Annotations] = Annotations("List workspaces", read_only=True, idempotent=True)
    request_class: ClassVar[type[Any]] = NoArguments
    result_class: ClassVar[type[Any]] = ListWorkspacesResult

    async def respond(self, request: NoArguments) -> Answer:
        found = await self.core_engine.list_workspaces()
        current = self.core_engine.current_workspace
        return Answer(
            text="\n".join(_row(info, current) for info in found),
            data=ListWorkspacesResult(current, tuple(WorkspaceResult(info.name, info.memories) for info in found)),
            facts={"workspaces": len(found)},
        )


@attrs.frozen
class SetCurrentWorkspaceTool(Tool[WorkspaceRequest]):
    """Changes which workspace the calls of this connection mean; nothing that is stored changes."""

    name: ClassVar[str] = "set_current_workspace"
    description: ClassVar[str] = (
        "Choose the workspace for calls that name none. Use it when the work turns to a project that has its own; for "
        "a single call, name it there."
    )
    annotations: ClassVar[Annotations] = Annotations("Use a workspace", read_only=True, idempotent=True)
    request_class: ClassVar[type[Any]] = WorkspaceRequest
    result_class: ClassVar[type[Any]] = WorkspaceResult

    async def respond(self, request: WorkspaceRequest) -> Answer:
        return _current(await self.core_engine.use_workspace(request.name))


@attrs.frozen
class GetCurrentWorkspaceTool(Tool[NoArguments]):
    """Names the workspace that calls use when they name none."""

    name: ClassVar[str] = "get_current_workspace"
    description: ClassVar[str] = "Tell the workspace of calls that name none. Use it when in doubt."
    annotations: ClassVar[Annotations] = Annotations("Current workspace", read_only=True, idempotent=True)
    request_class: ClassVar[type[Any]] = NoArguments
    result_class: ClassVar[type[Any]] = WorkspaceResult

    async def respond(self, request: NoArguments) -> Answer:
        return _current(await self.core_engine.workspace_info())


def _current(info: WorkspaceInfo) -> Answer:
    return Answer(
        text=f"The current workspace is {info.name}, with {count(info)}.",
        data=WorkspaceResult(info.name, info.memories),
    )


def _row(info: WorkspaceInfo, current: str) -> str:
    return f"{info.name}: {count(info)}" + (" (current)" if info.name == current else "")


def count(info: WorkspaceInfo) -> str:
    """Return how much is in a workspace, in words."""
    counted = "1 memory" if info.memories == 1 else f"{info.memories:,} memories"
    return counted + (f" and {info.trashed:,} deleted that could be restored" if info.trashed else "")
