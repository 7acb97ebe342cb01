"""Searching memories: what the engine is asked, and how its hits are shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED, NOON, FakeEngine
from zapomni.errors import BlockedError, DatabaseError, EmbeddingError, NotFoundError
from zapomni.models import Filters, SearchHit, SearchResult
from zapomni.tools import SearchMemoryTool


class Finding(FakeEngine):
    """Finds what it is given."""

    def __init__(self, found: SearchResult) -> None:
        super().__init__()
        self.found = found

    async def search_memory(self, query: str, limit: int, **options: Any) -> SearchResult:
        await super().search_memory(query, limit, **options)
        return self.found


def searching(engine: Any = None) -> SearchMemoryTool:
    core: Any = engine or FakeEngine()
    return SearchMemoryTool(core)


def hit(**fields: Any) -> SearchHit:
    return SearchHit(**{"memory_id": "m-1", "text": "Tea, not coffee.", "score": 0.5, "created_at": NOON, **fields})


async def text_for(*hits: SearchHit, **fields: Any) -> str:
    answer = await searching(Finding(SearchResult(hits, **fields))).execute({"query": "tea"})
    assert answer["isError"] is False
    return str(answer["content"][0]["text"])


async def refusal_of(arguments: dict[str, Any], engine: Any = None) -> str:
    answer = await searching(engine).execute(arguments)
    assert answer["isError"] is True
    return str(answer["content"][0]["text"])


async def test_a_query_alone_asks_for_ten() -> None:
    engine = FakeEngine()
    await searching(engine).execute({"query": "  tea  "})
    assert engine.calls == [{"query": "tea", "limit": 10}]


async def test_everything_that_was_asked_reaches_the_engine() -> None:
    engine = FakeEngine()
    await searching(engine).execute(
        {
            "query": "tea",
            "limit": 3.0,
            "tags": ["a", "b"],
            "all_tags": ["c"],
            "source": "chat",
            "date_from": "2026-05-01",
            "date_to": "2026-05-31",
            "metadata": {"mood": "calm"},
            "max_tokens": 500,
            "workspace": "home",
        }
    )
    filters = Filters(
        tags=("a", "b"),
        all_tags=("c",),
        source="chat",
        date_from=datetime(2026, 5, 1, tzinfo=UTC),
        date_to=datetime(2026, 6, 1, tzinfo=UTC),
        metadata={"mood": "calm"},
    )
    assert engine.calls == [
        {"query": "tea", "limit": 3, "filters": filters, "max_tokens": 500, "workspace": "home"},
    ]


async def test_a_hit_is_shown_with_its_date_and_its_id_and_its_text() -> None:
    assert await text_for(hit()) == "Found 1 memory.\n\n1. [2026-05-01 12:00] ID: m-1\nTea, not coffee."


async def test_a_hit_is_shown_with_where_it_came_from() -> None:
    shown = await text_for(
        hit(
            metadata={"source": "chat", "tags": ["drinks", "home"]},
            timestamp=datetime(2025, 1, 2, 3, 4, tzinfo=UTC),
            chunks=4,
        ),
        hit(memory_id="m-2", metadata={"tags": "one"}),
    )
    assert shown == (
        "Found 2 memories.\n\n"
        "1. [2025-01-02 03:04; source: chat; tags: drinks, home; one of 4 passages] ID: m-1\nTea, not coffee.\n\n"
        "2. [2026-05-01 12:00; tags: one] ID: m-2\nTea, not coffee."
    )


async def test_finding_nothing_is_an_answer() -> None:
    answer = await searching().execute({"query": "tea"})
    assert answer["isError"] is False
    assert answer["content"][0]["text"] == "No memories found."
    assert answer["structuredContent"] == {"hits": [], "truncated": False}


async def test_what_the_reader_should_know_is_said() -> None:
    shown = await text_for(hit(), notice="only words were searched", truncated=True)
    assert shown.endswith("More were found, but they did not fit max_tokens.\n\nNote: only words were searched")


async def test_a_hit_is_data_as_well() -> None:
    found = SearchResult((hit(score=0.123456, metadata={"deep": {"list": [1, None]}}),))
    answer = await searching(Finding(found)).execute({"query": "tea"})
    assert answer["structuredContent"]["hits"] == [
        {
            "memory_id": "m-1",
            "text": "Tea, not coffee.",
            "score": 0.1235,
            "created_at": "2026-05-01T12:00:00+00:00",
            "metadata": {"deep": {"list": [1, None]}},
            "chunks": 1,
        }
    ]


MOMENTS = st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC))
HITS = st.builds(
    SearchHit,
    memory_id=st.uuids().map(str),
    text=st.text(),
    score=st.floats(allow_nan=False, allow_infinity=False),
    created_at=MOMENTS,
    timestamp=st.none() | MOMENTS,
    metadata=st.dictionaries(st.sampled_from(["source", "tags", "x"]), st.text() | st.lists(st.text()) | st.integers()),
    chunks=st.integers(1, 1000),
)


@AT_ANY_SPEED
@given(found=st.builds(SearchResult, st.lists(HITS, max_size=3).map(tuple), st.none() | st.text(), st.booleans()))
async def test_every_answer_is_as_its_schema_says(found: SearchResult) -> None:
    tool = searching(Finding(found))
    answer = await tool.execute({"query": "tea"})
    jsonschema.validate(answer["structuredContent"], tool.output_schema)
    assert None not in answer["structuredContent"].values()
    assert not any(None in shown.values() for shown in answer["structuredContent"]["hits"])
    assert [shown["text"] for shown in answer["structuredContent"]["hits"]] == [each.text for each in found.hits]
    assert all(each.text in answer["content"][0]["text"] for each in found.hits)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "field required: query"),
        ({"query": ""}, "query must have at least 1 character"),
        ({"query": " \n"}, "query cannot be empty or whitespace-only"),
        ({"query": "x" * 10_001}, "query exceeds maximum length of 10,000 characters"),
        ({"query": "tea", "limit": 0}, "limit must be at least 1"),
        ({"query": "tea", "limit": 101}, "limit must be at most 100"),
        ({"query": "tea", "limit": "10"}, "limit must be a whole number"),
        ({"query": "tea", "limit": True}, "limit must be a whole number"),
        ({"query": "tea", "limit": 1.5}, "limit must be a whole number"),
        ({"query": "tea", "tags": "home"}, "tags must be an array of strings, not string"),
        ({"query": "tea", "tags": ["home", 5]}, "tags must be an array of strings"),
        ({"query": "tea", "max_tokens": 10}, "max_tokens must be at least 50"),
        ({"query": "tea", "date_from": "tomorrow"}, "date_from must be an ISO 8601 date or time, such as 2026-05-01"),
        ({"query": "tea", "limits": 5}, "unexpected field: limits"),
    ],
)
async def test_a_wrong_argument_is_named(arguments: dict[str, Any], words: str) -> None:
    engine = FakeEngine()
    assert await refusal_of(arguments, engine) == f"Error: {words}"
    assert engine.calls == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DatabaseError("10.0.0.7"), "Error: Database temporarily unavailable. Please retry in a few seconds."),
        (BlockedError("the disk is full; make room"), "Error: the disk is full; make room"),
        (NotFoundError("workspace 'attic' does not exist"), "Error: workspace 'attic' does not exist"),
        (RuntimeError("secret"), "Error: An internal error occurred while processing your request."),
    ],
    ids=["database", "blocked", "not found", "unexpected"],
)
async def test_an_error_has_its_words(error: Exception, words: str) -> None:
    assert await refusal_of({"query": "tea"}, FakeEngine(error)) == words


async def test_an_embedder_that_is_down_leaks_nothing() -> None:
    words = await refusal_of({"query": "tea"}, FakeEngine(EmbeddingError("http://user:secret@host")))
    assert "embedding model is unavailable" in words
    assert "secret" not in words
