"""Names, postings, facets and values: no database needed."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.stores import MODEL, chunks_of, memory_of
from zapomni.errors import ValidationError
from zapomni.models import Filters, NewChunk
from zapomni.store import facets, postings
from zapomni.store.names import Keys, term_name, workspace_name
from zapomni.store.values import check_chunks, check_id, check_memory, check_vectors, micros, moment, to_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.text(max_size=80))
@example("İstanbul")
@example("ﬃ")
def test_a_workspace_name_has_one_spelling(name: str) -> None:
    try:
        once = workspace_name(name)
    except ValidationError:
        return
    assert workspace_name(once) == once
    assert not set(once) & set("{}: \n\x00*?")


@pytest.mark.parametrize("name", ["My Project", "my_project", "MY-PROJECT", " my  project ", "ｍｙ project"])
def test_spellings_that_look_the_same_are_one_workspace(name: str) -> None:
    assert workspace_name(name) == "my-project"


@pytest.mark.parametrize("name", ["", " ", "a{b", "a}b", "a:b", "../x", "-x", "a\x00b", "x" * 65, "a/b", "😀"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        workspace_name(name)


@pytest.mark.parametrize("name", ["работа", "日本語", "हिन्दी", "v1.2", "42"])
def test_a_name_may_be_in_any_script(name: str) -> None:
    assert Keys(workspace_name(name)).graph.startswith("{zapomni:")


def test_a_long_word_has_a_short_name_of_its_own() -> None:
    names = {term_name("x" * length) for length in range(1, 300)}
    assert len(names) == 299
    assert max(map(len, names)) < 80


WORDS = st.sampled_from("abcdefgh")
DOCUMENTS = st.lists(st.lists(WORDS, min_size=1, max_size=12), min_size=1, max_size=30)


def bm25(documents: dict[int, list[str]], query: dict[str, float], k1: float, b: float) -> dict[int, float]:
    average = max(sum(map(len, documents.values())) / len(documents), 1.0)
    scores = dict.fromkeys(documents, 0.0)
    for word, weight in query.items():
        holders = [number for number, words in documents.items() if word in words]
        rarity = math.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        for number in holders:
            frequency = documents[number].count(word)
            norm = frequency + k1 * (1 - b + b * len(documents[number]) / average)
            scores[number] += weight * rarity * frequency * (k1 + 1) / norm
    return {number: score for number, score in scores.items() if score > 0}


@given(
    DOCUMENTS,
    st.dictionaries(WORDS, st.floats(0.1, 3), min_size=1),
    st.sets(st.integers(1, 30)),
    st.none() | st.sets(st.integers(1, 30)),
    st.integers(0, 40) | st.none(),
)
def test_ranking_is_bm25_over_what_may_be_seen(
    texts: list[list[str]], query: dict[str, float], hidden: set[int], allowed: set[int] | None, count: int | None
) -> None:
    documents = dict(enumerate(texts, start=1))
    gains = postings.encode((n, {w: words.count(w) for w in words}, len(words)) for n, words in documents.items())
    seen = {number: words for number, words in documents.items() if number not in hidden}
    flags = np.zeros(256, np.bool_)
    flags[list(hidden)] = True
    mask = None if allowed is None else np.array([number in allowed for number in range(max(allowed, default=0) + 1)])
    found = postings.rank(
        [(weight, bytes(postings.RECORD.itemsize) + bytes(gains.get(word, b""))) for word, weight in query.items()],
        documents=len(seen),
        total_length=sum(map(len, seen.values())),
        hidden=np.packbits(flags).tobytes(),
        allowed=mask,
        count=count,
    )
    expected = bm25(seen, query, 0.9, 0.4) if seen else {}
    expected = {number: score for number, score in expected.items() if allowed is None or number in allowed}
    assert found.values.tolist() == pytest.approx(sorted(expected.values(), reverse=True)[:count], rel=1e-4)
    for number, value in zip(found.numbers.tolist(), found.values.tolist(), strict=True):
        assert value == pytest.approx(expected[number], rel=1e-4)


def test_frequencies_and_lengths_beyond_their_bytes_are_the_most_there_is() -> None:
    (data,) = postings.encode([(1, {"a": 10_000}, 10_000_000)]).values()
    assert np.frombuffer(data, postings.RECORD).tolist() == [(1, 255, 65_535)]


TAGS = st.sampled_from(["a", "b", "c", '"', "\\", "\ud800"])
MOMENTS = st.integers(-(10**9), 10**9).map(
    lambda seconds: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
)
MEMORIES = st.tuples(
    st.lists(TAGS), st.none() | TAGS, MOMENTS, st.dictionaries(TAGS, st.sampled_from([1, 1.0, True, "1", [1]]))
)
FILTERS = st.builds(
    Filters,
    tags=st.lists(TAGS, max_size=2).map(tuple),
    all_tags=st.lists(TAGS, max_size=2).map(tuple),
    source=st.none() | TAGS,
    date_from=st.none() | MOMENTS,
    date_to=st.none() | MOMENTS,
    metadata=st.dictionaries(TAGS, st.sampled_from([1, 1.0, True, "1", [1.0]]), max_size=1),
)


def passes(filters: Filters, tags: list[str], source: str | None, at: datetime, metadata: dict[str, Any]) -> bool:
    return (
        (not filters.tags or bool(set(filters.tags) & set(tags)))
        and set(filters.all_tags) <= set(tags)
        and filters.source in (None, source)
        and (filters.date_from is None or at >= filters.date_from)
        and (filters.date_to is None or at < filters.date_to)
        and all(
            key in metadata and json.dumps(metadata[key] == value) == "true" and same_kind(metadata[key], value)
            for key, value in filters.metadata.items()
        )
    )


def same_kind(one: object, other: object) -> bool:
    return isinstance(one, bool) == isinstance(other, bool)


@given(st.lists(MEMORIES, max_size=20), FILTERS)
def test_a_filter_selects_exactly_what_passes_it(memories: list[Any], filters: Filters) -> None:
    lists: dict[str, bytes] = {}
    for first, (tags, source, at, metadata) in enumerate(memories, start=1):
        for name in facets.names(tags, source, metadata):
            lists[name] = lists.get(name, b"") + facets.encode(first, 1, micros(at), 0)
    found = facets.select([[lists.get(name) for name in group] for group in facets.groups(filters)], filters)
    assert found["first"].tolist() == [
        first for first, memory in enumerate(memories, start=1) if passes(filters, *memory)
    ]


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), max_size=9))
def test_the_chunks_of_records_are_all_their_numbers(ranges: list[tuple[int, int]]) -> None:
    records = np.array([(first, count, 0, 0) for first, count in ranges], facets.RECORD)
    expected = {number for first, count in ranges for number in range(first, first + count)}
    assert set(np.flatnonzero(facets.chunks(records)).tolist()) == expected


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_metadata_comes_back_as_it_went_in(metadata: dict[str, Any]) -> None:
    assert repr(json.loads(to_json(metadata))) == repr(metadata)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2}, (1, 2), {1, 2}, b"x", "\ud800", datetime(2026, 1, 1, tzinfo=UTC)]
)
def test_metadata_that_could_not_come_back_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        to_json({"key": [value]})


def test_a_number_too_long_to_print_is_refused() -> None:
    with pytest.raises(ValidationError):
        to_json({"key": 10**5000})


def test_metadata_without_a_bottom_is_refused() -> None:
    deep: dict[str, Any] = {}
    deep["deep"] = deep
    with pytest.raises(ValidationError):
        to_json(deep)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_comes_back_as_it_went_in(at: datetime) -> None:
    assert moment(micros(at)) == at


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError):
        micros(datetime(2026, 1, 1))


@pytest.mark.parametrize(
    "fields", [{"text": ""}, {"text": "\ud800"}, {"key": ""}, {"tags": ("",)}, {"source": "x" * 600}, {"id": "1"}]
)
def test_a_memory_that_cannot_be_kept_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        check_memory(memory_of(**{"text": "text", **fields}))


def test_an_id_has_one_spelling() -> None:
    check_id("66e47f91-87d3-45b0-b167-a7754915422b")
    for spelling in ("66E47F91-87D3-45B0-B167-A7754915422B", "66e47f9187d345b0b167a7754915422b", "", "x"):
        with pytest.raises(ValidationError):
            check_id(spelling)


@pytest.mark.parametrize(
    "spans", [[(1, 5)], [(0, 2), (3, 5)], [(0, 6)], [(0, 3), (3, 3)], [(0, 3), (-1, 5)], [(0, 4), (0, 3)]]
)
def test_passages_that_leave_a_gap_or_overrun_are_refused(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ValidationError):
        check_chunks(memory_of("abcde"), [NewChunk(start, end, {}, 0) for start, end in spans], 0)


@given(st.text(min_size=1, max_size=50), st.integers(1, 20), st.integers(0, 5))
def test_passages_that_cover_the_text_are_accepted(text: str, size: int, overlap: int) -> None:
    assert check_chunks(memory_of(text), chunks_of(text, size, overlap=overlap), 0) == len(text)


@pytest.mark.parametrize("vector", [[0.0] * 8, [math.nan] + [1.0] * 7, [math.inf] + [1.0] * 7, [1.0] * 7])
def test_a_vector_that_cannot_be_compared_is_refused(vector: list[float]) -> None:
    with pytest.raises(ValidationError):
        check_vectors([np.array(vector, np.float32)], MODEL)
