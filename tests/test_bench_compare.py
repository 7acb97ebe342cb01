"""The comparison with other memory servers: that its questions tell notes apart, and what it says of a server."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import psutil
import pytest

from bench import adapters, compare, peers
from tests.fakes import FakeEngine
from zapomni.tools import AddMemoryTool, SearchMemoryTool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OURS = adapters.ADAPTERS[0]
NOTES = [adapters.Note.make(number) for number in range(1, 4)]

# A server with two tools that keeps what it is told in a file, or only in its head, or says that searching failed.
TINY = """
import json, pathlib, sys
way, file, held = sys.argv[1], pathlib.Path("notes"), []
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    params, result = message["params"], {}
    if message["method"] == "tools/list":
        schema = {"properties": {"text": {}}}
        result = {"tools": [{"name": name, "inputSchema": schema} for name in ("add", "search")]}
    if message["method"] == "tools/call":
        text = params["arguments"]["text"]
        if params["name"] == "add":
            held.append(text)
            if way == "file":
                with file.open("a") as out:
                    out.write(json.dumps(text) + chr(10))
        if way == "file" and file.exists():
            held = [json.loads(line) for line in file.read_text().splitlines()]
        found = "Search failed: no model" if way == "broken" else next((one for one in held if text in one), "nothing")
        result = {"content": [{"type": "text", "text": found if params["name"] == "search" else "done"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PATIENCE", 0.0)


def tiny(way: str) -> adapters.Adapter:
    return adapters.Adapter(
        name=way,
        command=(sys.executable, "-c", TINY, way),
        add=("add",),
        search=("search",),
        to_add=lambda note: {"text": note.text},
        to_search=lambda question: {"text": question},
        environment=lambda folder: {},
    )


@contextmanager
def asleep(folder: Path, *words: str) -> Iterator[int]:
    """A process that works in a folder."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_no_note_is_taken_for_another() -> None:
    notes = [adapters.Note.make(number) for number in range(1, 301)]
    for note in notes:
        assert note.answer in note.title
        assert [other for other in notes if note.answer in other.text + other.title] == [note]


def test_the_processes_of_a_folder_are_those_that_work_there_or_were_told_of_it(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    with asleep(home) as inside, asleep(elsewhere, str(home)) as told, asleep(elsewhere):
        assert [process.pid for process in peers.inhabitants(home)] == [inside]
        assert {process.pid for process in peers.belongings(home)} == {inside, told}
        assert peers.resident_megabytes(peers.inhabitants(home)) > 1


def test_what_a_server_has_written_is_kept_and_what_it_only_remembers_is_not() -> None:
    assert compare.found_again(tiny("file"), NOTES, 30, killed=True) == 1
    assert compare.found_again(tiny("head"), NOTES, 30, killed=True) == 0


def test_a_server_that_finds_nothing_after_any_restart_is_not_said_to_lose_notes_by_a_kill() -> None:
    row = compare.row_of(tiny("head"), NOTES, 30)
    assert row["found"] == 1
    assert row["state"] == "failed: finds nothing after a restart, and says: nothing"
    assert "after kill -9" not in row


def test_a_failure_that_is_told_as_an_answer_is_a_failure() -> None:
    row = compare.row_of(attrs.evolve(tiny("broken"), remark="a remark"), NOTES, 30)
    assert row["state"] == "failed: does not find the only note, and says: Search failed: no model (a remark)"
    assert "found" not in row


def test_a_server_that_is_not_installed_is_named() -> None:
    absent = attrs.evolve(OURS, name="absent", command=("no-such-command",))
    assert compare.row_of(absent, NOTES, 30) == {"server": "absent", "state": "not installed"}


def test_a_server_that_takes_too_long_is_told_from_one_that_ended() -> None:
    slow = attrs.evolve(OURS, command=(sys.executable, "-c", "import time; time.sleep(600)"))
    assert compare.row_of(slow, NOTES, 0.5)["state"] == "failed: the server ended, for it took more than 0.5 s"
    short = attrs.evolve(OURS, command=(sys.executable, "-c", ""))
    assert compare.row_of(short, NOTES, 30)["state"].startswith("failed: ")
    assert "took more" not in compare.row_of(short, NOTES, 30)["state"]


def test_a_note_that_is_missing_is_told(tmp_path: Path) -> None:
    with compare.open_server(tiny("file"), tmp_path, 30) as server:
        server.add(NOTES[0])
        assert compare.missing_of(NOTES, server) == NOTES[1:]


def test_our_own_notes_outlive_a_kill() -> None:
    row = compare.row_of(OURS, NOTES, 60)
    assert row["state"] == "measured"
    assert row["found"] == row["after restart"] == row["after kill -9"] == 1


@pytest.mark.parametrize("adapter", adapters.ADAPTERS, ids=lambda adapter: adapter.name)
def test_an_adapter_hands_over_the_note_and_the_question_and_stays_in_its_folder(
    adapter: adapters.Adapter, tmp_path: Path
) -> None:
    note = adapters.Note.make(5)
    assert note.text in json.dumps(adapter.to_add(note), ensure_ascii=False).replace("\\n", "\n")
    assert note.question in adapter.to_search(note.question).values()
    assert str(tmp_path) in " ".join(adapter.environment(tmp_path).values())
    assert adapter.command
    assert adapter.add
    assert adapter.search


def test_our_own_adapter_knows_our_tools() -> None:
    engine: Any = FakeEngine()
    tools = AddMemoryTool(engine), SearchMemoryTool(engine)
    offered = [{"name": tool.name, "inputSchema": tool.input_schema} for tool in tools]
    add, search = compare.Tool.choose(offered, OURS.add), compare.Tool.choose(offered, OURS.search)
    assert set(OURS.to_add(adapters.Note.make(1))) <= add.arguments
    assert set(OURS.to_search("a question")) <= search.arguments


def test_the_first_name_that_is_offered_is_the_tool() -> None:
    offered = [{"name": "old", "inputSchema": {"properties": {"text": {}}}}, {"name": "other", "inputSchema": {}}]
    assert compare.Tool.choose(offered, ["new", "old"]) == compare.Tool("old", frozenset({"text"}))
    with pytest.raises(RuntimeError, match="offers none of new"):
        compare.Tool.choose(offered, ["new"])


def test_the_work_is_done_by_a_real_server() -> None:
    figures = compare.measure(OURS, [adapters.Note.make(number) for number in range(3)], limit=60)
    assert figures["found"] == 1
    assert figures["RSS MB"] > 1


def test_a_server_that_never_answers_is_ended() -> None:
    silent = attrs.evolve(OURS, command=(sys.executable, "-c", "import time; time.sleep(600)"))
    with pytest.raises(RuntimeError, match="the server ended"):
        compare.measure(silent, [adapters.Note.make(1)], limit=0.2)
    assert not [child for child in psutil.Process().children() if "time.sleep(600)" in child.cmdline()]


def test_notes_differ_in_what_is_asked_for() -> None:
    notes = [adapters.Note.make(number) for number in range(1000)]
    assert len({note.answer for note in notes}) == len(notes)
    assert all(note.text.startswith(f"{note.question} {note.answer}") for note in notes)
    assert not any(note.answer in note.question for note in notes)
