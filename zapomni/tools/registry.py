"""The tools of a server, by name, in the order in which they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zapomni.tools.base import MCPTool

_ATTRIBUTES: tuple[tuple[str, type], ...] = (("name", str), ("description", str), ("input_schema", dict))


class ToolRegistry:
    """Holds tools with unique names; it checks that they are tools and judges nothing else about them."""

    def __init__(self) -> None:
        self._tools: dict[str, MCPTool] = {}

    def __iter__(self) -> Iterator[MCPTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def register(self, tool: MCPTool) -> None:
        """Add a tool.

        Raises `TypeError` for an object that is no tool at all, `AttributeError` for one that lacks an attribute,
        and `ValueError` for an attribute of the wrong type, an empty name, or a name that is taken.
        """
        _check_protocol(tool)
        if not tool.name:
            raise ValueError("Tool name cannot be empty")
        if tool.name in self._tools:
            raise ValueError(f"Tool '{tool.name}' already registered")
        self._tools[tool.name] = tool

    def register_all(self, tools: Iterable[MCPTool]) -> None:
        """Add tools in order; where one is refused, those before it stay."""
        for tool in tools:
            self.register(tool)

    def get_tool(self, name: str) -> MCPTool | None:
        """Return the tool of exactly this name, or None."""
        return self._tools.get(name)

    def list_tools(self) -> list[str]:
        """Return the names in the order of registration."""
        return list(self._tools)

    def validate_tool(self, tool: object) -> bool:
        """Tell whether `register` would take the object for a tool."""
        try:
            _check_protocol(tool)
        except (TypeError, AttributeError, ValueError):
            return False
        return True


def _check_protocol(tool: Any) -> None:
    if not callable(getattr(tool, "execute", None)):
        raise TypeError("Tool must implement MCPTool protocol")
    for name, wanted in _ATTRIBUTES:
        if not hasattr(tool, name):
            raise AttributeError(f"Tool missing required attribute: {name}")
        if not isinstance(getattr(tool, name), wanted):
            got = type(getattr(tool, name)).__name__
            raise ValueError(f"Tool.{name} must be {wanted.__name__}, got {got}")
