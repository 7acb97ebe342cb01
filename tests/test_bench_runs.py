"""Each benchmark comes to its end in its smallest form, and leaves what it promises."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from bench import report

if TYPE_CHECKING:
    from pathlib import Path

SMALLEST = {
    "startup": ["--rounds", "1", "--chunks", "0"],
    "calls": ["--rounds", "1", "--calls", "70"],
    "memory": ["--chunks", "10", "30", "--clients", "1", "--rounds", "2", "--largest-text", "1000"],
    "engine": ["10", "--large", "50000"],
    "store": ["300"],
}


@pytest.mark.parametrize("name", SMALLEST)
def test_a_run_prints_one_table_and_leaves_its_figures_and_a_plot(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path)
    import_module(f"bench.{name}").main(SMALLEST[name])
    rows = json.loads((tmp_path / f"{name}.json").read_text())["rows"]
    assert rows
    assert ElementTree.parse(tmp_path / f"{name}.svg").getroot().tag.endswith("svg")
    printed = capsys.readouterr().out
    assert printed.count("\n---") == 1, "one table"
    assert all(str(next(iter(row.values()))).strip() in printed for row in rows)
