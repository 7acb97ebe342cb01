"""Statistics: the engine's figures, as words and as data."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED, FakeEngine
from zapomni.errors import DatabaseError
from zapomni.models import Statistics, WorkspaceInfo
from zapomni.tools import GetStatsTool


class Counted(FakeEngine):
    """Has the statistics that it is given."""

    def __init__(self, statistics: Statistics) -> None:
        super().__init__()
        self.statistics = statistics

    async def get_stats(self, **options: Any) -> Statistics:
        await super().get_stats(**options)
        return self.statistics


def describing(engine: Any = None) -> GetStatsTool:
    core: Any = engine or FakeEngine()
    return GetStatsTool(core)


async def test_an_empty_store_is_described() -> None:
    answer = await describing().execute({})
    assert answer["isError"] is False
    assert answer["content"][0]["text"].splitlines() == [
        "Workspace default: 0 memories in 0 passages.",
        "Size: 0.0 MB on disk, 0.0 MB in memory.",
    ]
    assert answer["structuredContent"] == {
        "workspace": "default",
        "total_memories": 0,
        "total_chunks": 0,
        "workspaces": {"default": 0},
        "bytes_in_memory": 0,
        "bytes_on_disk": 0,
        "embedding_model": "",
        "embedding_dimension": 0,
        "latency_ms": {},
    }


@pytest.mark.parametrize(
    ("memories", "chunks", "words"),
    [
        (1, 1, "1 memory in 1 passage."),
        (1, 1_200, "1 memory in 1,200 passages."),
        (2, 2, "2 memories in 2 passages."),
    ],
)
async def test_one_is_not_many(memories: int, chunks: int, words: str) -> None:
    answer = await describing(Counted(Statistics("home", memories, chunks))).execute({})
    assert answer["content"][0]["text"].splitlines()[0] == f"Workspace home: {words}"


async def test_everything_that_is_known_is_told() -> None:
    statistics = Statistics(
        workspace="home",
        total_memories=12_345,
        total_chunks=54_321,
        workspaces=(WorkspaceInfo("home", 12_345), WorkspaceInfo("work", 7)),
        bytes_in_memory=2_500_000,
        bytes_on_disk=10_000_000,
        oldest=datetime(2025, 1, 2, tzinfo=UTC),
        newest=datetime(2026, 5, 1, tzinfo=UTC),
        embedding_model="bundled",
        embedding_dimension=256,
        latency_ms={"search": {"p50": 1.25, "p99": 9.0}},
    )
    answer = await describing(Counted(statistics)).execute({})
    assert answer["content"][0]["text"].splitlines() == [
        "Workspace home: 12,345 memories in 54,321 passages.",
        "Size: 10.0 MB on disk, 2.5 MB in memory.",
        "From 2025-01-02 to 2026-05-01.",
        "Workspaces: home (12,345), work (7)",
        "Embedding model: bundled, 256 dimensions.",
        "search: p50 1.2 ms, p99 9.0 ms",
    ]
    assert answer["structuredContent"]["workspaces"] == {"home": 12_345, "work": 7}
    assert answer["structuredContent"]["oldest"] == "2025-01-02T00:00:00+00:00"
    assert answer["structuredContent"]["latency_ms"] == {"search": {"p50": 1.25, "p99": 9.0}}


async def test_a_workspace_may_be_named() -> None:
    engine = FakeEngine()
    await describing(engine).execute({"workspace": "work"})
    await describing(engine).execute({"workspace": None})
    assert engine.calls == [{"workspace": "work"}, {}]


COUNTS = st.integers(0, 10**15)
MOMENTS = st.none() | st.datetimes(timezones=st.just(UTC))
STATISTICS = st.builds(
    Statistics,
    workspace=st.text(),
    total_memories=COUNTS,
    total_chunks=COUNTS,
    workspaces=st.lists(st.builds(WorkspaceInfo, st.text(), COUNTS), max_size=3).map(tuple),
    bytes_in_memory=COUNTS,
    bytes_on_disk=COUNTS,
    oldest=MOMENTS,
    newest=MOMENTS,
    embedding_model=st.text(),
    embedding_dimension=COUNTS,
    latency_ms=st.dictionaries(
        st.text(), st.dictionaries(st.sampled_from(["p50", "p99"]), st.floats(0, 1e6)), max_size=3
    ),
)


@AT_ANY_SPEED
@given(statistics=STATISTICS)
async def test_every_answer_is_as_its_schema_says(statistics: Statistics) -> None:
    tool = describing(Counted(statistics))
    data = (await tool.execute({}))["structuredContent"]
    jsonschema.validate(data, tool.output_schema)
    assert None not in data.values()
    assert json.loads(json.dumps(data)) == data


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DatabaseError("secret"), "Error: Database temporarily unavailable. Please retry in a few seconds."),
        (ZeroDivisionError("secret"), "Error: An internal error occurred while processing your request."),
    ],
    ids=["database", "unexpected"],
)
async def test_an_error_has_its_words(error: Exception, words: str) -> None:
    answer = await describing(FakeEngine(error)).execute({})
    assert answer == {"content": [{"type": "text", "text": words}], "isError": True}


@pytest.mark.parametrize("arguments", [{"workspace": 5}, {"verbose": True}])
async def test_a_wrong_argument_is_refused(arguments: dict[str, Any]) -> None:
    assert (await describing().execute(arguments))["isError"] is True
