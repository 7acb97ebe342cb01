"""The reference page says what the code does."""

from __future__ import annotations

from tests import tools_page
from zapomni.tools import ALL_TOOLS


def test_the_reference_page_is_what_the_tools_say() -> None:
    same = tools_page.PAGE.read_text(encoding="utf-8") == tools_page.render()
    assert same, "docs/reference/tools.md is out of date: run `python -m tests.tools_page` and commit the page"


def test_every_tool_has_an_example() -> None:
    assert {name for name, _ in tools_page.STORY} == {tool.name for tool in ALL_TOOLS}
