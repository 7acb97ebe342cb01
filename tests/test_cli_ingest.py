"""Files become memories: once each, replaced when they change, and nothing twice however often it is interrupted."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from zapomni.cli import main
from zapomni.cli.files import Document, documents, passed_over
from zapomni.cli.ingest import PAGE
from zapomni.cli.output import Console
from zapomni.cli.tally import Tally, show
from zapomni.cli.walk import Found, Skipped
from zapomni.engine import open_engine
from zapomni.models import MAX_TEXT_LENGTH
from zapomni.transfer import Record, jsonl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zapomni.config import Settings
    from zapomni.models import Memory, MemorySummary


@pytest.fixture(autouse=True)
def own_workspace(store_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A workspace of the test's own, which the command finds in its environment."""
    name = f"test-{uuid.uuid4().hex}"
    monkeypatch.setenv("ZAPOMNI_DATA_DIR", str(store_settings.data_dir))
    monkeypatch.setenv("ZAPOMNI_STORE_LINGER", str(store_settings.store_linger))
    monkeypatch.setenv("ZAPOMNI_WORKSPACE", name)
    yield name
    assert main(["workspace", "delete", name, "--yes"]) == 0


def ingest(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["ingest", "--json", *map(str, arguments)]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def memories(settings: Settings, workspace: str) -> list[MemorySummary]:
    async def read() -> list[MemorySummary]:
        found: list[MemorySummary] = []
        with trio.fail_after(60):
            async with open_engine(attrs.evolve(settings, workspace=workspace)) as engine:
                cursor = None
                while True:
                    page = await engine.list_memories(limit=PAGE, cursor=cursor)
                    found += page.memories
                    if (cursor := page.cursor) is None:
                        return found

    return trio.run(read)


def whole(settings: Settings, workspace: str, memory_id: str) -> Memory:
    async def read() -> Memory:
        with trio.fail_after(60):
            async with open_engine(attrs.evolve(settings, workspace=workspace)) as engine:
                return await engine.get_memory(memory_id)

    return trio.run(read)


def make(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8", newline="")


def test_a_file_is_remembered_to_the_letter_with_where_it_came_from(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# Ключ\r\n\tлежит у Нади — 三階\n\n"
    make(tmp_path, {"notes/key.md": text})
    os.utime(tmp_path / "notes/key.md", (1_700_000_000, 1_700_000_000))
    answer = ingest(capsys, tmp_path)
    assert (answer["added"], answer["complete"]) == (1, True)
    (found,) = memories(store_settings, own_workspace)
    memory = whole(store_settings, own_workspace, found.id)
    path = str((tmp_path / "notes/key.md").resolve())
    assert memory.text == text
    assert memory.metadata["source"] == memory.metadata["origin"]["path"] == path
    assert memory.metadata["language"] == "markdown"
    assert memory.metadata["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_what_is_unchanged_is_skipped_and_what_is_changed_replaced(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, {"a.txt": "one", "b.txt": "two", "c.txt": "one"})
    first = ingest(capsys, tmp_path)
    assert (first["added"], first["changed"], first["unchanged"]) == (3, 0, 0), "equal texts are different files"
    make(tmp_path, {"a.txt": "three"})
    os.utime(tmp_path / "b.txt", (1, 1))
    again = ingest(capsys, tmp_path)
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 1, 2)
    assert sorted((m.preview, m.version) for m in memories(store_settings, own_workspace)) == [
        ("one", 1),
        ("three", 2),
        ("two", 1),
    ]


def test_a_dry_run_tells_the_same_and_writes_nothing(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, {"a.txt": "one", "b.txt": "two"})
    ingest(capsys, tmp_path / "a.txt")
    make(tmp_path, {"a.txt": "three"})
    dry = ingest(capsys, "--dry-run", tmp_path)
    assert (dry["added"], dry["changed"], dry["unchanged"], dry["passages"]) == (1, 1, 0, 0)
    assert [memory.preview for memory in memories(store_settings, own_workspace)] == ["one"]


def test_what_is_gone_is_told_and_forgotten_only_when_asked_for(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, {"in/a.txt": "one", "in/b.txt": "two", "beside.txt": "three"})
    ingest(capsys, tmp_path)
    (tmp_path / "in/a.txt").unlink()
    (tmp_path / "beside.txt").unlink()
    told = ingest(capsys, tmp_path / "in")
    assert (told["gone"], told["pruned"]) == ([str((tmp_path / "in/a.txt").resolve())], 0)
    dry = ingest(capsys, "--prune", "--dry-run", tmp_path / "in")
    assert (len(dry["gone"]), dry["pruned"], len(memories(store_settings, own_workspace))) == (1, 0, 3)
    assert ingest(capsys, "--prune", tmp_path / "in")["pruned"] == 1
    left = sorted(memory.preview for memory in memories(store_settings, own_workspace))
    assert left == ["three", "two"], "what is not below the folder is not its affair"


def test_a_folder_without_any_file_is_not_taken_for_deleted_files(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, {"disk/a.txt": "one"})
    ingest(capsys, tmp_path)
    (tmp_path / "disk/a.txt").unlink()
    assert main(["ingest", "--prune", str(tmp_path / "disk")]) == 1
    assert "nothing is forgotten, in case a disk is missing" in capsys.readouterr().err
    assert len(memories(store_settings, own_workspace)) == 1


def test_a_folder_that_cannot_be_read_is_not_taken_for_deleted(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, {"closed/a.txt": "one", "open.txt": "two"})
    ingest(capsys, tmp_path)
    (tmp_path / "closed" / ".gitignore").symlink_to(".gitignore")  # which even root cannot read
    answer = ingest(capsys, "--prune", tmp_path, code=1)
    assert (answer["gone"], answer["pruned"], answer["unchanged"]) == ([], 0, 1)
    assert [item["path"] for item in answer["skipped"]] == [str((tmp_path / "closed").resolve())]
    assert len(memories(store_settings, own_workspace)) == 2


def test_each_line_of_jsonl_is_a_memory_and_a_broken_one_is_told(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['{"text": "one", "metadata": {"tags": ["x"]}}', "{broken", '{"content": "two", "id": 7}', "[]", ""]
    make(tmp_path, {"a.jsonl": "\n".join(lines)})
    first = ingest(capsys, tmp_path, code=1)
    assert [item["reason"] for item in first["skipped"]] == [
        "line 2 was passed over: it is no JSON",
        "line 4 was passed over: it is no object",
    ]
    make(tmp_path, {"a.jsonl": '{"text": "zero"}\n' + lines[0] + '\n{"content": "three", "id": 7}\n'})
    again = ingest(capsys, "--prune", tmp_path)
    assert (again["added"], again["changed"], again["unchanged"], again["pruned"]) == (1, 1, 1, 0)
    found = memories(store_settings, own_workspace)
    assert sorted(memory.preview for memory in found) == ["one", "three", "zero"]
    assert [memory.metadata.get("tags") for memory in found if memory.preview == "one"] == [["x"]]


def test_what_filters_know_may_stand_beside_the_metadata_of_a_line(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = {"tags": ["x", "y"], "source": "diary", "timestamp": "2026-05-01T09:30:00+02:00", "language": "en"}
    line = {"text": "one", **beside, "metadata": {"mood": "calm", "tags": ["x", "y"]}}
    make(tmp_path, {"a.jsonl": json.dumps(line)})
    assert ingest(capsys, tmp_path)["added"] == 1
    (found,) = memories(store_settings, own_workspace)
    kept = whole(store_settings, own_workspace, found.id).metadata
    assert {name: kept[name] for name in (*beside, "mood")} == {**beside, "mood": "calm"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            {"text": "x", "extra": 2, "also": 3},
            'it has a field that is not known: also, extra; what is to be kept belongs into "metadata"',
        ),
        ({"text": "x", "content": "y"}, 'it has both a "text" and a "content"'),
        ({"text": "x", "tags": ["a"], "metadata": {"tags": ["b"]}}, 'it has another "tags" beside its "metadata"'),
        ({"text": "x", "metadata": {"origin": "z"}}, 'its "metadata" has the name "origin"'),
        ({"text": "x", "timestamp": "soon"}, "metadata.timestamp must be an ISO 8601 date or time"),
        ({"text": " "}, 'it has no "text" that can be remembered'),
    ],
)
def test_a_line_that_would_lose_something_is_told_and_fails(
    line: dict[str, Any],
    reason: str,
    tmp_path: Path,
    store_settings: Settings,
    own_workspace: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make(tmp_path, {"a.jsonl": f'{{"text": "good"}}\n{json.dumps(line)}\n'})
    answer = ingest(capsys, tmp_path, code=1)
    assert (answer["added"], answer["complete"]) == (1, True)
    (skipped,) = answer["skipped"]
    assert skipped["reason"].startswith(f"line 2 was passed over: {reason}")
    assert [memory.preview for memory in memories(store_settings, own_workspace)] == ["good"]


def test_a_line_that_cannot_be_read_is_not_taken_for_deleted(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, {"a.jsonl": '{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n'})
    ingest(capsys, tmp_path)
    make(tmp_path, {"a.jsonl": '{"id": 1, "text": "one"}\n{"id": 2, "text": "two\n'})
    answer = ingest(capsys, "--prune", tmp_path, code=1)
    assert (answer["gone"], answer["pruned"], answer["unchanged"]) == ([], 0, 1)
    assert len(memories(store_settings, own_workspace)) == 2


def test_what_was_skipped_is_told_in_the_order_of_names(capsys: pytest.CaptureFixture[str]) -> None:
    items = [
        Skipped(Path(name), reason) for name, reason in (("b/c", "is a link"), ("b", "is empty"), ("a", "is empty"))
    ]
    for skipped in (items, items[::-1]):
        show(Tally(skipped=list(skipped), complete=True), Console(), prune=False)
        assert capsys.readouterr().out.endswith("Skipped 2, is empty: a, b\nSkipped 1, is a link: b/c\n")
        show(Tally(skipped=list(skipped), complete=True), Console(json=True), prune=False)
        assert [item["path"] for item in json.loads(capsys.readouterr().out)["skipped"]] == ["a", "b", "b/c"]


def test_a_file_of_nothing_but_broken_lines_does_not_fill_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = [passed_over(Path("a"), number, "it is no JSON") for number in range(1, 1001)]
    show(Tally(skipped=skipped, complete=True), Console(), prune=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Skipped 1, line 1 was passed over: it is no JSON: a"
    assert lines[21:] == ["and 980 more; --json tells all"]


@pytest.mark.parametrize(
    ("prune", "dry_run", "told"),
    [
        (False, False, "--prune forgets them"),
        (False, True, "--prune forgets them"),
        (True, True, "would be forgotten"),
        (True, False, "forgot 1"),
    ],
)
def test_what_is_gone_is_told_with_what_becomes_of_it(
    prune: bool, dry_run: bool, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show(Tally(dry_run=dry_run, gone=["a"], pruned=1, complete=True), Console(), prune=prune)
    assert capsys.readouterr().out.endswith(f"No longer there 1: a; {told}\n")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "is not text"),
        ("текст".encode("cp1251"), "is not UTF-8 text"),
        (b"x" * 9000 + b"\0", "is not text"),
        (b" \n\t", "is empty"),
        (b"", "is empty"),
        (b"x" * (MAX_TEXT_LENGTH + 1), "is longer than 10,000,000 characters"),
    ],
)
def test_what_cannot_be_a_memory_is_told(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert list(documents(Found(path, len(content), 0.0))) == [Skipped(path, reason)]


def test_an_export_is_left_to_import(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_bytes(jsonl.HEADER + jsonl.encode(Record(text="one")))
    assert list(documents(Found(path, 0, 0.0))) == [Skipped(path, "is an export, which 'zapomni import' takes in")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_with_a_mark_is_read_by_it(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("запомни\r\n".encode(encoding))
    (document,) = documents(Found(path, 0, 0.0))
    assert isinstance(document, Document)
    assert document.text == "запомни\r\n"


def test_a_name_that_is_no_text_is_remembered_all_the_same(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt"), "w") as file:
        file.write("one")
    assert ingest(capsys, tmp_path)["added"] == 1
    assert ingest(capsys, tmp_path)["unchanged"] == 1
    (memory,) = memories(store_settings, own_workspace)
    assert memory.metadata["source"].endswith("/caf\ufffd.txt")


def test_a_path_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", str(tmp_path / "nowhere")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"zapomni: {tmp_path / 'nowhere'}: No such file or directory\n"


def test_a_person_reads_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path, {"a.txt": "one", "b": ""})
    assert main(["ingest", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Remembered 1 new, 0 changed; 0 unchanged, 1 passage in ")
    assert f"Skipped 1, is empty: {(tmp_path / 'b').resolve()}\n" in shown


def test_the_time_that_is_given_is_kept_and_the_rest_comes_later(
    tmp_path: Path, store_settings: Settings, own_workspace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, {f"{number}.txt": f"note {number}" for number in range(5)})
    answer = ingest(capsys, "--timeout", "0.000001", tmp_path, code=1)
    assert (answer["complete"], answer["gone"]) == (False, [])
    assert ingest(capsys, "--timeout", "60", "--jobs", "1", tmp_path)["complete"]
    assert len(memories(store_settings, own_workspace)) == 5


def interrupt_and_finish(files: int, rounds: int, root: Path, settings: Settings, workspace: str, seed: int) -> None:
    """Interrupt real processes at random, go on each time, and look at what is there at the end."""
    chance = random.Random(seed)
    make(root, {f"{number % 7}/{number}.txt": f"note {number}: {'word ' * (number % 50)}" for number in range(files)})
    command = [sys.executable, "-m", "zapomni", "ingest", "--json", str(root)]
    interrupted = 0
    while interrupted < rounds:
        aim = len(memories(settings, workspace)) + chance.randrange(1, files // (rounds + 1))
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            until = time.monotonic() + 60
            while len(memories(settings, workspace)) < aim:
                assert child.poll() is None, "it ended before it could be interrupted"
                assert time.monotonic() < until
                time.sleep(chance.random() / 20)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=30)
        finally:
            child.kill()
            child.wait()
        assert child.returncode == 130, err
        assert b"Traceback" not in err
        answer = json.loads(out)
        assert not answer["complete"]
        assert answer["added"] >= 1
        interrupted += 1
    done = len(memories(settings, workspace))
    assert done < files
    last = subprocess.run(command, capture_output=True, timeout=300, check=True)
    answer = json.loads(last.stdout)
    assert (answer["complete"], answer["unchanged"], answer["added"]) == (True, done, files - done)
    found = memories(settings, workspace)
    assert len(found) == len({memory.metadata["source"] for memory in found}) == files
    assert {memory.version for memory in found} == {1}


def test_a_folder_interrupted_three_times_ends_complete_with_nothing_twice(
    tmp_path: Path, store_settings: Settings, own_workspace: str
) -> None:
    interrupt_and_finish(160, 3, tmp_path, store_settings, own_workspace, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_thousand_files_interrupted_three_times_end_complete(
    tmp_path: Path, store_settings: Settings, own_workspace: str, seed: int
) -> None:
    interrupt_and_finish(1000, 3, tmp_path, store_settings, own_workspace, seed)
