from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni.fusion import Candidate, fuse, vector_weight

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        number=st.integers(1, 1000),
        memory_id=st.sampled_from("abcdefgh"),
        moment=st.datetimes(timezones=st.just(UTC)),
        words=st.integers(0, 5000).map(lambda hundredths: hundredths / 100),
        cosine=st.none() | st.floats(-1, 1),
        hint=st.sampled_from([0.0, 0.1]),
    ),
    max_size=30,
    unique_by=lambda candidate: candidate.number,
)


def found(
    memory: str, words: float = 0.0, cosine: float | None = None, hint: float = 0.0, number: int = 1
) -> Candidate:
    return Candidate(number=number, memory_id=memory, moment=NOON, words=words, cosine=cosine, hint=hint)


def order(candidates: list[Candidate], weight: float = 0.5) -> list[str]:
    return [ranked.best.memory_id for ranked in fuse(candidates, weight=weight)]


@given(CANDIDATES, st.floats(0, 1))
def test_every_memory_has_one_place_and_scores_fall(candidates: list[Candidate], weight: float) -> None:
    ranking = fuse(candidates, weight=weight)
    memories = [ranked.best.memory_id for ranked in ranking]
    assert sorted(memories) == sorted({candidate.memory_id for candidate in candidates})
    scores = [ranked.score for ranked in ranking]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1.1 + 1e-9 for score in scores)


@given(CANDIDATES)
def test_the_order_of_candidates_does_not_matter(candidates: list[Candidate]) -> None:
    assert order(candidates) == order(candidates[::-1])


@given(CANDIDATES, st.floats(0.1, 100))
def test_the_scale_of_word_scores_does_not_matter(candidates: list[Candidate], scale: float) -> None:
    plain = {ranked.best.memory_id: ranked.score for ranked in fuse(candidates, weight=0.3)}
    scaled = [Candidate(c.number, c.memory_id, c.moment, c.words * scale, c.cosine, c.hint) for c in candidates]
    for ranked in fuse(scaled, weight=0.3):
        assert ranked.score == pytest.approx(plain[ranked.best.memory_id], abs=1e-6)


def test_the_best_of_both_sides_wins() -> None:
    assert order([found("words", 10, 0.1), found("vectors", 1, 0.9), found("both", 9, 0.8)])[0] == "both"


def test_a_weight_of_nothing_leaves_the_words_alone() -> None:
    assert order([found("a", 1, 0.9), found("b", 2, 0.1)], weight=0.0) == ["b", "a"]


def test_words_count_in_full_where_nothing_has_a_vector() -> None:
    (first, second) = fuse([found("a", 10), found("b", 5)], weight=0.6)
    assert (first.score, second.score) == (1.0, 0.5)


def test_vectors_alone_rank_where_no_word_matches() -> None:
    assert order([found("far", 0, 0.2), found("near", 0, 0.7)]) == ["near", "far"]


def test_a_hint_decides_between_near_equals() -> None:
    assert order([found("a", 10, 0.5), found("b", 9.8, 0.5, hint=0.1)]) == ["b", "a"]


def test_a_memory_is_shown_by_its_best_passage() -> None:
    (ranked,) = fuse([found("a", 1, 0.1, number=7), found("a", 9, 0.8, number=8)], weight=0.5)
    assert ranked.best.number == 8


def test_of_equals_the_later_comes_first() -> None:
    old = Candidate(1, "old", NOON - timedelta(days=1), words=3.0)
    new = Candidate(2, "new", NOON, words=3.0)
    assert order([old, new]) == order([new, old]) == ["new", "old"]


def test_nothing_found_is_an_empty_ranking() -> None:
    assert fuse([], weight=0.5) == []


def test_a_model_of_english_counts_only_as_far_as_a_query_is_latin() -> None:
    assert vector_weight(0.6, "What is this?", multilingual=False) == 0.6
    assert vector_weight(0.6, "Что это такое?", multilingual=False) == 0.0
    assert 0 < vector_weight(0.6, "Что такое Zapomni?", multilingual=False) < 0.6
    assert vector_weight(0.6, "Что это такое?", multilingual=True) == 0.6
    assert vector_weight(0.6, "42", multilingual=False) == 0.6
