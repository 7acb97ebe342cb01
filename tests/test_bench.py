"""The benchmarks: what they report, and that each can be asked for help."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import attrs
import numpy as np
import psutil
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from bench import compare, memory, quality, report, steps
from bench.__main__ import COMMANDS
from tests.engines import FakeEmbedder
from tests.fakes import FakeEngine
from zapomni.config import Settings
from zapomni.tools import AddMemoryTool, SearchMemoryTool

if TYPE_CHECKING:
    from zapomni.engine import MemoryEngine

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
ZOO: dict[str, Any] = {"source": "talk", "timestamp": "2024-03-02T10:00:00"}
TALK: list[dict[str, Any]] = [
    {"_id": "asked", "text": "Ann: Which animal of the zoo do you like?", "metadata": ZOO},
    {"_id": "told", "text": "Bob: The otter, without doubt.", "metadata": {**ZOO, "place": "Lisbon"}},
    {"_id": "other", "text": "Ann: My car has to be mended.", "metadata": {"timestamp": "2023-07-01T09:00:00"}},
]
WORDS_ONLY = steps.Steps(vectors=False, date_hint=False, speaker_hint=False)


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
    assert report.Times([7.0]).figures() == {"p50 ms": 7, "p95 ms": 7, "p99 ms": 7}


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
def test_a_power_is_drawn_as_a_straight_line() -> None:
    line = {float(size): 0.01 * size**0.5 for size in SIZES}
    drawn = ElementTree.parse(report.plot_lines("lines", "Growth", {"root": line}, across="chunks", unit="ms"))
    (polyline,) = drawn.getroot().iterfind(".//{*}polyline")
    first, middle, last = [[float(part) for part in point.split(",")] for point in polyline.attrib["points"].split()]
    assert middle == pytest.approx([(first[0] + last[0]) / 2, (first[1] + last[1]) / 2], abs=0.2)
    assert last[1] < first[1]


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


@pytest.mark.parametrize("adapter", compare.ADAPTERS, ids=lambda adapter: adapter.name)
def test_an_adapter_hands_over_the_note_and_the_question_and_stays_in_its_folder(
    adapter: compare.Adapter, tmp_path: Path
) -> None:
    note = compare.Note.make(5)
    assert note.text in json.dumps(adapter.to_add(note), ensure_ascii=False).replace("\\n", "\n")
    assert note.question in adapter.to_search(note.question).values()
    assert str(tmp_path) in " ".join(adapter.environment(tmp_path).values())
    assert adapter.command
    assert adapter.add
    assert adapter.search


def test_our_own_adapter_knows_our_tools() -> None:
    ours = compare.ADAPTERS[0]
    engine: Any = FakeEngine()
    tools = AddMemoryTool(engine), SearchMemoryTool(engine)
    offered = [{"name": tool.name, "inputSchema": tool.input_schema} for tool in tools]
    add, search = compare.Tool.choose(offered, ours.add), compare.Tool.choose(offered, ours.search)
    assert set(ours.to_add(compare.Note.make(1))) <= add.arguments
    assert set(ours.to_search("a question")) <= search.arguments


def test_the_first_name_that_is_offered_is_the_tool() -> None:
    offered = [{"name": "old", "inputSchema": {"properties": {"text": {}}}}, {"name": "other", "inputSchema": {}}]
    assert compare.Tool.choose(offered, ["new", "old"]) == compare.Tool("old", frozenset({"text"}))
    with pytest.raises(RuntimeError, match="offers none of new"):
        compare.Tool.choose(offered, ["new"])


def test_the_work_is_done_by_a_real_server() -> None:
    figures = compare.measure(compare.ADAPTERS[0], [compare.Note.make(number) for number in range(3)], limit=60)
    assert figures["found"] == 1
    assert figures["RSS MB"] > 1


def test_a_server_that_never_answers_is_ended() -> None:
    silent = attrs.evolve(compare.ADAPTERS[0], command=(sys.executable, "-c", "import time; time.sleep(600)"))
    with pytest.raises(RuntimeError, match="the server ended"):
        compare.measure(silent, [compare.Note.make(1)], limit=0.2)
    assert not [child for child in psutil.Process().children() if "time.sleep(600)" in child.cmdline()]


def test_notes_differ_in_what_is_asked_for() -> None:
    notes = [compare.Note.make(number) for number in range(1000)]
    assert len({note.answer for note in notes}) == len(notes)
    assert all(note.text.startswith(f"{note.question} {note.answer}") for note in notes)
    assert not any(note.answer in note.question for note in notes)


def test_a_ranking_is_measured_by_where_its_answers_stand() -> None:
    measured = quality.measure(["x", "a", *"bcdefgh", "y"], frozenset({"a", "y"}))
    assert measured["R@5"] == 0.5
    assert measured["R@10"] == 1
    assert measured["MRR"] == 0.5
    assert measured["nDCG@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(11)) / (1 + 1 / math.log2(3)))


def test_every_way_is_told_as_a_whole_and_by_category() -> None:
    asked = [
        quality.Asked(way, category, {"R@10": found}, milliseconds)
        for category, milliseconds in (("2", 3.0), ("1", 1.0), ("1", 2.0))
        for way, found in (("grep", 0.0), ("both", 1.0 if category == "1" else 0.4))
    ]
    rows = list(quality.rows_of_ways("a set", asked))
    assert [(row["way"], row["category"], row["questions"], row["p50 ms"]) for row in rows] == [
        ("grep", "all", 3, 2.0),
        ("grep", "1", 2, 1.5),
        ("grep", "2", 1, 3.0),
        ("both", "all", 3, 2.0),
        ("both", "1", 2, 1.5),
        ("both", "2", 1, 3.0),
    ]
    assert [row["R@10"] for row in rows[3:]] == [0.8, 1.0, 0.4]


def test_a_step_is_told_by_what_it_changes_and_how_sure_that_is() -> None:
    whole = [quality.Asked("both", "", {"R@10": 1.0, "nDCG@10": 0.5}, 1.0) for _ in range(4)]
    less = [quality.Asked("less", "", {"R@10": found, "nDCG@10": 0.25}, 1.0) for found in (1.0, 1.0, 0.0, 0.0)]
    apart, error = quality.difference(less, whole, "R@10")
    assert apart == -0.5
    assert error == pytest.approx(1.96 * math.sqrt(1 / 3) / 2)
    both, other = quality.rows_of_steps("a set", whole + less)
    assert both["R@10 against both"] == ""
    assert other["R@10 against both"] == "-0.500 ± 0.566"
    assert other["nDCG@10 against both"] == "-0.250 ± 0.000"


async def test_only_what_the_engine_would_show_counts() -> None:
    async def search(query: str) -> list[str]:
        return [str(number) for number in range(100)]

    questions = [quality.Question("q", "which?", "", frozenset({answer})) for answer in ("19", "20")]
    shown, hidden = await quality.ask({"a way": search}, questions)
    assert shown.figures["MRR"] == 1 / 20
    assert hidden.figures["MRR"] == 0


def test_a_folder_of_folders_is_one_set(tmp_path: Path) -> None:
    for folder in ("one", "many/1", "many/2", "nothing"):
        (tmp_path / folder).mkdir(parents=True)
        if folder != "nothing":
            (tmp_path / folder / "corpus.jsonl").write_text("")
    assert [(name, len(parts)) for name, parts in quality.sets_in(tmp_path)] == [("many", 2), ("one", 1)]


def test_questions_without_evidence_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "m", "text": "a memory"}\n')
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "1", "text": "one?", "category": 4}\n{"_id": "2", "text": "two?"}\n'
    )
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tm\t1\n2\tm\t0\n")
    collection = quality.Collection.read(tmp_path)
    assert collection.questions == [quality.Question("1", "one?", "4", frozenset({"m"}))]


def test_a_rank_alone_decides_what_is_gained_by_it() -> None:
    gains = steps.reciprocal(np.array([0.5, 0.0, 30.0], np.float32))
    assert gains == pytest.approx([1 / 62, 0, 1 / 61])


def library(memories: list[dict[str, Any]]) -> steps.Library:
    return steps.Library(memories, FakeEmbedder(), Settings())


@pytest.mark.parametrize(
    ("query", "left_out", "found", "left"),
    [
        ("zoo", {"context": False}, ["asked", "told"], ["asked"]),
        ("Lisbon", {"metadata": False}, ["told"], []),
        ("July 2023", {"dates": False}, ["other"], []),
        ("car", {"words": False}, ["other"], []),
    ],
)
async def test_a_step_that_is_left_out_finds_nothing(
    query: str, left_out: dict[str, bool], found: list[str], left: list[str]
) -> None:
    talk = library(TALK)
    assert await talk.rank(query, WORDS_ONLY) == found
    assert await talk.rank(query, attrs.evolve(WORDS_ONLY, **left_out)) == left


async def test_later_passages_are_found_by_the_title() -> None:
    text = "The otter\n\n" + "\n\n".join(f"{place}. {'It swims in the river all day. ' * 30}" for place in "ABCDEF")
    whole = steps.place([{"_id": "m", "text": text}], Settings())
    titled = ["otter" in each.terms(steps.Steps())[0] for each in whole]
    untitled = ["otter" in each.terms(steps.Steps(title=False))[0] for each in whole]
    assert len(whole) > 3
    assert all(titled)
    assert untitled == [True, True] + [False] * (len(whole) - 2)


async def test_meaning_is_left_out_with_the_vectors() -> None:
    talk = library(TALK)
    assert (await talk.rank("automobile"))[0] == "other"
    assert await talk.rank("automobile", steps.Steps(vectors=False)) == []


@pytest.mark.parametrize(("query", "hint"), [("river in 2021", "date_hint"), ("Ann and the river", "speaker_hint")])
async def test_each_hint_can_be_left_out(query: str, hint: str) -> None:
    rivers = library(
        [
            {"_id": name, "text": "The river is high.", "metadata": {"timestamp": f"{year}-05-01", "user": name}}
            for name, year in (("Ann", 2021), ("Bob", 2022))
        ]
    )
    alike = steps.Steps(vectors=False, dates=False, metadata=False)
    assert await rivers.rank(query, alike) == ["Ann", "Bob"]
    assert await rivers.rank(query, attrs.evolve(alike, **{hint: False})) == ["Bob", "Ann"]


async def test_the_plain_words_have_stems_and_the_written_ones_none() -> None:
    talk = library(TALK)
    assert await talk.by_plain_words("otters") == ["told"]
    assert await talk.by_written_words("otters") == []
    assert await talk.by_written_words("OTTER!") == ["told"]


async def test_every_way_and_every_step_answers() -> None:
    talk = library(TALK)
    ways = {**talk.ways, **talk.steps}
    asked = await quality.ask(ways, [quality.Question("q", "otter", "", frozenset({"told"}))])
    assert {one.way for one in asked} == set(ways)
    assert all(one.figures["R@5"] == 1 for one in asked)


async def test_the_ranking_in_memory_is_the_engines(simple_engine: MemoryEngine, embedder: FakeEmbedder) -> None:
    shelf = quality.Shelf(simple_engine, simple_engine.current_workspace)
    talk = steps.Library(TALK, embedder, simple_engine.settings)
    with trio.fail_after(60):
        await shelf.fill(quality.Collection("talk", TALK, []))
        for query in ("the otter", "zoo", "What did Ann say in July?", "automobile", "Lisbon"):
            assert await talk.rank(query) == await shelf.search(query)


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
