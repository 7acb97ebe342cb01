"""Long-term memory for AI agents: a local-first MCP server on Trio and FalkorDB."""

__version__ = "0.1.0"
