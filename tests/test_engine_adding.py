"""Adding and changing memories: verbatim, once, whole or not at all."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines import FakeEmbedder, by_words, found, open_engine_with
from tests.fakes import AT_ANY_SPEED
from zapomni.engine.engine import ATTEMPTS
from zapomni.engine.passages import BATCH, WHOLE
from zapomni.engine.upkeep import purge
from zapomni.errors import EmbeddingError, NotFoundError, OutdatedError, ValidationError
from zapomni.models import MAX_TEXT_LENGTH
from zapomni.store.workspace import Workspace

if TYPE_CHECKING:
    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine
    from zapomni.models import Memory

SENTENCE = "The quick brown fox number {} jumps over the lazy dog, and nobody knows exactly why it should do so. "
LARGE = "".join(SENTENCE.format(number) for number in range(7 * 4 * WHOLE))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=5,
)
VERBATIM = {
    "one character": "x",
    "emoji": "👩🏽‍🚀 went to 🇺🇦 with 🏳️‍🌈 and 👨‍👩‍👧‍👦",
    "right to left": "שלום עולם, مرحبا بالعالم",
    "chinese": "我昨天在北京吃了烤鸭。非常好吃！",
    "combining marks": "e\u0301a\u0308 Z\u0351\u036b\u0343a\u0329\u034el\u0320g\u0323o\u0348 न्नी",
    "code": "def f(x):\n\tif x < \"\\n\":\n        return {'a': [1, 2]}  # ```\r\n\n\n",
    "white space": "  \n\n text between spaces \t \r\n ",
    "cypher": "'}) DETACH DELETE n // $text \\ \" ` CYPHER text=1",
    "nul and controls": "a\x00b\x1ac\x1bd\x7f",
    "long": LARGE[:200_000]
    + "\n# Heading\n\n```python\n"
    + "code(); " * 5_000
    + "\n```\n"
    + "無" * 20_000
    + "e\u0301" * 5_000,
}


@pytest.mark.parametrize("text", VERBATIM.values(), ids=VERBATIM.keys())
async def test_a_text_comes_back_as_it_went_in(simple_engine: MemoryEngine, text: str) -> None:
    metadata = {"a": [1, 2.5, None, {"b": text[:100]}], "tags": ["t"], "empty": {}}
    receipt = await simple_engine.add_memory(text, metadata)
    memory = await simple_engine.get_memory(receipt.memory_id)
    assert memory.text == text
    assert memory.metadata == metadata
    assert memory.chunks == receipt.chunks_created
    (summary,) = (await simple_engine.list_memories()).memories
    assert (summary.id, summary.length, summary.metadata) == (memory.id, len(text), metadata)


@settings(AT_ANY_SPEED, max_examples=25)
@given(
    text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=2000).filter(str.strip),
    metadata=st.dictionaries(st.text(st.characters(codec="utf-8")), JSON, max_size=4),
)
async def test_any_text_comes_back_as_it_went_in(store_settings: Settings, text: str, metadata: dict[str, Any]) -> None:
    name = f"test-{uuid.uuid4().hex}"
    async with open_engine_with(attrs.evolve(store_settings, workspace=name), FakeEmbedder()) as engine:
        receipt = await engine.add_memory(text, {"given": metadata})
        memory = await engine.get_memory(receipt.memory_id)
        assert memory.text == text
        assert memory.metadata == {"given": metadata}
        await engine.delete_workspace(name)


async def test_the_same_text_again_is_the_first_memory(simple_engine: MemoryEngine) -> None:
    first = await simple_engine.add_memory("the same text", {"n": 1})
    second = await simple_engine.add_memory("the same text", {"n": 2})
    assert (second.memory_id, second.duplicate) == (first.memory_id, True)
    assert (await simple_engine.get_memory(first.memory_id)).metadata == {"n": 1}
    assert not (await simple_engine.add_memory("the same text ", {})).duplicate
    assert (await simple_engine.get_stats()).total_memories == 2


async def test_a_large_text_again_is_found_out_before_it_is_embedded(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    first = await simple_engine.add_memory(LARGE)
    done = embedder.embedded
    assert done == first.chunks_created > WHOLE
    assert (await simple_engine.add_memory(LARGE)).duplicate
    assert embedder.embedded == done


async def test_changes_of_text_and_metadata_at_the_same_time_both_stay(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    receipt = await simple_engine.add_memory("the first text", {"n": 1})
    embedder.close_gate()
    gate = embedder.gate
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: simple_engine.update_memory(receipt.memory_id, metadata={"n": 2}))
            await embedder.waiting.wait()  # it has read the text that the next line replaces
            embedder.gate = trio.Event()
            embedder.gate.set()
            await simple_engine.update_memory(receipt.memory_id, text="the second text")
            gate.set()
    memory = await simple_engine.get_memory(receipt.memory_id)
    assert (memory.text, memory.metadata, memory.version) == ("the second text", {"n": 2}, 3)


async def test_a_memory_that_others_never_stop_changing_is_given_up(
    simple_engine: MemoryEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = await simple_engine.add_memory("the first text")
    get, changes = Workspace.get, 0

    async def get_and_be_late(self: Workspace, memory_id: str, *, trashed: bool = False) -> Memory:
        nonlocal changes
        memory = await get(self, memory_id, trashed=trashed)
        changes += 1
        await simple_engine.update_memory(memory_id, text=f"text {changes}", metadata={})
        return memory

    monkeypatch.setattr(Workspace, "get", get_and_be_late)
    with trio.fail_after(20), pytest.raises(OutdatedError):
        await simple_engine.update_memory(receipt.memory_id, metadata={"n": 2})
    assert changes == ATTEMPTS


async def test_a_text_under_a_key_and_the_text_alone_are_two_memories(simple_engine: MemoryEngine) -> None:
    keyed = await simple_engine.add_memory("the pin is 1234", key="note")
    plain = await simple_engine.add_memory("the pin is 1234")
    assert (plain.duplicate, plain.memory_id != keyed.memory_id) == (False, True)
    await simple_engine.add_memory("something else", key="note")
    assert (await simple_engine.get_memory(plain.memory_id)).text == "the pin is 1234"
    again = await simple_engine.add_memory("the pin is 1234")
    assert (again.duplicate, again.memory_id) == (True, plain.memory_id)


async def test_a_restored_memory_with_a_key_keeps_no_text_from_others(simple_engine: MemoryEngine) -> None:
    keyed = await simple_engine.add_memory("the pin is 1234", key="note")
    await simple_engine.delete_memory(keyed.memory_id)
    await simple_engine.restore_memory(keyed.memory_id)
    assert not (await simple_engine.add_memory("the pin is 1234")).duplicate


async def test_what_was_cancelled_at_any_moment_is_there_whole_or_not_at_all(simple_engine: MemoryEngine) -> None:
    for number in range(30):
        text = f"the text of number {number}"
        with trio.fail_after(20):
            with trio.move_on_after(number / 2000):
                await simple_engine.add_memory(text)
            receipt = await simple_engine.add_memory(text)
        assert (await simple_engine.get_memory(receipt.memory_id)).text == text
    assert (await simple_engine.get_stats()).total_memories == 30


async def test_a_key_replaces_and_keeps_history(simple_engine: MemoryEngine) -> None:
    first = await simple_engine.add_memory("Ann lives in Paris", {"v": 1}, key="ann-city")
    assert not first.replaced
    again = await simple_engine.add_memory("Ann lives in Paris", {"v": 1}, key="ann-city")
    assert (again.memory_id, again.duplicate, again.replaced) == (first.memory_id, True, False)
    second = await simple_engine.add_memory("Ann lives in Rome", {"v": 2}, key="ann-city")
    assert (second.memory_id, second.replaced) == (first.memory_id, True)
    memory = await simple_engine.get_memory(first.memory_id)
    assert (memory.text, memory.version, memory.key) == ("Ann lives in Rome", 2, "ann-city")
    (old,) = await simple_engine.history(first.memory_id)
    assert (old.text, old.metadata, old.version) == ("Ann lives in Paris", {"v": 1}, 1)
    assert await found(simple_engine, "Ann lives") == ["Ann lives in Rome"]


async def test_what_was_replaced_finds_nothing_any_more(simple_engine: MemoryEngine) -> None:
    await simple_engine.add_memory("before that", {"source": "s"})
    await simple_engine.add_memory("lives in Paris", {"source": "s"}, key="city")
    receipt = await simple_engine.add_memory("lives in Rome", {"source": "s"}, key="city")
    assert await by_words(simple_engine, "paris") == set()
    assert receipt.memory_id in await by_words(simple_engine, "befor")  # it stands where it stood


async def test_an_update_changes_text_or_metadata_and_keeps_the_rest(simple_engine: MemoryEngine) -> None:
    receipt = await simple_engine.add_memory("first words", {"a": 1}, key="k")
    created = (await simple_engine.get_memory(receipt.memory_id)).created_at
    assert (await simple_engine.update_memory(receipt.memory_id, text="second words")).replaced
    assert (await simple_engine.update_memory(receipt.memory_id, metadata={"b": 2})).replaced
    assert (await simple_engine.update_memory(receipt.memory_id, metadata={"b": 2})).duplicate
    memory = await simple_engine.get_memory(receipt.memory_id)
    assert (memory.text, memory.metadata, memory.key, memory.version) == ("second words", {"b": 2}, "k", 3)
    assert memory.created_at == created
    assert memory.updated_at is not None
    assert memory.updated_at >= created
    texts = [(old.text, old.metadata) for old in await simple_engine.history(receipt.memory_id)]
    assert texts == [("second words", {"a": 1}), ("first words", {"a": 1})]
    assert await by_words(simple_engine, "first") == set()


async def test_an_update_keeps_what_stands_before(simple_engine: MemoryEngine) -> None:
    await simple_engine.add_memory("Which instrument do you play?", {"source": "talk"})
    answer = await simple_engine.add_memory("The violin.", {"source": "talk"})
    await simple_engine.update_memory(answer.memory_id, text="The viola.")
    assert answer.memory_id in await by_words(simple_engine, "instrument")


async def test_updating_what_is_not_there_says_so(simple_engine: MemoryEngine) -> None:
    with pytest.raises(NotFoundError):
        await simple_engine.update_memory(str(uuid.uuid4()), text="text")
    receipt = await simple_engine.add_memory("text")
    with pytest.raises(ValidationError, match="new text"):
        await simple_engine.update_memory(receipt.memory_id)


@pytest.mark.parametrize("text", ["", "  \n\t "])
async def test_an_empty_text_is_refused(simple_engine: MemoryEngine, text: str) -> None:
    with pytest.raises(ValidationError, match="text cannot be empty or whitespace-only"):
        await simple_engine.add_memory(text)
    receipt = await simple_engine.add_memory("something")
    with pytest.raises(ValidationError, match="text cannot be empty or whitespace-only"):
        await simple_engine.update_memory(receipt.memory_id, text=text)


async def test_a_text_that_is_too_long_is_refused(simple_engine: MemoryEngine) -> None:
    with pytest.raises(ValidationError, match="10,000,000"):
        await simple_engine.add_memory("x" * (MAX_TEXT_LENGTH + 1))


@pytest.mark.parametrize(
    "metadata",
    [{"tags": 5}, {"source": ["a"]}, {"timestamp": "soon"}, {"n": float("nan")}, {"half": "\ud800"}, {"tags": [""]}],
)
async def test_metadata_that_cannot_be_kept_is_refused_and_nothing_is_stored(
    simple_engine: MemoryEngine, metadata: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        await simple_engine.add_memory("text", metadata)
    with pytest.raises(ValidationError):
        await simple_engine.add_memory("half \ud800")
    assert (await simple_engine.get_stats()).total_memories == 0


async def test_when_it_happened_is_told_apart_from_when_it_was_stored(simple_engine: MemoryEngine) -> None:
    receipt = await simple_engine.add_memory("the wedding", {"timestamp": "2019-06-01T15:00+02:00"})
    memory = await simple_engine.get_memory(receipt.memory_id)
    assert memory.timestamp == datetime(2019, 6, 1, 13, tzinfo=UTC)
    assert memory.created_at > datetime(2026, 1, 1, tzinfo=UTC)
    assert memory.metadata == {"timestamp": "2019-06-01T15:00+02:00"}
    assert await found(simple_engine, "what was in June 2019?") == ["the wedding"]


async def test_a_large_text_tells_how_far_it_is(simple_engine: MemoryEngine) -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        reports.append((done, total, message))

    receipt = await simple_engine.add_memory(LARGE, progress=progress)
    assert len(reports) >= receipt.chunks_created / BATCH
    assert [done for done, _, _ in reports] == sorted(done for done, _, _ in reports)
    assert reports[-1][:2] == (receipt.chunks_created, receipt.chunks_created)
    assert reports[0][2] is not None
    assert "passages" in reports[0][2]


async def test_other_calls_are_answered_while_a_large_text_is_added(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    first = await simple_engine.add_memory("a small memory about violins")
    embedder.close_gate()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(simple_engine.add_memory, LARGE)
            await embedder.waiting.wait()
            assert await found(simple_engine, "violins") == ["a small memory about violins"]
            assert (await simple_engine.get_memory(first.memory_id)).text.endswith("violins")
            assert len((await simple_engine.list_memories()).memories) == 1
            assert (await simple_engine.get_stats()).total_memories == 1
            embedder.gate.set()
    assert (await simple_engine.get_stats()).total_memories == 2


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_a_cancelled_large_text_leaves_nothing(
    simple_engine: MemoryEngine, embedder: FakeEmbedder, after: int
) -> None:
    await simple_engine.add_memory("something else")
    before = await snapshot(simple_engine)
    scope = trio.CancelScope()
    reports = 0

    async def progress(*_: object) -> None:
        nonlocal reports
        reports += 1
        if reports == after:
            scope.cancel()

    if after == 0:
        embedder.close_gate()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:

            async def add() -> None:
                with scope:
                    await simple_engine.add_memory(LARGE, {"tags": ["large"]}, progress=progress)

            nursery.start_soon(add)
            if after == 0:
                await embedder.waiting.wait()
                scope.cancel()
    assert scope.cancelled_caught
    embedder.gate.set()
    assert await found(simple_engine, "quick brown fox") in ([], ["something else"])
    assert len((await simple_engine.list_memories()).memories) == 1
    assert await simple_engine.tags() == {}
    assert await snapshot(simple_engine) == before


async def snapshot(engine: MemoryEngine) -> dict[str, int]:
    """Count everything that a memory is made of, in the raw store, once what nobody sees is cleared away."""
    workspace = await engine._workspace(None)
    await purge(workspace, datetime(2000, 1, 1, tzinfo=UTC))
    space = workspace._space
    counts = {}
    for label in ("Memory", "Draft", "Chunk", "Version", "Trash", "Source"):
        counts[label] = (await space.ask(f"MATCH (n:{label}) RETURN count(n)"))[0][0]
    counts["vectors"] = await space.connection.read("VCARD", space.keys.vectors(1))
    counts["entries"] = await space.connection.read("SCARD", space.keys.index)
    return counts


async def test_a_model_that_is_down_is_told_and_nothing_is_stored(
    simple_engine: MemoryEngine, embedder: FakeEmbedder
) -> None:
    embedder.down = True
    for text in ("small", LARGE):
        with pytest.raises(EmbeddingError, match="down"):
            await simple_engine.add_memory(text)
    embedder.down = False
    assert (await simple_engine.get_stats()).total_memories == 0


async def test_a_model_that_fails_half_way_leaves_nothing(simple_engine: MemoryEngine, embedder: FakeEmbedder) -> None:
    before = await snapshot(simple_engine)

    async def progress(*_: object) -> None:
        embedder.down = True

    with trio.fail_after(30), pytest.raises(EmbeddingError, match="down"):
        await simple_engine.add_memory(LARGE, progress=progress)
    embedder.down = False
    assert await snapshot(simple_engine) == before


async def test_a_memory_is_found_by_the_next_search_after_its_receipt(simple_engine: MemoryEngine) -> None:
    """Ten clients add and look at once for what they have just added, all in the same workspace."""
    wrong: list[str] = []

    async def client(number: int) -> None:
        for turn in range(6):
            word = f"word{number}x{turn}"
            receipt = await simple_engine.add_memory(f"{word} is new", {"source": f"s{number % 3}", "tags": ["all"]})
            hits = (await simple_engine.search_memory(word, limit=3)).hits
            if receipt.memory_id != hits[0].memory_id:
                wrong.append(word)
            if turn == 3:
                await simple_engine.update_memory(receipt.memory_id, text=f"{word} is changed")
                hits = (await simple_engine.search_memory(word, limit=3)).hits
                if hits[0].text != f"{word} is changed":
                    wrong.append(word)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(client, number)
    assert wrong == []
    assert (await simple_engine.get_stats()).total_memories == 60


async def test_what_is_being_changed_is_never_missing_from_a_search(simple_engine: MemoryEngine) -> None:
    receipt = await simple_engine.add_memory("the violin, version 0", {"source": "s"})
    await simple_engine.add_memory("what follows", {"source": "s"})
    finished = trio.Event()
    missing = 0

    async def change() -> None:
        for version in range(1, 25):
            await simple_engine.update_memory(receipt.memory_id, text=f"the violin, version {version}")
        finished.set()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            while not finished.is_set():
                hits = (await simple_engine.search_memory("violin")).hits
                missing += receipt.memory_id not in {hit.memory_id for hit in hits}
    assert missing == 0


async def test_two_engines_see_each_others_memories_at_once(
    simple_engine: MemoryEngine, store_settings: Settings
) -> None:
    async with open_engine_with(store_settings, FakeEmbedder()) as other:
        name = simple_engine.current_workspace
        await simple_engine.create_workspace(name)
        for number in range(5):
            await other.add_memory(f"told by the other one {number}", workspace=name)
            assert (await found(simple_engine, f"other {number}"))[0] == f"told by the other one {number}"
