"""The MCP server on Trio; the only part that knows the protocol."""

from zapomni.server.server import MCPServer, ServerStats

__all__ = ["MCPServer", "ServerStats"]
