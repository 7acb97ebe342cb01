"""Tools: arguments in, answers out. They know the engine and nothing of the protocol."""

from typing import Any

from zapomni.tools.add_memory import AddMemoryTool
from zapomni.tools.base import MCPTool, Tool
from zapomni.tools.delete_memory import DeleteMemoryTool, RestoreMemoryTool
from zapomni.tools.get_memory import GetMemoryTool
from zapomni.tools.get_stats import GetStatsTool
from zapomni.tools.list_memories import ListMemoriesTool
from zapomni.tools.registry import ToolRegistry
from zapomni.tools.removal import ClearAllTool, DeleteWorkspaceTool
from zapomni.tools.search_memory import SearchMemoryTool
from zapomni.tools.update_memory import UpdateMemoryTool
from zapomni.tools.workspaces import (
    CreateWorkspaceTool,
    GetCurrentWorkspaceTool,
    ListWorkspacesTool,
    SetCurrentWorkspaceTool,
)

ALL_TOOLS: tuple[type[Tool[Any]], ...] = (
    AddMemoryTool,
    SearchMemoryTool,
    GetMemoryTool,
    UpdateMemoryTool,
    DeleteMemoryTool,
    RestoreMemoryTool,
    ListMemoriesTool,
    GetStatsTool,
    ListWorkspacesTool,
    GetCurrentWorkspaceTool,
    SetCurrentWorkspaceTool,
    CreateWorkspaceTool,
    DeleteWorkspaceTool,
    ClearAllTool,
)
"""Every tool of ours, in the order in which clients are told of them."""

__all__ = ["ALL_TOOLS", "AddMemoryTool", "GetStatsTool", "MCPTool", "SearchMemoryTool", "Tool", "ToolRegistry"]
