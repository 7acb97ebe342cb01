"""The comparison of indices, on real servers and a few passages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bench import indices, peers, report, sides

if TYPE_CHECKING:
    from pathlib import Path

PASSAGES = 400
TEXTS = {"otter": "The otter swims in the river.", "car": "The car is in the garage.", "bread": "Bread is baked daily."}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one run leaves behind."""
    folder = tmp_path_factory.mktemp("indices")
    data = folder / "animals"
    data.mkdir()
    corpus = [json.dumps({"_id": name, "text": text}) for name, text in TEXTS.items()]
    (data / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    (data / "queries.jsonl").write_text('{"_id": "1", "text": "Where does the otter swim?"}\n')
    (data / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\totter\t1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "OUT", folder / "out")
        patch.setenv("TMPDIR", str(folder))
        patch.setattr("tempfile.tempdir", None)
        indices.main([str(PASSAGES), "--data", str(data)])
    assert not peers.belongings(folder)
    return folder / "out"


def read(written: Path) -> Any:
    (path,) = written.glob(f"indices-passages-{PASSAGES}-*.json")
    return json.loads(path.read_text())


@pytest.fixture
def row(written: Path) -> Any:
    """Look up both figures of a row, FalkorDB's first."""
    rows = {row["what"]: row for row in read(written)["rows"]}
    return lambda what: (rows[what][sides.THEIRS], rows[what][sides.OURS])


def test_a_filter_starves_only_falkordb(row: Any) -> None:
    theirs, ours = row("10 by vectors, left of 10 by a filter of 10 %")
    assert theirs < 5
    assert ours == 10


@pytest.mark.parametrize("asked", [10, 100])
def test_ours_finds_nearly_what_brute_force_finds(row: Any, asked: int) -> None:
    _, ours = row(f"{asked} by vectors, recall@10")
    assert 0.9 <= ours <= 1


def test_only_ours_refuses_a_vector_of_the_wrong_dimension(row: Any) -> None:
    assert row("a vector of the wrong dimension") == ("not indexed", "refused")


@pytest.mark.parametrize(
    ("spelling", "theirs", "ours"),
    [
        ("привет for a capital that is not ASCII", "0 found", "1 found"),
        ("机器 for a part of a Chinese sentence", "0 found", "1 found"),
        ("ann@example.com for an e-mail address", "an error", "1 found"),
        ("foo-bar for a word with a hyphen", "0 found", "1 found"),
        ("* for a lone asterisk", "5 found", "0 found"),
    ],
)
def test_what_is_found_by_a_spelling(row: Any, spelling: str, theirs: str, ours: str) -> None:
    assert row(spelling) == (theirs, ours)


@pytest.mark.parametrize("part", ["the whole server", "vectors", "words"])
def test_every_part_takes_memory(row: Any, part: str) -> None:
    assert all(size > 0 for size in row(f"memory, {part}, bytes a passage"))


def test_a_passage_that_is_asked_for_is_ranked_first(row: Any) -> None:
    assert row("animals, nDCG@10") == (1, 1)


def test_the_starts_are_drawn(written: Path) -> None:
    (plot,) = written.glob("*.svg")
    assert "cold start to whole answers" in plot.read_text()


def test_the_versions_are_told(written: Path) -> None:
    about = read(written)["about"]
    assert about["passages"] == PASSAGES
    assert about["falkordb"].count(".") == about["redis"].count(".") == 2
