"""Each benchmark comes to its end in its smallest form, and leaves what it promises."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from bench import report
from bench.__main__ import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

SMALLEST = {
    "startup": ["--rounds", "1", "--chunks", "0"],
    "calls": ["--rounds", "1", "--calls", "10"],
    "memory": ["--chunks", "10", "30", "--clients", "1", "--rounds", "2", "--largest-text", "1000"],
    "compare": ["--notes", "2", "--only", "zapomni"],
    "engine": ["10", "--large", "500"],
    "store": ["300"],
    "quality": ["--data", "questions"],
}
ELSEWHERE = {"indices"}  # tests/test_bench_indices.py runs it and reads what it left
TOLD = {
    "startup": ["RSS MB at tools/list", "idle RSS MB", "store RSS MB", "initialize ms x"],
    "memory": ["disk, as it was", "disk, compacted", "last step"],
    "compare": ["measured"],
    "engine": ["search meanwhile"],
    "quality": ["grep", "vectors"],
}


def write_questions(folder: Path) -> None:
    animals = folder / "animals"
    animals.mkdir(parents=True)
    texts = {"otter": "The otter swims in the river.", "crane": "The crane is a bird, and flies south."}
    corpus = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    (animals / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    (animals / "queries.jsonl").write_text('{"_id": "1", "text": "Where does the otter swim?"}\n')
    (animals / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\totter\t1\n")


def test_no_command_is_left_out() -> None:
    assert {*SMALLEST, *ELSEWHERE} == set(COMMANDS)


@pytest.mark.parametrize("name", SMALLEST)
def test_a_run_prints_one_table_and_leaves_its_figures_and_a_plot(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr(report, "OUT", out)
    monkeypatch.chdir(tmp_path)
    write_questions(tmp_path / "questions")
    import_module(f"bench.{name}").main(SMALLEST[name])
    figures, plot = sorted(out.iterdir())
    assert figures.stem == plot.stem
    assert figures.name.startswith(f"{name}-")
    rows = json.loads(figures.read_text())["rows"]
    assert rows
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")
    printed = capsys.readouterr().out
    assert printed.count("\n---") == 1, "one table"
    assert all(str(next(iter(row.values()))).strip() in printed for row in rows)
    for told in TOLD.get(name, []):
        assert told in printed
