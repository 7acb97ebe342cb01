"""What other programs export comes in: recognised by content, damaged or not, and the same every time."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zapomni.errors import ValidationError
from zapomni.transfer import FORMATS, Problem, Record, read, sniff

if TYPE_CHECKING:
    from pathlib import Path

AT_ANY_SPEED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def records(path: Path, name: str) -> list[Record]:
    """Return the records of a file that must be of this format and free of problems."""
    found = sniff(path)
    assert found is not None
    assert found.name == name
    items = list(read(path))
    assert [item for item in items if isinstance(item, Problem)] == []
    again = list(read(path))
    assert items == again, "reading twice must give the same keys"
    return [item for item in items if isinstance(item, Record)]


def both(path: Path, name: str | None = None) -> tuple[list[Record], list[Problem]]:
    items = list(read(path, FORMATS[name] if name else None))
    return [item for item in items if isinstance(item, Record)], [item for item in items if isinstance(item, Problem)]


# The official memory server

ALICE = '{"type":"entity","name":"Alice","entityType":"person","observations":["likes tea","born in Київ"]}'
ACME = '{"type":"entity","name":"Acme","entityType":"company","observations":[]}'
WORKS = '{"type":"relation","from":"Alice","to":"Acme","relationType":"works_at"}'


def test_an_entity_is_a_memory_with_its_observations_and_relations(tmp_path: Path) -> None:
    alice, acme = records(write(tmp_path / "memory.txt", f"{ALICE}\n{ACME}\n{WORKS}\n"), "server-memory")
    assert alice.text == "Alice (person)\n- likes tea\n- born in Київ\nAlice works_at Acme"
    assert alice.metadata == {
        "source": "server-memory",
        "entity": "Alice",
        "tags": ["person"],
        "relations": [{"relation": "works_at", "to": "Acme"}],
    }
    assert acme.text == "Acme (company)"
    assert alice.key != acme.key


def test_an_answer_of_read_graph_reads_as_the_file_does(tmp_path: Path) -> None:
    lines = write(tmp_path / "memory.json", f"{ALICE}\n{ACME}\n{WORKS}\n")
    expected = [record.text for record in records(lines, "server-memory")]
    whole = {"entities": [json.loads(ALICE), json.loads(ACME)], "relations": [json.loads(WORKS)]}
    lines.write_text(json.dumps(whole, indent=2))
    assert [record.text for record in records(lines, "server-memory")] == expected


def test_two_files_of_the_same_names_do_not_replace_each_other(tmp_path: Path) -> None:
    first, second = (records(write(tmp_path / name / "memory.json", ALICE), "server-memory") for name in "ab")
    assert first[0].key != second[0].key


@pytest.mark.parametrize(
    ("damaged", "lost"),
    [
        (f"{ALICE}{ACME}\n{WORKS}", 0),
        (f"{ALICE},\n{ACME},\n{WORKS},\n", 0),
        (f"[{ALICE}\n,{ACME}\n,{WORKS}]", 0),
        (f"{ALICE}}}\n{ACME}\n{WORKS}\n", 1),
        (f"{ALICE}\nnot json at all\n{ACME}\n{WORKS}", 1),
        (f'{ALICE}\n{ACME}\n{WORKS}\n{{"type":"entity","na', 1),
        (f'{{"type":"entity","name":"Bo{ALICE}{ACME}\n{WORKS}', 1),
        ("\ufeff" + f"{ALICE}\r\n{ACME}\r\n\r\n{WORKS}", 0),
        (f"{ALICE}\n" + "[" * 50_000 + f"\n{ACME}\n{WORKS}", 0),
        (f"{ALICE}\n" + '{"a":' * 50_000 + f"\n{ACME}\n{WORKS}", 1),
    ],
)
def test_a_damaged_file_gives_what_is_whole(damaged: str, lost: int, tmp_path: Path) -> None:
    found, problems = both(write(tmp_path / "memory.json", damaged))
    assert [record.metadata["entity"] for record in found] == ["Alice", "Acme"]
    assert found[0].metadata["relations"] == [{"relation": "works_at", "to": "Acme"}]
    assert sum(problem.lost for problem in problems) == lost


def test_a_cut_off_entity_keeps_its_whole_observations(tmp_path: Path) -> None:
    path = write(tmp_path / "memory.json", f"{ACME}\n{ALICE[: ALICE.index('Київ') + 2]}")
    found, problems = both(path)
    assert found[1].text == "Alice (person)\n- likes tea"
    assert [(problem.where, problem.lost) for problem in problems] == [("line 2", True)]


def test_entities_of_one_name_are_joined(tmp_path: Path) -> None:
    more = ALICE.replace("born in Київ", "plays chess")
    (alice,) = records(write(tmp_path / "memory.json", f"{ALICE}\n{more}\n"), "server-memory")
    assert alice.text == "Alice (person)\n- likes tea\n- born in Київ\n- plays chess"


@given(cuts=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 30)), max_size=4))
@AT_ANY_SPEED
def test_no_damage_stops_the_reading(cuts: list[tuple[int, int]], tmp_path: Path) -> None:
    text = "\n".join([ALICE, ACME, WORKS, *(ALICE.replace("Alice", name) for name in "ABC")])
    for start, length in cuts:
        text = text[:start] + text[start + length :]
    found, problems = both(write(tmp_path / "memory.json", text), "server-memory")
    untouched = {name for name in "ABC" if ALICE.replace("Alice", name) in text.split("\n")}
    assert untouched <= {record.metadata["entity"] for record in found}
    assert all(problem.where.startswith("line ") for problem in problems)


# mem0, OpenMemory, mcp-memory-service

MEM0 = {
    "id": "m1",
    "memory": "Ann prefers tea",
    "hash": "h",
    "metadata": {"topic": "drinks", "timestamp": 12},
    "categories": ["food"],
    "user_id": "ann",
    "created_at": "2025-01-02T03:04:05-08:00",
    "updated_at": None,
}


@pytest.mark.parametrize(
    "content",
    [
        [MEM0],
        {"results": [MEM0]},
        {"count": 1, "results": [MEM0]},
        json.dumps(MEM0) + "\n" + json.dumps({**MEM0, "id": 2}),
    ],
)
def test_every_shape_of_a_mem0_export_is_read(content: object, tmp_path: Path) -> None:
    first = records(write(tmp_path / "x", content), "mem0")[0]
    assert first.text == "Ann prefers tea"
    assert first.metadata == {
        "topic": "drinks",
        "source": "mem0",
        "tags": ["food"],
        "timestamp": "2025-01-02T11:04:05.000000Z",
        "origin": {"id": "m1", "user_id": "ann", "timestamp": 12},
    }


OPENMEMORY = {
    "user": {"user_id": "ann"},
    "apps": [],
    "categories": [{"id": "c1", "name": "work"}],
    "memories": [
        {"id": "1", "content": "kept", "metadata": None, "state": "active", "category_ids": ["c1"], "created_at": None},
        {"id": "2", "content": "gone", "metadata": {}, "state": "deleted", "category_ids": []},
        {"id": "3", "content": None},
        "scrap",
    ],
    "export_meta": {"version": "1"},
}


def test_openmemory_names_its_categories_and_leaves_out_what_was_deleted(tmp_path: Path) -> None:
    archive = tmp_path / "memories_export_ann.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("memories.json", json.dumps(OPENMEMORY, indent=2))
        file.writestr("memories.jsonl.gz", b"\x1f\x8b")
    found, problems = both(archive)
    assert [(record.text, record.metadata["tags"]) for record in found] == [("kept", ["work"])]
    assert [problem.where for problem in problems] == ["memories 2", "memories 3", "memories 4"]
    assert "deleted" in problems[0].reason


def test_mcp_memory_service_keeps_tags_type_and_time(tmp_path: Path) -> None:
    memory = {
        "content": "the port is 8443",
        "content_hash": "abc",
        "tags": "infra, ports",
        "created_at": 1735787045.5,
        "memory_type": "note",
        "metadata": {"source": 3},
    }
    content = {
        "export_metadata": {"source_machine": "box"},
        "memories": [memory, {**memory, "tags": ["infra", "ports"]}],
    }
    first, second = records(write(tmp_path / "export.txt", content), "mcp-memory-service")
    assert first == second
    assert first.metadata == {
        "source": "mcp-memory-service",
        "tags": ["infra", "ports"],
        "timestamp": "2025-01-02T03:04:05.500000Z",
        "origin": {"machine": "box", "content_hash": "abc", "memory_type": "note", "source": 3},
    }


# Conversations


def node(name: str, parent: str | None, role: str, *parts: object, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts), **more.pop("content", {})}
    return {
        "id": name,
        "parent": parent,
        "children": [],
        "message": {"author": {"role": role}, "content": content, **more},
    }


def conversation(**more: Any) -> dict[str, Any]:
    nodes = [
        {"id": "root", "parent": None, "children": ["s"], "message": None},
        node("s", "root", "system", "be kind"),
        node("u", "s", "user", "What is Trio?"),
        node("old", "u", "assistant", "A band."),
        node("hid", "u", "user", "instructions", metadata={"is_visually_hidden_from_conversation": True}),
        node("think", "hid", "assistant", content={"content_type": "thoughts", "thoughts": []}),
        node("call", "think", "assistant", content={"content_type": "code", "text": "search()"}, recipient="web"),
        node("tool", "call", "tool", "result"),
        node("new", "tool", "assistant", "A library\ud83d", {"content_type": "image_asset_pointer"}, recipient="all"),
        node("heard", "new", "user", {"content_type": "audio_transcription", "text": "thanks"}),
    ]
    mapping = {item["id"]: item for item in nodes}
    return {"id": "c1", "title": "Trio", "create_time": 1735787045, "mapping": mapping, "current_node": "heard", **more}


TRIO = "# Trio\n\nUser: What is Trio?\n\nAssistant: A library\ufffd\n[image]\n\nUser: thanks"


def test_a_chat_follows_the_branch_that_was_seen(tmp_path: Path) -> None:
    (record,) = records(write(tmp_path / "a.bin", [conversation()]), "chatgpt")
    assert record.text == TRIO
    assert record.metadata["title"] == "Trio"
    assert record.metadata["timestamp"] == "2025-01-02T03:04:05.000000Z"


def test_the_parts_of_an_export_are_read_from_folder_and_archive_alike(tmp_path: Path) -> None:
    names = ("conversations-000.json", "conversations-001.json")
    for number, name in enumerate(names):
        write(tmp_path / "unpacked" / name, [conversation(id=f"c{number}", title=None)])
    write(tmp_path / "unpacked" / "user.json", {})
    folder = records(tmp_path / "unpacked", "chatgpt")
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.write(tmp_path / "unpacked" / name, f"inner/{name}")
    assert records(archive, "chatgpt") == folder
    assert len({record.key for record in folder}) == 2


def test_a_chat_without_a_current_message_ends_at_its_last_leaf(tmp_path: Path) -> None:
    (record,) = records(write(tmp_path / "a", [conversation(current_node=None)]), "chatgpt")
    assert record.text == TRIO


def test_a_chat_that_runs_in_a_circle_ends(tmp_path: Path) -> None:
    looped = conversation()
    looped["mapping"]["u"]["parent"] = "heard"
    (record,) = records(write(tmp_path / "a", [looped]), "chatgpt")
    assert record.text == TRIO


def test_a_chat_that_grew_keeps_its_key(tmp_path: Path) -> None:
    (before,) = records(write(tmp_path / "a", [conversation(current_node="u")]), "chatgpt")
    (after,) = records(write(tmp_path / "a", [conversation()]), "chatgpt")
    assert before.key == after.key
    assert before.text != after.text


def test_a_cut_off_export_gives_the_conversations_before_the_cut(tmp_path: Path) -> None:
    text = json.dumps([conversation(id=str(number), title="x" * 50_000) for number in range(5)])
    found, problems = both(write(tmp_path / "a", text[: len(text) * 3 // 4]))
    assert len(found) == 3
    assert [problem.where for problem in problems] == ["entry 4"]


def test_an_empty_conversation_is_reported(tmp_path: Path) -> None:
    found, problems = both(write(tmp_path / "a", [conversation(mapping={}), 7, conversation()]))
    assert len(found) == 1
    assert [problem.where for problem in problems] == ["entry 1", "entry 2"]


def said(sender: str, text: str, **more: Any) -> dict[str, Any]:
    return {"uuid": text, "sender": sender, "text": text, "content": [{"type": "text", "text": text}], **more}


def test_a_conversation_with_claude_keeps_text_and_attachments(tmp_path: Path) -> None:
    messages = [
        said("human", "read this", attachments=[{"file_name": "a.txt", "extracted_content": "tea"}]),
        {
            **said("assistant", "done"),
            "content": [{"type": "tool_use", "name": "x"}, {"type": "text", "text": "It is tea."}],
        },
        {**said("human", "old form"), "content": [], "files": [{"file_name": "b.png"}]},
    ]
    content = [{"uuid": "c", "name": "", "created_at": "2025-01-02T03:04:05Z", "chat_messages": messages}]
    (record,) = records(write(tmp_path / "a", content), "claude")
    assert record.text == "User: read this\n[a.txt]\ntea\n\nAssistant: It is tea.\n\nUser: old form\n[b.png]"
    assert record.metadata == {"source": "claude", "timestamp": "2025-01-02T03:04:05.000000Z", "origin": {"id": "c"}}


def test_claude_s_branches_are_followed_where_the_export_has_them(tmp_path: Path) -> None:
    messages = [
        said("human", "q"),
        said("assistant", "first", parent_message_uuid="q"),
        said("assistant", "second", parent_message_uuid="q"),
    ]
    content = [{"uuid": "c", "name": "n", "chat_messages": messages, "current_leaf_message_uuid": "second"}]
    (record,) = records(write(tmp_path / "a", content), "claude")
    assert record.text == "# n\n\nUser: q\n\nAssistant: second"


# basic-memory

NOTE = """---
title: Coffee
type: note
permalink: drinks/coffee
tags:
- drinks
- 'it''s hot'
created: 2025-01-02 03:04
rating: 4.5  # of five
---

# Coffee

- [method] Pour over is clear #brewing (tested)
- [ ] a task
- [00:12] spoken
- "grows in" [[Ethiopia]] (mostly)
- relates_to [[Tea]]

See [[Water]] too.
"""


def test_a_note_keeps_its_text_and_tells_what_it_relates_to(tmp_path: Path) -> None:
    write(tmp_path / "notes" / "drinks" / "Coffee.md", NOTE)
    write(tmp_path / "notes" / ".obsidian" / "x.md", NOTE)
    write(tmp_path / "notes" / "plain.md", "just words")
    plain, coffee = records(tmp_path / "notes", "basic-memory")
    assert coffee.text == NOTE.split("---\n")[2].strip()
    assert coffee.metadata == {
        "title": "Coffee",
        "created": "2025-01-02 03:04",
        "rating": 4.5,
        "source": "basic-memory",
        "tags": ["drinks", "it's hot", "brewing"],
        "timestamp": "2025-01-02T03:04:00.000000Z",
        "relations": [
            {"relation": "grows in", "to": "Ethiopia", "context": "mostly"},
            {"relation": "relates_to", "to": "Tea"},
            {"relation": "links_to", "to": "Water"},
        ],
        "origin": {
            "type": "note",
            "permalink": "drinks/coffee",
            "path": "drinks/Coffee.md",
            "categories": ["method"],
        },
    }
    assert plain.text == "# plain\n\njust words"


def test_a_note_that_moves_keeps_its_key_by_its_permalink(tmp_path: Path) -> None:
    write(tmp_path / "a.md", NOTE)
    (before,) = records(tmp_path, "basic-memory")
    (tmp_path / "a.md").rename(tmp_path / "b.md")
    (after,) = records(tmp_path, "basic-memory")
    assert before.key == after.key


def test_front_matter_that_is_not_understood_stays_in_the_text(tmp_path: Path) -> None:
    write(tmp_path / "a.md", NOTE)
    strange = write(tmp_path / "b.md", "---\ntitle: x\n? odd\n---\nbody")
    (tmp_path / "c.md").write_bytes(b"\xff\xfe\x00")
    found, problems = both(tmp_path)
    assert strange.read_text() in found[1].text
    assert [(problem.where, problem.lost) for problem in problems] == [("b.md", False), ("c.md", True)]


# Telling formats apart


@pytest.mark.parametrize(
    "content",
    ["", "hello", "{}", "[]", "[1]", "---\n", "---\nx: 1\n---\n", '{"a": 1}', "{", '[{"role": "user"}]', "null"],
)
def test_what_is_none_of_the_formats_is_not_claimed(content: str, tmp_path: Path) -> None:
    path = write(tmp_path / "memory.jsonl", content)
    assert sniff(path) is None
    with pytest.raises(ValidationError, match="server-memory"):
        read(path)


def test_an_empty_folder_is_none_of_the_formats(tmp_path: Path) -> None:
    assert sniff(tmp_path) is None


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "none" / "x"):
        with pytest.raises(OSError, match="none"):
            sniff(path)


def test_a_file_of_another_encoding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(json.dumps([MEM0], ensure_ascii=False).encode("utf-16"))
    assert records(path, "mem0")[0].text == "Ann prefers tea"


def test_a_damaged_or_locked_archive_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("conversations.json", json.dumps([conversation(title=str(number)) for number in range(200)]))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    items = list(read(path, FORMATS["chatgpt"]))
    assert isinstance(items[-1], Problem)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("conversations.json", "[]")
    locked = bytearray(path.read_bytes())
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(locked)
    assert [item.reason for item in read(path, FORMATS["chatgpt"]) if isinstance(item, Problem)] == ["it is encrypted"]


@given(value=st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
@AT_ANY_SPEED
def test_no_json_makes_any_reader_raise(value: object, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(tmp_path_factory.mktemp("x") / "a", value)
    for format in FORMATS.values():
        for item in read(path, format):
            assert isinstance(item, Record | Problem)
