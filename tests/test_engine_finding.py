"""Searching: the right memory first, as many as there are, and an answer to whatever is asked."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines import FakeEmbedder, found, open_engine_with
from tests.fakes import AT_ANY_SPEED
from zapomni.chunking import estimate_tokens
from zapomni.engine import finding, ranking
from zapomni.models import Filters

if TYPE_CHECKING:
    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine
    from zapomni.models import Scores
    from zapomni.store.workspace import Workspace

DAY = datetime(2026, 5, 1, tzinfo=UTC)
MEMORIES = (
    "The dentist appointment is on Tuesday at nine.",
    "Anna's birthday party was loud and wonderful 🎉",
    "Бабушка варила вкусные пироги с яблоками каждое воскресенье.",
    "Вчера мы купили новую красную машину.",
    "我昨天在北京吃了烤鸭，非常好吃。",
    "明天下午三点在上海开会。",
    "החתול הלבן ישן על הספה בסלון",
    "اجتماع الفريق يوم الخميس في المكتب الرئيسي",
    "Call parseHttpRequest() before send_response_headers, see net/http_client.py",
    "Reach the landlord at petra.novak@example.org or +420 601 234 567",
    "The invoice INV-2023-0042 is still unpaid.",
    "C++ and C# are both on the requirements list",
    "🦊 is the team's mascot",
    "x",
    "Crème brûlée and jalapeños for the naïve café owner",
)
QUESTIONS = {
    "When do I see the dentist?": 0,
    "🎉": 1,
    "пирог с яблоком": 2,
    "красных машин": 3,
    "МАШИНА": 3,
    "北京烤鸭": 4,
    "上海": 5,
    "鸭": 4,
    "חתול": 6,
    "الخميس": 7,
    "http request": 8,
    "parseHttpRequest": 8,
    "send response headers": 8,
    "http_client.py": 8,
    "petra.novak@example.org": 9,
    "novak": 9,
    "inv-2023-0042": 10,
    "0042": 10,
    "c++": 11,
    "🦊": 12,
    "x": 13,
    "creme brulee": 14,
    "JALAPENOS": 14,
    "ｄｅｎｔｉｓｔ": 0,
}


async def test_an_identifier_comes_before_others_of_the_same_parts(engine: MemoryEngine) -> None:
    """Also where it is one word of many, and the others' texts are nothing but theirs."""
    for left in range(6):
        for right in range(6):
            about = "is about a good many things that were said at length, " * (6 if left > right else 0)
            await engine.add_memory(f"Ticket A{left}-B{right} {about}")
    for name in ("A3-B2", "a5-b0", "A4-B1"):
        hits = (await engine.search_memory(name, limit=3)).hits
        assert f"Ticket {name.upper()} " in hits[0].text


async def test_whatever_is_asked_in_whatever_script_is_answered(engine: MemoryEngine) -> None:
    for text in MEMORIES:
        await engine.add_memory(text)
    answers = {question: (await found(engine, question, 3))[0] for question in QUESTIONS}
    assert answers == {question: MEMORIES[number] for question, number in QUESTIONS.items()}


@pytest.mark.parametrize(
    "query",
    [
        "the " * 1000,
        "и в на " * 400,
        "?",
        "...",
        "'; MATCH (n) DETACH DELETE n //",
        '"unclosed (quote AND | * ~',
        "\x00",
        "👨‍👩‍👧‍👦" * 50,
        "z" * 9_999,
        "a b c d e f g " * 500,
        "\u202e reversed",
        "%s %d {0}",
    ],
)
async def test_a_strange_query_is_answered_and_harms_nothing(engine: MemoryEngine, query: str) -> None:
    await engine.add_memory("The dentist appointment is on Tuesday at nine.")
    await engine.add_memory("something about cats")
    with trio.fail_after(20):
        result = await engine.search_memory(query)
    assert len(result.hits) <= 2
    assert len((await engine.list_memories()).memories) == 2


async def test_stop_words_find_what_is_made_of_them(engine: MemoryEngine) -> None:
    await engine.add_memory("To be, or not to be")
    await engine.add_memory("Cats sleep all day")
    assert (await found(engine, "to be or not to be"))[0] == "To be, or not to be"
    assert "To be, or not to be" in await found(engine, "the to be " * 334)


async def test_an_empty_workspace_gives_an_empty_answer(simple_engine: MemoryEngine) -> None:
    result = await simple_engine.search_memory("anything")
    assert (result.hits, result.notice, result.truncated) == ((), None, False)


async def test_meaning_finds_what_words_do_not(simple_engine: MemoryEngine) -> None:
    await simple_engine.add_memory("physician")
    await simple_engine.add_memory("gardener")
    assert (await found(simple_engine, "doctor"))[0] == "physician"


async def test_of_equals_the_later_one_comes_first(simple_engine: MemoryEngine) -> None:
    for number in range(3):
        await simple_engine.add_memory("same words", {"timestamp": f"2026-05-0{number + 1}"}, key=str(number))
    hits = (await simple_engine.search_memory("same words")).hits
    assert [hit.timestamp for hit in hits] == [DAY + timedelta(days=2), DAY + timedelta(days=1), DAY]


async def test_a_hit_shows_its_best_passage_and_where_it_stands(simple_engine: MemoryEngine) -> None:
    filler = "\n\n".join(f"Paragraph {number} is about gardening and nothing else at all. " * 8 for number in range(30))
    text = f"{filler}\n\nThe password of the safe is swordfish.\n\n{filler}"
    receipt = await simple_engine.add_memory(text, {"a": 1, "timestamp": "2026-05-01"})
    (hit,) = (await simple_engine.search_memory("swordfish")).hits
    assert "swordfish" in hit.text
    assert hit.text == text[hit.start : hit.end]
    assert (hit.memory_id, hit.chunks, hit.metadata["a"], hit.timestamp) == (
        receipt.memory_id,
        receipt.chunks_created,
        1,
        DAY,
    )


async def test_an_answer_is_found_by_the_question_before_it(simple_engine: MemoryEngine) -> None:
    await simple_engine.add_memory("Which instrument did you learn?", {"source": "talk"})
    await simple_engine.add_memory("Violin, for nine years.", {"source": "talk"})
    await simple_engine.add_memory("Nine years ago we moved.", {"source": "other"})
    assert (await found(simple_engine, "instrument years"))[0] == "Violin, for nine years."


async def test_hits_are_cut_to_the_budget_and_the_best_always_stays(simple_engine: MemoryEngine) -> None:
    ids = [(await simple_engine.add_memory(f"violin {number} " + "word " * 100)).memory_id for number in range(8)]
    whole = await simple_engine.search_memory("violin 3")
    assert (len(whole.hits), whole.truncated) == (8, False)
    cut = await simple_engine.search_memory("violin 3", max_tokens=500)
    assert cut.truncated
    assert 1 < len(cut.hits) < 8
    assert cut.hits == whole.hits[: len(cut.hits)]
    assert sum(estimate_tokens(hit.text) for hit in cut.hits) <= 500
    least = await simple_engine.search_memory("violin 3", max_tokens=1)
    assert [hit.memory_id for hit in least.hits] == [ids[3]]
    assert least.truncated


async def test_one_long_memory_does_not_take_the_places_of_others(simple_engine: MemoryEngine) -> None:
    long = " ".join(
        f"The violin concerto number {number} is played by the orchestra tonight." for number in range(2500)
    )
    receipt = await simple_engine.add_memory(long)
    assert receipt.chunks_created > finding.CANDIDATES
    for number in range(12):
        await simple_engine.add_memory(f"violin lesson {number}")
    hits = (await simple_engine.search_memory("the violin concerto number 7 is played by the orchestra tonight")).hits
    assert len({hit.memory_id for hit in hits}) == len(hits) == 10
    assert hits[0].memory_id == receipt.memory_id


async def test_reading_fewer_passages_changes_no_answer(
    simple_engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("violin", "viola", "cello", "bass", "flute", "oboe", "horn")
    for number in range(120):
        text = " ".join(words[number * step % 7] for step in range(1, 2 + number % 5))
        speaker = ("Ann", "Bob")[number % 2]
        metadata = {"speaker": speaker, "timestamp": f"2026-0{1 + number % 9}-01", "source": f"s{number % 4}"}
        await simple_engine.add_memory(f"{text} {number}", metadata)
    queries = (
        "violin",
        "Ann plays the cello",
        "flute and oboe in May 2026",
        "horn 17",
        "what did Bob say in March?",
        "",
    )
    few = {query: (await simple_engine.search_memory(query, limit=5)).hits for query in queries}
    monkeypatch.setattr(ranking, "FEWEST", 10_000)
    for query in queries:
        assert (await simple_engine.search_memory(query, limit=5)).hits == few[query]


FILTERS = st.builds(
    Filters,
    tags=st.lists(st.sampled_from("abcd"), max_size=2).map(tuple),
    all_tags=st.lists(st.sampled_from("abc"), max_size=2).map(tuple),
    source=st.none() | st.sampled_from(["s1", "s2", "s3"]),
    date_from=st.none() | st.integers(0, 9).map(lambda days: DAY + timedelta(days=days)),
    date_to=st.none() | st.integers(3, 12).map(lambda days: DAY + timedelta(days=days)),
    metadata=st.sampled_from([{}, {}, {"n": 1}, {"n": 2.0}, {"deep": {"x": [1, None]}}, {"n": 1, "b": True}]),
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.lists(st.sampled_from("abc"), max_size=3),
        "source": st.sampled_from(["s1", "s2"]),
        "timestamp": st.integers(0, 12).map(lambda days: (DAY + timedelta(days=days)).isoformat()),
        "n": st.sampled_from([1, 2]),
        "b": st.just(True),
        "deep": st.just({"x": [1, None]}),
    },
)


def passes(metadata: dict[str, Any], filters: Filters) -> bool:
    """Say what a filter means, as simply as it can be said."""
    tags = set(metadata.get("tags", ()))
    at = datetime.fromisoformat(metadata["timestamp"]) if "timestamp" in metadata else datetime.now(UTC)
    return (
        (not filters.tags or bool(tags & set(filters.tags)))
        and set(filters.all_tags) <= tags
        and filters.source in (None, metadata.get("source"))
        and (filters.date_from is None or at >= filters.date_from)
        and (filters.date_to is None or at < filters.date_to)
        and all(key in metadata and metadata[key] == value for key, value in filters.metadata.items())
    )


@settings(AT_ANY_SPEED, max_examples=12)
@given(
    corpus=st.lists(st.tuples(METADATA, st.integers(1, 400)), min_size=4, max_size=18),
    asked=st.lists(st.tuples(FILTERS, st.integers(1, 12)), min_size=4, max_size=12),
    query=st.sampled_from(["violin", "word3 word9", "the", "nothing of it", "?"]),
    deleted=st.integers(0, 3),
)
async def test_no_filter_starves_a_search(
    store_settings: Settings,
    corpus: list[tuple[dict[str, Any], int]],
    asked: list[tuple[Filters, int]],
    query: str,
    deleted: int,
) -> None:
    """With any filters a search and a list return exactly as many as match, up to the limit, and only those."""
    name = f"test-{uuid.uuid4().hex}"
    async with open_engine_with(attrs.evolve(store_settings, workspace=name), FakeEmbedder()) as engine:
        held: dict[str, dict[str, Any]] = {}
        for number, (metadata, words) in enumerate(corpus):
            text = f"memory {number} violin " + " ".join(f"word{word}" for word in range(words))
            held[(await engine.add_memory(text, metadata)).memory_id] = metadata
        for memory_id in list(held)[:deleted]:
            await engine.delete_memory(memory_id)
            del held[memory_id]
        for filters, limit in asked:
            matching = {memory_id for memory_id, metadata in held.items() if passes(metadata, filters)}
            hits = (await engine.search_memory(query, limit=limit, filters=filters)).hits
            ids = {hit.memory_id for hit in hits}
            assert len(ids) == len(hits) == min(limit, len(matching))
            assert ids <= matching
            listed = (await engine.list_memories(limit=limit, filters=filters)).memories
            assert len(listed) == len(hits)
            assert {summary.id for summary in listed} <= matching
        await engine.delete_workspace(name)


async def test_a_single_long_memory_is_not_read_whole_to_find_others_that_do_not_exist(
    simple_engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n\n".join(f"Paragraph {number} is about the harbour and its ships." for number in range(3000))
    await simple_engine.add_memory(text)
    space = simple_engine._store.workspace(simple_engine.current_workspace)
    assert await space.count() == 1
    asked: list[int | None] = []
    search_words = type(space).search_words

    async def noted(self: Workspace, *terms: Any, count: int | None, **more: Any) -> Scores:
        asked.append(count)
        return await search_words(self, *terms, count=count, **more)

    monkeypatch.setattr(type(space), "search_words", noted)
    found = await simple_engine.search_memory("harbour ships", limit=10)
    assert len(found.hits) == 1
    assert len(asked) == 1
