"""The table of scenarios names tests that exist, each of them once."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "reference" / "scenarios.md"
ROW = re.compile(r"\| `(test_\w+)` \| `(tests/\w+\.py)::(test_\w+)` \|")
SCENARIOS = {
    "ToolRegistry": 16,
    "MCPServer.register_tool": 23,
    "MCPServer.handle_request": 17,
    "MCPServer.run": 15,
    "AddMemoryTool.execute": 30,
}


def tables() -> dict[str, list[tuple[str, str, str]]]:
    """Return the rows under each heading: the scenario, the file, the test."""
    _, *sections = re.split(r"^## `(.+)`$", TABLE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        title: [row for line in body.splitlines()[4:] if (row := row_of(line))]
        for title, body in zip(sections[::2], sections[1::2], strict=True)
    }


def row_of(line: str) -> tuple[str, str, str] | None:
    if not line:
        return None
    match = ROW.fullmatch(line)
    assert match, f"not a row of the table: {line}"
    scenario, file, test = match.groups()
    return scenario, file, test


@functools.cache
def names_of(file: str) -> frozenset[str]:
    """Return the tests that a file defines."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_there_is_one_row_for_each_scenario() -> None:
    found = tables()
    assert {title: len(rows) for title, rows in found.items()} == SCENARIOS
    names = [scenario for rows in found.values() for scenario, _, _ in rows]
    assert len(set(names)) == sum(SCENARIOS.values())


@pytest.mark.parametrize("title", SCENARIOS)
def test_each_scenario_has_a_test_of_its_own(title: str) -> None:
    rows = tables()[title]
    assert not [f"{file}::{test}" for _, file, test in rows if test not in names_of(file)]
    assert len({(file, test) for _, file, test in rows}) == len(rows)
