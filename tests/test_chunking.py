from __future__ import annotations

import unicodedata
from itertools import pairwise
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni.chunking import chunk, estimate_tokens

PROSE = "The cat sat on the mat. It was a very fine mat, and the cat knew. Nobody else did!\n"
PIECES = st.sampled_from(
    [
        *("word ", "Ende. ", "\n", "\r\n", "\n\n", "# Heading\n", "- item\n", "```\n", "x" * 50, " ", "\t"),
        *("黑豹队。", "नमस्ते। ", "مرحبا؟ ", "e\u0301", "👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "🇫🇷", "각", "각"),
        *("й", "❤️", "\u0301", "\u200d", "한글", "3.14", "\ud800"),
    ]
)
TEXTS = st.lists(PIECES, min_size=1, max_size=150).map("".join) | st.text(min_size=1, max_size=400)


@given(TEXTS, st.integers(4, 40), st.integers(0, 30))
def test_passages_cover_the_text_in_order(text: str, tokens: int, overlap: int) -> None:
    chunks = chunk(text, tokens=tokens, overlap=overlap)
    assert chunks[0].start == 0
    assert chunks[-1].end == len(text)
    assert [piece.index for piece in chunks] == list(range(len(chunks)))
    assert all(piece.text == text[piece.start : piece.end] for piece in chunks)
    assert all(piece.text for piece in chunks)
    assert all(one.start < two.start <= one.end < two.end for one, two in pairwise(chunks))


@given(TEXTS, st.integers(4, 40), st.integers(0, 30))
def test_no_passage_is_larger_than_the_cap(text: str, tokens: int, overlap: int) -> None:
    for piece in chunk(text, tokens=tokens, overlap=overlap):
        assert len(piece.text.encode("utf-8", "surrogatepass")) <= tokens * 4 * 5 / 4


@given(
    st.lists(
        st.sampled_from(["e\u0301\u0323", "👩\u200d👩\u200d👧", "👍🏽", "🇩🇪", "각", "❤️", "a", "\r\n", "क्षि"]),
        min_size=10,
        max_size=200,
    ),
    st.integers(8, 24),
)
def test_a_character_as_readers_see_it_is_never_cut(clusters: list[str], tokens: int) -> None:
    text = "".join(clusters)
    edges = {0}
    for cluster in clusters:
        edges.add(max(edges) + len(cluster))
    for piece in chunk(text, tokens=tokens, overlap=4):
        assert piece.start in edges
        assert piece.end in edges


@given(TEXTS)
def test_overlap_never_exceeds_what_is_asked_for(text: str) -> None:
    for one, two in pairwise(chunk(text, tokens=20, overlap=5)):
        assert estimate_tokens(text[two.start : one.end]) <= 5


def test_a_short_memory_is_one_passage() -> None:
    text = PROSE * 8
    assert [piece.text for piece in chunk(text)] == [text]


def test_an_empty_text_is_one_empty_passage() -> None:
    assert [(piece.start, piece.end) for piece in chunk("")] == [(0, 0)]


def test_sentences_stay_whole() -> None:
    chunks = chunk(PROSE.replace("\n", " ") * 40, tokens=40, overlap=0)
    assert len(chunks) > 10
    assert all(piece.text.rstrip().endswith((".", "!")) for piece in chunks)


@pytest.mark.parametrize("sentence", ["黑豹队的防守只丢了三百零八分。", "यह एक छोटा वाक्य है। ", "هل هذه جملة قصيرة؟ "])
def test_sentences_of_other_scripts_stay_whole(sentence: str) -> None:
    chunks = chunk(sentence * 60, tokens=50, overlap=0)
    assert len(chunks) > 5
    assert all(len(piece.text) % len(sentence) == 0 for piece in chunks)


def test_a_heading_begins_a_passage() -> None:
    section = "## A heading\n\n" + PROSE * 6 + "\n"
    chunks = chunk(section * 10, tokens=160, overlap=0)
    assert all(piece.text.startswith("## A heading") for piece in chunks)
    assert len(chunks) == 10


def test_a_code_block_that_fits_is_not_cut() -> None:
    code = "```python\n" + "x = 1. Really.\n\n" * 12 + "```\n"
    text = (PROSE * 5 + "\n" + code + "\n") * 6
    for piece in chunk(text, tokens=160, overlap=0):
        assert piece.text.count("```") % 2 == 0


def test_neighbours_inside_a_paragraph_share_whole_sentences() -> None:
    chunks = chunk("It is short. " * 200, tokens=60, overlap=12)
    for one, two in pairwise(chunks):
        assert two.start < one.end
        assert two.text.startswith("It is short.")


def test_neighbours_inside_a_sentence_share_whole_words() -> None:
    chunks = chunk("wordy " * 500, tokens=60, overlap=12)
    for one, two in pairwise(chunks):
        assert two.start < one.end
        assert two.text.startswith("wordy")


def test_a_text_without_any_break_is_still_cut() -> None:
    text = "x" * 100_000
    chunks = chunk(text)
    assert max(len(piece.text) for piece in chunks) <= 192 * 5
    assert sum(len(piece.text) for piece in chunks) == len(text)


def test_one_endless_cluster_does_not_run_away() -> None:
    text = "e" + unicodedata.lookup("COMBINING ACUTE ACCENT") * 20_000
    assert max(estimate_tokens(piece.text) for piece in chunk(text)) <= 240


@pytest.mark.parametrize(
    "unit",
    [*".!?…\"')]。」؟।", "\n", " ", "\t", "\r", "#", "`", "~", "-", "*", "1", "1.", ".'", ". a", "\n#", "\n-", "\n```"],
)
def test_a_run_of_anything_takes_no_longer_than_its_length_is_worth(unit: str) -> None:
    """Prose of the same length is the measure; with every part of a run tried, it is thousands of times that."""
    size = 100_000
    took = []
    for text in ((PROSE * size)[:size], "Contents " + (unit * size)[:size] + "x"):
        began = thread_time()
        chunk(text)
        took.append(thread_time() - began)
    assert took[1] < 100 * max(took[0], 0.01)


def test_the_largest_text_is_cut_into_bounded_passages() -> None:
    text = (PROSE * 6 + "\n") * 21_000
    chunks = chunk(text[:10_000_000])
    assert chunks[-1].end == 10_000_000
    assert max(estimate_tokens(piece.text) for piece in chunks) <= 240


def test_the_estimate_knows_how_scripts_differ() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("four") == 1
    assert estimate_tokens("黑豹队的") == 3
    assert estimate_tokens("слово слово ") == 6
