"""The benchmarks: what they report, and that each can be asked for help."""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from bench import memory, report
from bench.__main__ import COMMANDS

if TYPE_CHECKING:
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

ROOT = Path(__file__).parent.parent
HELP = """
import sys
from bench.__main__ import COMMANDS, main
for name in COMMANDS:  # in one process, because what all of them import takes most of the time
    sys.argv = ["bench", name, "--help"]
    try:
        main()
    except SystemExit as end:
        print(name, "ended with", end.code)
"""
SIZES = [1_000, 10_000, 100_000]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where reports are written meanwhile."""
    monkeypatch.setattr(report, "OUT", tmp_path / "out")
    return tmp_path / "out"


@given(power=st.floats(-3, 3), factor=st.floats(0.001, 1000))
def test_the_exponent_of_a_power_is_found(power: float, factor: float) -> None:
    values = [factor * size**power for size in SIZES]
    assert report.exponent(SIZES, values) == pytest.approx(power, abs=1e-6)


def test_the_exponent_is_that_of_least_squares() -> None:
    # Logarithms 0, 1, 2 against 0, 0, 3: the slope of the line that fits best is 3 / 2.
    assert report.exponent([1, 10, 100], [1, 1, 1000]) == pytest.approx(1.5)


def test_one_size_has_no_exponent() -> None:
    assert math.isnan(report.exponent([1_000], [5]))


def test_percentiles_lie_within_what_was_measured() -> None:
    times = report.Times(float(number) for number in range(1, 102))
    assert times.figures() == {"p50 ms": 51, "p95 ms": 96, "p99 ms": 100}


@pytest.mark.parametrize(("calls", "told"), [(0, []), (1, [50]), (19, [50]), (20, [50, 95]), (100, [50, 95, 99])])
def test_a_percentile_is_told_only_of_calls_enough(calls: int, told: list[int]) -> None:
    assert list(report.Times([7.0] * calls).figures()) == [f"p{percent} ms" for percent in told]


def test_a_ratio_is_that_of_each_round_with_the_lowest_and_the_highest() -> None:
    # The medians alone, 4 and 4, would say that nothing differs.
    assert report.ratio([2.0, 4.0, 12.0], [4.0, 2.0, 6.0]) == "2.00 (0.50-2.00)"


def test_a_time_is_taken_in_milliseconds() -> None:
    times = report.Times()
    with times.one():
        pass
    assert len(times) == 1
    assert times[0] >= 0


def test_rows_are_told_on_stderr_and_shown_as_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = report.Rows()
    rows.note("0 chunks", chunks=12345)
    rows.note("search", **{"p50 ms": 1.23456})
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 2
    report.show("A title", rows)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "A title",
        "what      chunks  p50 ms",
        "--------  ------  ------",
        "0 chunks  12,345        ",
        "search              1.23",
    ]


def test_rows_are_saved_beside_what_is_known_of_the_machine(out: Path) -> None:
    path = report.save("name", [{"what": "search", "p50 ms": 1.5}], rounds=3)
    assert path == out / "name.json"
    saved = json.loads(path.read_text())
    assert saved["rows"] == [{"what": "search", "p50 ms": 1.5}]
    assert saved["about"]["rounds"] == 3
    assert saved["about"]["python"]
    assert saved["about"]["processors"] == os.cpu_count()
    assert saved["about"]["command"] == shlex.join(sys.orig_argv)


def test_the_commit_is_saved_if_there_is_one(tmp_path: Path) -> None:
    shutil.copy(report.__file__, tmp_path / "report.py")
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}

    def run(*command: str) -> str:
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    def saved() -> str | None:
        path = run(sys.executable, "-c", "import report; print(report.save('name', []))")
        commit: str | None = json.loads(Path(path).read_text())["about"]["commit"]
        return commit

    assert saved() is None
    run("git", "init")
    run("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "--allow-empty", "-m", "Begin")
    assert saved() == run("git", "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ([], "memory"),
        (["--huge"], "memory-huge"),
        (["--chunks", "100000"], "memory-chunks-100000"),
        (["--chunks", "10", "20", "--largest-text", "9"], "memory-chunks-10-20-largest-text-9"),
        (["--data", "/where/it/is"], "memory-data-is"),
        (["--chunks", "1000"], "memory"),
    ],
)
def test_an_output_is_named_by_the_options_that_are_not_the_default(given: list[str], name: str) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench memory")
    parser.add_argument("--chunks", type=int, nargs="+", default=[1000])
    parser.add_argument("--huge", action="store_true")
    parser.add_argument("--largest-text", type=int)
    parser.add_argument("--data", type=Path)
    assert report.name_of(parser, parser.parse_args(given)) == name


@pytest.mark.usefixtures("out")
def test_bars_are_as_long_as_their_values() -> None:
    drawn = ElementTree.parse(report.plot_bars("bars", "A < B & C", {"one": 1.0, "three": 3.0}, "ms")).getroot()
    _, *bars = [float(rect.attrib["width"]) for rect in drawn.iterfind(".//{*}rect")]
    assert bars[1] == pytest.approx(3 * bars[0])
    assert "A < B & C" in [text.text for text in drawn.iterfind(".//{*}text")]


@pytest.mark.usefixtures("out")
def test_nothing_can_be_drawn_as_bars() -> None:
    assert list(ElementTree.parse(report.plot_bars("bars", "Nothing", {}, "ms")).getroot())


@pytest.mark.usefixtures("out")
def test_a_long_title_has_room() -> None:
    drawn = ElementTree.parse(report.plot_bars("bars", "title " * 30, {"one": 1.0}, "ms")).getroot()
    assert float(drawn.attrib["width"]) > 180 * 9


@pytest.mark.usefixtures("out")
def test_a_power_is_drawn_as_a_straight_line() -> None:
    line = {float(size): 0.01 * size**0.5 for size in SIZES}
    drawn = ElementTree.parse(report.plot_lines("lines", "Growth", {"root": line}, across="chunks", unit="ms"))
    (polyline,) = drawn.getroot().iterfind(".//{*}polyline")
    first, middle, last = [[float(part) for part in point.split(",")] for point in polyline.attrib["points"].split()]
    assert middle == pytest.approx([(first[0] + last[0]) / 2, (first[1] + last[1]) / 2], abs=0.2)
    assert last[1] < first[1]


@pytest.mark.usefixtures("out")
def test_every_line_has_a_colour_of_its_own() -> None:
    lines = {name: {10.0: 1.0, 100.0: 2.0} for name in "abcdef"}
    drawn = ElementTree.parse(report.plot_lines("lines", "Growth", lines, across="chunks", unit="ms")).getroot()
    colours = [line.attrib["stroke"] for line in drawn.iterfind(".//{*}polyline")]
    assert len(set(colours)) == len(colours) == 6


def test_growth_is_of_what_was_measured_at_several_sizes_with_one_client() -> None:
    rows: list[dict[str, Any]] = [
        {"what": "search", "chunks": 10, "clients": 1, "p50 ms": 2.0},
        {"what": "search", "chunks": 10, "clients": 8, "p50 ms": 9.0},
        {"what": "search", "chunks": 100, "clients": 1, "p50 ms": 4.0},
        {"what": "disk", "chunks": 10, "MB": 1.0},
        {"what": "disk", "chunks": 100, "MB": 10.0},
        {"what": "add, short", "chunks": 100, "clients": 1, "p50 ms": 3.0},
    ]
    assert memory.growths(rows) == {"search": {10: 2.0, 100: 4.0}, "disk": {10: 1.0, 100: 10.0}}


def test_growth_is_told_over_all_sizes_and_over_the_last_two() -> None:
    assert memory.exponents({10: 1.0, 100: 1.0, 1000: 10.0}) == {"exponent": 0.5, "last step": 1.0}


async def test_a_compacted_store_takes_less_room(store: Store, workspace: Workspace) -> None:
    for _ in range(50):
        await store.connection.write("SET", f"{{{workspace.name}}}:large", b"x" * 100_000)
    before = (await workspace.statistics()).bytes_on_disk
    with trio.fail_after(60):
        await memory.compact(store)
    assert (await workspace.statistics()).bytes_on_disk < before - 4_000_000


def test_every_command_helps() -> None:
    helped = subprocess.run([sys.executable, "-c", HELP], cwd=ROOT, capture_output=True, text=True, timeout=60)
    for name in COMMANDS:
        assert f"usage: python -m bench {name} " in helped.stdout
        assert f"{name} ended with 0" in helped.stdout, helped.stderr


def test_a_command_that_is_none_shows_those_there_are() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "bench", "nothing"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 2
    for name in COMMANDS:
        assert (ROOT / "bench" / f"{name}.py").exists()
        assert name in shown.stdout
