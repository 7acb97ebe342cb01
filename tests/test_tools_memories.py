"""Reading, changing, deleting and listing memories, as a model does it, on the real engine."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls import refused, use
from tests.fakes import AT_ANY_SPEED, FakeEngine, captured_log
from zapomni.chunking import estimate_tokens
from zapomni.errors import DatabaseError
from zapomni.tools import AddMemoryTool, SearchMemoryTool
from zapomni.tools.delete_memory import DeleteMemoryTool, RestoreMemoryTool
from zapomni.tools.get_memory import VERSIONS, GetMemoryTool, cut
from zapomni.tools.list_memories import ListMemoriesTool
from zapomni.tools.update_memory import UpdateMemoryTool

if TYPE_CHECKING:
    from zapomni.engine import MemoryEngine

NOBODY = "00000000-0000-4000-8000-000000000000"


async def add(engine: Any, text: str, *, key: str | None = None, **metadata: Any) -> str:
    added = await use(AddMemoryTool(engine), text=text, metadata=metadata, key=key)
    return str(added["memory_id"])


async def test_a_memory_is_read_with_all_that_is_known_of_it(engine: MemoryEngine) -> None:
    about: dict[str, Any] = {"tags": ["anna"], "source": "chat", "timestamp": "2026-04-01", "mood": "glad"}
    memory_id = await add(engine, "Anna moved to Kyiv.", key="anna/city", **about)
    read = await use(GetMemoryTool(engine), memory_id=memory_id)
    assert read["text"] == "Anna moved to Kyiv."
    assert read["metadata"] == about
    assert (read["key"], read["version"], read["length"]) == ("anna/city", 1, 19)
    assert read["timestamp"] == "2026-04-01T00:00:00+00:00"
    assert "next_offset" not in read
    head, text = read["said"].split("\n\n")
    assert head.startswith(f"[2026-04-01 00:00; source: chat; tags: anna] ID: {memory_id}\nKey: anna/city; Stored: ")
    assert head.endswith('\nMetadata: {"mood": "glad"}')
    assert text == "Anna moved to Kyiv."


async def test_a_long_memory_is_read_piece_by_piece_and_nothing_is_lost(engine: MemoryEngine) -> None:
    text = " ".join(f"слово{number} word{number} 単語" for number in range(800))
    reading = GetMemoryTool(engine)
    memory_id = await add(engine, text)
    first = await use(reading, memory_id=memory_id, max_tokens=500)
    assert f"Note: characters 0 to {first['next_offset']:,} of {len(text):,}." in first["said"]
    assert first["said"].endswith(f"Read on with offset {first['next_offset']}.")
    pieces, offset = [first["text"]], first["next_offset"]
    while offset is not None:
        piece = await use(reading, memory_id=memory_id, max_tokens=500, offset=offset)
        assert estimate_tokens(piece["text"]) <= 500
        pieces.append(piece["text"])
        offset = piece.get("next_offset")
    assert "".join(pieces) == text
    assert all(piece.endswith(" ") for piece in pieces[:-1])
    assert piece["said"].endswith(f"of {len(text):,}, the end.")
    assert await refused(reading, memory_id=memory_id, offset=len(text)) == (
        f"offset must be less than the text's length of {len(text):,} characters"
    )


@AT_ANY_SPEED
@given(st.text(max_size=300), st.data(), st.integers(1, 60))
def test_a_cut_is_within_the_budget_and_goes_forward(text: str, data: st.DataObject, tokens: int) -> None:
    start = data.draw(st.integers(0, max(0, len(text) - 1)))
    end = cut(text, start, tokens)
    assert estimate_tokens(text[start:end]) <= tokens
    assert start < end <= len(text) or not text
    if end == len(text):
        return
    assert estimate_tokens(text[start:]) > tokens


async def test_a_changed_memory_shows_what_it_was(engine: MemoryEngine) -> None:
    memory_id = await add(engine, "Anna lives in Kyiv.", tags=["anna"])
    changing, reading = UpdateMemoryTool(engine), GetMemoryTool(engine)
    changed = await use(changing, memory_id=memory_id, text="Anna lives in Lviv.\nSince May.")
    assert changed["said"].splitlines()[0] == "Memory updated; the earlier version is kept as history."
    assert changed["changed"] is True
    await use(changing, memory_id=memory_id, metadata={"tags": ["moved"]})
    read = await use(reading, memory_id=memory_id, history=True)
    assert (read["text"], read["metadata"]) == ("Anna lives in Lviv.\nSince May.", {"tags": ["moved"]})
    assert read["version"] == 3
    assert "updated_at" in read
    assert [(each["version"], each["preview"]) for each in read["history"]] == [
        (2, "Anna lives in Lviv.\nSince May."),
        (1, "Anna lives in Kyiv."),
    ]
    *_, count, second, first = read["said"].splitlines()
    assert count == "Earlier versions: 2."
    assert second.startswith("2. [")
    assert second.endswith("] Anna lives in Lviv. Since May.")
    assert first.endswith("] Anna lives in Kyiv.")
    old = await use(reading, memory_id=memory_id, version=1)
    assert (old["text"], old["metadata"], old["version"]) == ("Anna lives in Kyiv.", {"tags": ["anna"]}, 1)
    assert await refused(reading, memory_id=memory_id, version=9) == (
        f"memory {memory_id} has no version 9; the current one is 3"
    )


async def test_only_the_latest_of_many_versions_are_listed() -> None:
    engine = FakeEngine()
    memory_id = await add(engine, "version 1")
    for number in range(2, VERSIONS + 5):
        await use(UpdateMemoryTool(engine), memory_id=memory_id, text=f"version {number}")  # type: ignore[arg-type]
    read = await use(GetMemoryTool(engine), memory_id=memory_id, history=True)  # type: ignore[arg-type]
    assert f"Earlier versions: {VERSIONS + 3}." in read["said"]
    assert [each["version"] for each in read["history"]] == list(range(VERSIONS + 3, 3, -1))


async def test_the_history_is_read_only_for_what_is_in_it() -> None:
    engine = FakeEngine()
    memory_id = await add(engine, "one")
    await use(UpdateMemoryTool(engine), memory_id=memory_id, text="two")  # type: ignore[arg-type]
    for version, text, reads in ((2, "two", 1), (1, "one", 2)):
        engine.calls.clear()
        read = await use(GetMemoryTool(engine), memory_id=memory_id, version=version)  # type: ignore[arg-type]
        assert (read["text"], read["version"], len(engine.calls)) == (text, version, reads)
    engine.calls.clear()
    words = await refused(GetMemoryTool(engine), memory_id=memory_id, version=3)  # type: ignore[arg-type]
    assert words == f"memory {memory_id} has no version 3; the current one is 2"
    assert len(engine.calls) == 1


async def test_a_memory_that_never_changed_has_no_history(engine: MemoryEngine) -> None:
    read = await use(GetMemoryTool(engine), memory_id=await add(engine, "Once."), history=True)
    assert read["history"] == []
    assert read["said"].endswith("There are no earlier versions.")


async def test_changing_nothing_is_said_to_change_nothing(engine: MemoryEngine) -> None:
    memory_id = await add(engine, "The same.")
    changed = await use(UpdateMemoryTool(engine), memory_id=memory_id, text=" The same. ")
    assert changed["changed"] is False
    assert changed["said"].startswith("Nothing to change.\n")
    assert (await use(GetMemoryTool(engine), memory_id=memory_id))["version"] == 1


async def test_a_change_has_to_say_what_is_new(engine: MemoryEngine) -> None:
    memory_id = await add(engine, "Something.")
    changing = UpdateMemoryTool(engine)
    assert await refused(changing, memory_id=memory_id) == "give a new text, new metadata, or both"
    assert await refused(changing, memory_id=memory_id, text=" ") == "text cannot be empty or whitespace-only"


async def test_nothing_is_deleted_without_confirmation(engine: MemoryEngine) -> None:
    memory_id = await add(engine, "A secret that no log may hold.", source="diary")
    with captured_log() as log:
        words = await refused(DeleteMemoryTool(engine), memory_id=memory_id)
    assert words.startswith("Nothing was deleted. To delete this memory, call again with confirm set to true.\n[")
    assert words.endswith(f"; source: diary] ID: {memory_id}\nPreview: A secret that no log may hold.")
    assert log.of("tool_unconfirmed")["tool"] == "delete_memory"
    assert "secret" not in log.text
    assert (await use(GetMemoryTool(engine), memory_id=memory_id))["text"] == "A secret that no log may hold."


async def test_what_is_deleted_can_be_restored_until_the_time_that_is_told(engine: MemoryEngine) -> None:
    memory_id = await add(engine, "The boat is called Aurora.")
    before = datetime.now().astimezone()
    deleted = await use(DeleteMemoryTool(engine), memory_id=memory_id, confirm=True)
    until = datetime.fromisoformat(deleted["restorable_until"])
    retention = timedelta(days=engine.settings.retention_days)
    assert before + retention <= until <= datetime.now().astimezone() + retention
    assert deleted["said"].splitlines() == [
        "Memory deleted.",
        f"ID: {memory_id}",
        "Preview: The boat is called Aurora.",
        f"To undo, until {until:%Y-%m-%d %H:%M} UTC: restore_memory, or 'zapomni undelete' in a terminal.",
    ]
    assert await refused(GetMemoryTool(engine), memory_id=memory_id) == f"there is no memory {memory_id}"
    assert (await use(SearchMemoryTool(engine), query="Aurora"))["hits"] == []
    assert (await use(ListMemoriesTool(engine)))["memories"] == []
    restored = await use(RestoreMemoryTool(engine), memory_id=memory_id)
    assert restored["said"] == f"Memory restored.\nID: {memory_id}\nPreview: The boat is called Aurora."
    assert [hit["memory_id"] for hit in (await use(SearchMemoryTool(engine), query="Aurora"))["hits"]] == [memory_id]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (GetMemoryTool, {}),
        (UpdateMemoryTool, {"text": "new"}),
        (DeleteMemoryTool, {}),
        (DeleteMemoryTool, {"confirm": True}),
        (RestoreMemoryTool, {}),
    ],
)
async def test_an_id_that_nothing_has_is_told(engine: MemoryEngine, tool: Any, arguments: dict[str, Any]) -> None:
    assert (await refused(tool(engine), memory_id=NOBODY, **arguments)).startswith(f"there is no memory {NOBODY}")


async def test_memories_are_listed_newest_first_and_page_by_page(engine: MemoryEngine) -> None:
    ids = [await add(engine, f"Note {number}\nof many", tags=["n"], source="list") for number in range(5)]
    listing = ListMemoriesTool(engine)
    page = await use(listing, limit=2)
    seen = [page]
    while "cursor" in page:
        assert page["said"].endswith(f"\nThere are more: call again with cursor {page['cursor']}")
        page = await use(listing, limit=2, cursor=page["cursor"])
        seen.append(page)
    assert [each["memory_id"] for page in seen for each in page["memories"]] == ids[::-1]
    assert len(seen) == 3
    (row,) = page["memories"]
    assert (row["preview"], row["tags"], row["source"]) == ("Note 0\nof many", ["n"], "list")
    assert page["said"].endswith(f"; source: list; tags: n] ID: {ids[0]} Note 0 of many")
    assert await refused(listing, cursor="nonsense") == "the cursor is not one that a list returned"


async def test_lists_are_filtered_as_searches_are(engine: MemoryEngine) -> None:
    cat = await add(engine, "The cat sleeps", tags=["pets", "cat"], timestamp="2026-03-01", who={"name": "Tom"})
    dog = await add(engine, "The dog barks", tags=["pets"], source="walk", timestamp="2026-03-02")

    async def listed(**filters: Any) -> list[str]:
        found = await use(SearchMemoryTool(engine), query="the cat or the dog", **filters)
        rows = await use(ListMemoriesTool(engine), **filters)
        ids = [row["memory_id"] for row in rows["memories"]]
        assert {hit["memory_id"] for hit in found["hits"]} == set(ids)
        return ids

    assert await listed(tags=["pets"]) == [dog, cat]
    assert await listed(all_tags=["pets", "cat"]) == [cat]
    assert await listed(source="walk") == [dog]
    assert await listed(date_from="2026-03-02") == [dog]
    assert await listed(date_to="2026-03-01") == [cat]
    assert await listed(metadata={"who": {"name": "Tom"}}) == [cat]
    assert await listed(tags=["birds"]) == []
    assert (await use(ListMemoriesTool(engine), tags=["birds"]))["said"] == "No memories found."


async def test_every_memory_tool_works_in_the_workspace_that_is_named(engine: MemoryEngine) -> None:
    other = f"{engine.settings.workspace}-other"
    await engine.create_workspace(other)
    try:
        there = (await use(AddMemoryTool(engine), text="Elsewhere.", workspace=other))["memory_id"]
        where = {"memory_id": there, "workspace": other}
        for tool in (GetMemoryTool, DeleteMemoryTool):
            assert await refused(tool(engine), memory_id=there) == f"there is no memory {there}"
        await use(UpdateMemoryTool(engine), **where, text="Elsewhere, changed.")
        assert (await use(GetMemoryTool(engine), **where))["text"] == "Elsewhere, changed."
        await use(DeleteMemoryTool(engine), **where, confirm=True)
        await use(RestoreMemoryTool(engine), **where)
        rows = await use(ListMemoriesTool(engine), workspace=other)
        assert [row["memory_id"] for row in rows["memories"]] == [there]
        assert (await use(ListMemoriesTool(engine)))["memories"] == []
    finally:
        await engine.delete_workspace(other)


async def test_a_database_that_is_away_is_told_and_nothing_more() -> None:
    engine = FakeEngine(DatabaseError("connection to 10.0.0.7 refused"))
    for tool in (GetMemoryTool, DeleteMemoryTool, RestoreMemoryTool):
        words = await refused(tool(engine), memory_id="id-1")  # type: ignore[arg-type]
        assert words == "Database temporarily unavailable. Please retry in a few seconds."


def test_the_requests_of_lists_and_searches_share_their_filters() -> None:
    lists, searches = (
        {field.name for field in attrs.fields(tool.request_class) if field.inherited}
        for tool in (ListMemoriesTool, SearchMemoryTool)
    )
    assert lists == searches == {"tags", "all_tags", "source", "date_from", "date_to", "metadata"}
