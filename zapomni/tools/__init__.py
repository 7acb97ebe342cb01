"""Tools: arguments in, answers out. They know the engine and nothing of the protocol."""

from zapomni.tools.add_memory import AddMemoryTool
from zapomni.tools.base import MCPTool, Tool
from zapomni.tools.get_stats import GetStatsTool
from zapomni.tools.registry import ToolRegistry
from zapomni.tools.search_memory import SearchMemoryTool

__all__ = ["AddMemoryTool", "GetStatsTool", "MCPTool", "SearchMemoryTool", "Tool", "ToolRegistry"]
