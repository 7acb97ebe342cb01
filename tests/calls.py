"""Tools, called as a server calls them."""

from __future__ import annotations

from typing import Any

import jsonschema


async def use(tool: Any, **arguments: Any) -> dict[str, Any]:
    """Call a tool that succeeds; its answer is what it advertises. Return the data, and the words as `said`."""
    answer = await tool.execute(arguments)
    assert answer["isError"] is False, answer["content"]
    data = answer["structuredContent"]
    jsonschema.validate(data, tool.output_schema | {"additionalProperties": False})
    return {**data, "said": answer["content"][0]["text"]}


async def refused(tool: Any, **arguments: Any) -> str:
    """Call a tool that refuses, and return its words."""
    answer = await tool.execute(arguments)
    assert answer["isError"] is True
    assert "structuredContent" not in answer
    return str(answer["content"][0]["text"]).removeprefix("Error: ")
