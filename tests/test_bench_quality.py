"""The quality of answers: how it is measured, and what each way and each step of ranking does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
import trio

from bench import quality, steps
from tests.engines import FakeEmbedder
from zapomni.config import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.engine import MemoryEngine

ZOO: dict[str, Any] = {"source": "talk", "timestamp": "2024-03-02T10:00:00"}
TALK: list[dict[str, Any]] = [
    {"_id": "asked", "text": "Ann: Which animal of the zoo do you like?", "metadata": ZOO},
    {"_id": "told", "text": "Bob: The otter, without doubt.", "metadata": {**ZOO, "place": "Lisbon"}},
    {"_id": "other", "text": "Ann: My car has to be mended.", "metadata": {"timestamp": "2023-07-01T09:00:00"}},
]
WORDS_ONLY = steps.Steps(vectors=False, date_hint=False, speaker_hint=False)


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


def test_evidence_that_is_not_in_the_corpus_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "m", "text": "a memory"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "one?"}\n{"_id": "2", "text": "two?"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tm\t1\n1\tlost\t1\n2\tlost\t1\n")
    collection = quality.Collection.read(tmp_path)
    assert collection.questions == [quality.Question("1", "one?", "", frozenset({"m"}))]


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


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Which is the otter?", ["told"]),  # "the" is a part of "other", too
        ("the", ["other", "told"]),
        ("Где это otter?", ["told"]),
    ],
)
async def test_grep_passes_over_the_stop_words_if_there_are_others(query: str, found: list[str]) -> None:
    talk = library([{"_id": "other", "text": "this is the other one"}, {"_id": "told", "text": "the otter, это"}])
    assert await talk.by_grep(query) == found


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
