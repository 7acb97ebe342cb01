"""Searching finds what is there, and a filter lets through exactly what it says."""

from __future__ import annotations

import threading
import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stores import MODEL, NOW, chunks_of, latest_of, memory_of, own_workspace, terms_of, vector_of
from zapomni.errors import NotFoundError, ValidationError
from zapomni.models import Filters, NewMemory
from zapomni.store import arrays, facets, searching
from zapomni.store.reading import SUMMARIES
from zapomni.store.space import Space
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zapomni.config import Settings
    from zapomni.models import MemorySummary
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

VALUES = st.sampled_from(["a", "b", 'c"\\', "' or true or '", "*", "д"])
DAYS = st.integers(-3, 3).map(lambda days: NOW + timedelta(days=days))
MEMORIES = st.lists(
    st.tuples(
        st.lists(VALUES, max_size=2, unique=True).map(tuple),
        st.none() | VALUES,
        st.none() | DAYS,
        st.dictionaries(VALUES, st.sampled_from([1, "x", None]), max_size=2),
    ),
    min_size=1,
    max_size=25,
)
FILTERS = st.builds(
    Filters,
    tags=st.lists(VALUES, max_size=2).map(tuple),
    all_tags=st.lists(VALUES, max_size=1).map(tuple),
    source=st.none() | VALUES,
    date_from=st.none() | DAYS,
    date_to=st.none() | DAYS,
    metadata=st.dictionaries(VALUES, st.sampled_from([1.0, "x", None]), max_size=1),
)


def passes(memory: NewMemory, filters: Filters) -> bool:
    at: datetime = memory.timestamp or memory.created_at
    return (
        (not filters.tags or bool(set(filters.tags) & set(memory.tags)))
        and set(filters.all_tags) <= set(memory.tags)
        and filters.source in (None, memory.source)
        and (filters.date_from is None or at >= filters.date_from)
        and (filters.date_to is None or at < filters.date_to)
        and all(key in memory.metadata and memory.metadata[key] == value for key, value in filters.metadata.items())
    )


async def ids_of(workspace: Workspace, numbers: Any) -> list[str]:
    return [passage.memory_id for passage in await workspace.passages(numbers)]


@pytest.mark.parametrize("few", [searching.FEW, 0])
@settings(max_examples=15, deadline=None)
@given(given_=MEMORIES, filters=st.lists(FILTERS, min_size=1, max_size=6), limit=st.integers(1, 30))
async def test_no_filter_starves_a_search(
    store_settings: Settings, few: int, given_: list[Any], filters: list[Filters], limit: int
) -> None:
    """With `few` at 0 every filter takes the way of those that leave many chunks."""
    patch = pytest.MonkeyPatch()
    patch.setattr(searching, "FEW", few)
    memories: dict[str, NewMemory] = {}
    with patch.context():
        async with own_workspace(store_settings) as workspace:
            for number, (tags, source, timestamp, metadata) in enumerate(given_):
                fields = {"tags": tags, "source": source, "timestamp": timestamp, "metadata": metadata}
                memory = memory_of(f"common word{number}", created_at=NOW + timedelta(hours=number), **fields)
                memories[memory.id] = memory
                await workspace.add(memory, chunks_of(memory.text))
            for each in filters:
                expected = {memory_id for memory_id, memory in memories.items() if passes(memory, each)}
                by_word = await workspace.search_words({"common": 1.0}, count=limit, filters=each)
                by_vector = await workspace.search_vectors(vector_of("q"), MODEL, count=limit, filters=each)
                page = await workspace.list(filters=each, limit=limit)
                for found in (
                    await ids_of(workspace, by_word.numbers),
                    await ids_of(workspace, by_vector.numbers),
                    [summary.id for summary in page.memories],
                ):
                    assert len(found) == len(set(found)) == min(limit, len(expected))
                    assert set(found) <= expected
                nearest = sorted((cosine(vector_of("q"), memories[i].text) for i in expected), reverse=True)[:limit]
                assert by_vector.values.tolist() == pytest.approx(nearest, abs=0.02)
    patch.undo()


def cosine(vector: Any, text: str) -> float:
    other = vector_of(text)
    return float(vector @ other / np.linalg.norm(vector) / np.linalg.norm(other))


NASTY = [
    "", " ", "*", "-", "~x", '"', "'", "\\", "%", "(a|b)", "@text:x", "=>{$weight:1}", "a OR b", "$", "{}", "[]",
    "'; MATCH (n) DETACH DELETE n //", '"}) RETURN 1 //', "\x00", "\ud800", "😀", "привет", "机器学习", "\u202e",
    "x" * 5000,
]  # fmt: skip


async def test_no_search_string_raises_or_matches_everything(workspace: Workspace) -> None:
    for text in ("one fox", "two dogs", "привет мир", "机器学习"):
        await workspace.add(memory_of(text), chunks_of(text))
    for term in NASTY:
        scores = await workspace.search_words({term: 1.0}, count=10)
        expected = sum(term in terms_of(text) for text in ("one fox", "two dogs", "привет мир", "机器学习"))
        assert len(scores.numbers) == expected, term
        filters = Filters(tags=(term,), source=term, metadata={term: term})
        assert len((await workspace.search_words({"fox": 1.0}, count=10, filters=filters)).numbers) == 0
        assert len((await workspace.search_vectors(vector_of("x"), MODEL, count=9, filters=filters)).numbers) == 0
        assert (await workspace.list(filters=filters)).memories == ()
        assert await latest_of(workspace, term) is await workspace.find_key(term) is None
        for attempt in (workspace.get(term), workspace.history(term), workspace.delete(term, now=NOW)):
            with pytest.raises(NotFoundError):
                await attempt
        with pytest.raises(NotFoundError):
            await workspace.restore(term)
    assert len((await workspace.search_words({}, count=10)).numbers) == 0
    assert len((await workspace.search_words(dict.fromkeys(NASTY, 1.0), count=10)).numbers) == 2


async def test_weights_count(workspace: Workspace) -> None:
    for text in ("apple pie", "banana split"):
        await workspace.add(memory_of(text), chunks_of(text))
    for terms, first in (({"apple": 1.0, "banana": 0.1}, "apple pie"), ({"apple": 0.1, "banana": 1.0}, "banana split")):
        scores = await workspace.search_words(terms, count=None)
        passages = await workspace.passages(scores.numbers)
        assert passages[0].text == first
        assert len(passages) == 2


async def test_an_empty_workspace_has_no_hits(workspace: Workspace) -> None:
    assert len((await workspace.search_words({"x": 1.0}, count=5)).numbers) == 0
    assert len((await workspace.search_vectors(vector_of("x"), MODEL, count=5)).numbers) == 0
    assert (await workspace.list()).memories == ()
    assert await workspace.passages([]) == ()
    assert await workspace.passages([1, 2, 3]) == ()


async def test_a_question_that_cannot_be_compared_is_refused(workspace: Workspace) -> None:
    for vector in (np.zeros(8, np.float32), np.full(8, np.nan, np.float32), np.ones(7, np.float32)):
        with pytest.raises(ValidationError):
            await workspace.search_vectors(vector, MODEL, count=5)


async def test_similarities_are_those_of_the_search(workspace: Workspace) -> None:
    for number in range(30):
        await workspace.add(memory_of(f"text {number}"), chunks_of(f"text {number}"))
    found = await workspace.search_vectors(vector_of("q"), MODEL, count=30)
    exact = await workspace.similarities(vector_of("q"), MODEL, [*found.numbers.tolist(), 10_000])
    assert sorted(exact.numbers.tolist()) == sorted(found.numbers.tolist())
    assert exact.values.tolist() == pytest.approx(found.values.tolist(), abs=0.02)


async def test_pages_of_a_list_stay_where_they_are(workspace: Workspace) -> None:
    texts = [f"text {number}" for number in range(25)]
    for number, text in enumerate(texts):
        await workspace.add(memory_of(text, created_at=NOW + timedelta(seconds=number // 5)), chunks_of(text))
    seen: list[str] = []
    cursor = None
    with trio.fail_after(20):
        while True:
            page = await workspace.list(limit=4, cursor=cursor)
            seen += [summary.preview for summary in page.memories]
            if page.cursor is None:
                break
            cursor = page.cursor
            text = f"newer {len(seen)}"
            await workspace.add(memory_of(text, created_at=NOW + timedelta(days=1)), chunks_of(text))
    assert seen == texts[::-1]


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "😀", "A" * 400])
async def test_what_is_no_cursor_is_refused(workspace: Workspace, cursor: str) -> None:
    with pytest.raises(ValidationError):
        await workspace.list(cursor=cursor)


async def test_what_is_changed_while_it_is_listed_is_not_missing(
    workspace: Workspace, store_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of which memories are on a page and the reading of those, another process updates some."""
    memories = [memory_of(f"text {number}", created_at=NOW + timedelta(number)) for number in range(12)]
    for memory in memories:
        await workspace.add(memory, chunks_of(memory.text))
    ask, asked = Space.ask, 0

    async with open_store(store_settings) as other:
        elsewhere = other.workspace(workspace.name)

        async def ask_late(space: Space, query: str, /, **parameters: Any) -> list[list[Any]]:
            nonlocal asked
            if query == SUMMARIES:
                asked += 1
                if asked < 3:
                    for memory in memories[::3]:
                        text = f"{memory.text}, changed {asked}"
                        await elsewhere.update(attrs.evolve(memory, text=text), chunks_of(text))
                    await elsewhere.delete(memories[asked].id, now=NOW)
            return await ask(space, query, **parameters)

        monkeypatch.setattr(Space, "ask", ask_late)
        with trio.fail_after(20):
            seen: list[MemorySummary] = []
            cursor: str | None = None
            while True:
                page = await workspace.list(limit=5, cursor=cursor)
                seen += page.memories
                cursor = page.cursor
                if cursor is None:
                    break
    assert [memory.id for memory in seen] == [memory.id for memory in reversed(memories[3:])] + [memories[0].id]
    changed = [memory.preview for memory in seen if "changed" in memory.preview]
    assert changed == [f"text {number}, changed 2" for number in (9, 6, 3, 0)]


async def test_a_workspace_that_was_removed_elsewhere_is_said_to_be_gone(
    store: Store, store_settings: Settings
) -> None:
    name = f"test-{uuid.uuid4().hex}"
    await store.create_workspace(name)
    workspace = store.workspace(name)
    memory = memory_of("text", tags=("t",))
    await workspace.add(memory, chunks_of("text"))
    async with open_store(store_settings) as other:
        await other.delete_workspace(name)
    for call in (workspace.list, workspace.tags, workspace.trashed, workspace.info):
        with pytest.raises(NotFoundError, match=name):
            await call()


async def test_what_is_long_is_worked_through_off_the_loop(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await workspace.add(memory_of(f"text {number}", tags=("t",)), chunks_of(f"text {number}"))
    filters = Filters(tags=("t",))
    read: list[Callable[[], Awaitable[object]]] = [
        lambda: workspace.list(filters=filters, limit=3),
        lambda: workspace.count(filters),
        workspace.statistics,
        lambda: workspace.search_words({"text": 1.0}, count=3, filters=filters),
        lambda: workspace.search_vectors(vector_of("x"), MODEL, count=3, filters=filters),
    ]
    worked: list[bool] = []
    select = facets.select

    def note_thread(*arguments: Any) -> Any:
        worked.append(threading.current_thread() is threading.main_thread())
        return select(*arguments)

    monkeypatch.setattr(facets, "select", note_thread)
    for long, expected in ((arrays.LONG, True), (0, False)):
        monkeypatch.setattr(arrays, "LONG", long)
        for call in read:
            await call()
        assert worked == [expected] * len(read)
        worked.clear()
