"""The reference page of the tools, made from the tools.

Run as ``python -m tests.tools_page``, it writes docs/reference/tools.md. A test compares the two.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import trio

from tests.fakes import FakeEngine
from zapomni import log
from zapomni.tools import ALL_TOOLS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "tools.md"

# The examples are one story, told to an engine without a store, so that ids and dates are always the same.
STORY: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "add_memory",
        {
            "text": "Anna is allergic to peanuts.",
            "metadata": {"tags": ["anna", "health"], "source": "chat", "timestamp": "2026-05-01T12:00:00Z"},
        },
    ),
    ("search_memory", {"query": "Anna", "limit": 3, "tags": ["health"]}),
    ("update_memory", {"memory_id": "id-1", "text": "Anna is allergic to peanuts and cashews."}),
    ("get_memory", {"memory_id": "id-1", "history": True}),
    ("list_memories", {"limit": 5, "date_from": "2026-05-01"}),
    ("get_stats", {}),
    ("delete_memory", {"memory_id": "id-1"}),
    ("delete_memory", {"memory_id": "id-1", "confirm": True}),
    ("restore_memory", {"memory_id": "id-1"}),
    ("create_workspace", {"name": "garden"}),
    ("set_current_workspace", {"name": "garden"}),
    ("get_current_workspace", {}),
    ("list_workspaces", {}),
    ("delete_workspace", {"name": "garden", "confirm": "garden"}),
    ("clear_all", {}),
    ("clear_all", {"confirm": "delete everything in default"}),
)

LIMITS = {
    "minLength": "min. length {:,}",
    "maxLength": "max. length {:,}",
    "minimum": "min. {:,}",
    "maximum": "max. {:,}",
}

OPENING = """\
# Tools

This page is made from the code by `python -m tests.tools_page`.

Every answer has a text for the model, shown here, and the same as `structuredContent` for programs. What goes wrong is
an answer with `isError`, in words that say what to do. An argument that is not listed is refused, and null stands for
one that is left out. Times are UTC.

`--read-only` leaves out every tool that writes; `--tools core` keeps those marked *core*. They are the whole life of a
memory, which a model handles by itself; the others answer to what a person asks for now and then.
"""


def render() -> str:
    """Return the whole page."""
    examples = trio.run(_tell)
    return "\n".join([OPENING, *(_section(tool, examples[tool.name]) for tool in ALL_TOOLS)])


async def _tell() -> dict[str, list[str]]:
    """Play the story, and return each tool's part of it."""
    engine = FakeEngine()
    tools = {tool.name: tool(engine) for tool in ALL_TOOLS}  # type: ignore[arg-type]
    told: dict[str, list[str]] = {}
    for name, arguments in STORY:
        answer = await tools[name].execute(arguments)
        call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        text = answer["content"][0]["text"]
        told.setdefault(name, []).append(f"```json\n{call}\n```\n\n```text\n{text}\n```\n")
    return told


def _section(tool: Any, examples: list[str]) -> str:
    schema = tool(None).input_schema
    notes = [
        "read-only" if tool.annotations.read_only else "writes",
        *(["**destructive**"] if tool.annotations.destructive else []),
        *(["*core*"] if tool.core else []),
    ]
    rows = [_row(name, each, name in schema.get("required", ())) for name, each in schema["properties"].items()]
    table = (
        ["| argument | type | | meaning |", "|---|---|---|---|", *rows, ""] if rows else ["It takes no arguments.", ""]
    )
    return "\n".join([f"## `{tool.name}`", "", f"{tool.description} ({', '.join(notes)})", "", *table, *examples])


def _row(name: str, schema: dict[str, Any], required: bool) -> str:
    kind = f"array of {schema['items']['type']}s" if schema["type"] == "array" else schema["type"]
    notes = ["required"] if required else []
    notes += [words.format(schema[word]) for word, words in LIMITS.items() if word in schema]
    if "default" in schema:
        notes.append(f"default {json.dumps(schema['default'])}")
    return f"| `{name}` | {kind} | {', '.join(notes)} | {schema['description']} |"


if __name__ == "__main__":
    log.configure("warning")
    PAGE.write_text(render(), encoding="utf-8")
