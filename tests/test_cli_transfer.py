"""Out and in again: the same bytes, nothing twice, nothing overwritten, and a word for what could not be read."""

from __future__ import annotations

import argparse
import json
import os
import signal
import stat
import subprocess
import sys
import uuid
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zapomni.cli import main
from zapomni.cli.target import write_file, write_folder
from zapomni.cli.transfer import Intake
from zapomni.engine import open_engine
from zapomni.engine.transfer import Imported, Outcome
from zapomni.errors import DatabaseError, ValidationError
from zapomni.transfer import FORMATS, Record, Version, jsonl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine

FEW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(str.strip)
METADATA = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
        lambda name: name not in ("tags", "source", "timestamp")
    ),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**30), 10**30)
        | st.floats(allow_nan=False, allow_infinity=False)
        | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=3,
)
DEEP: dict[str, Any] = {"level": 0}
for number in range(1, 49):
    DEEP = {"level": number, "below": [DEEP]}
ODD = [
    "\0 \x1a0 \x1a",
    "a\r\nb\u2028c\x85",
    "\ufeff\u202e عربى 👩‍👩‍👧 \U0010ffff",
    "---\nzapomni: 1\n---\n",
    '"\\{}"',
    "\n x \n",
]


@asynccontextmanager
async def open_workspaces(settings: Settings, count: int) -> AsyncIterator[tuple[MemoryEngine, list[str]]]:
    """Open an engine with some empty workspaces."""
    names = [f"test-{uuid.uuid4().hex}" for _ in range(count)]
    with trio.fail_after(120):
        async with open_engine(settings) as engine:
            for name in names:
                await engine.create_workspace(name)
            try:
                yield engine, names
            finally:
                for name in names:
                    await engine.delete_workspace(name)


async def exported(engine: MemoryEngine, workspace: str) -> list[Record]:
    return [attrs.evolve(record, workspace=None) async for record in engine.export_memories(workspace=workspace)]


def lines(records: list[Record]) -> bytes:
    return b"".join(map(jsonl.encode, records))


async def bring_in(engine: MemoryEngine, records: list[Record], workspace: str) -> list[str]:
    return [(await engine.import_memory(record, workspace=workspace)).outcome.value for record in records]


async def fill(engine: MemoryEngine, workspace: str) -> None:
    """Store what is hard to bring over: history, keys, and texts that several memories have."""
    for text in ODD:
        await engine.add_memory(text, {"text": text, "deep": DEEP}, workspace=workspace)
    first = await engine.add_memory("one", {"b": 1, "a": 1.0}, workspace=workspace)
    await engine.add_memory("two", {"tags": ["x", "y"], "source": "s"}, workspace=workspace, key="k")
    await engine.update_memory(first.memory_id, text="two", workspace=workspace)
    await engine.update_memory(first.memory_id, metadata={"b": True, "a": 1}, workspace=workspace)
    await engine.update_memory(first.memory_id, metadata={"a": 1, "b": True}, workspace=workspace)
    await engine.add_memory("three", {"tags": ["x"], "source": "s"}, workspace=workspace, key="k")
    await engine.add_memory("four", {}, workspace=workspace)
    second = await engine.add_memory("five", {}, workspace=workspace)
    await engine.update_memory(second.memory_id, text="four", workspace=workspace)
    deleted = await engine.add_memory("deleted", {}, workspace=workspace)
    await engine.delete_memory(deleted.memory_id, workspace=workspace)


async def test_an_export_comes_back_to_the_byte(store_settings: Settings) -> None:
    async with open_workspaces(store_settings, 2) as (engine, (there, here)):
        await fill(engine, there)
        before = await exported(engine, there)
        assert len(before) == len(ODD) + 4
        assert max(len(record.history) for record in before) == 3
        assert set(await bring_in(engine, before, here)) == {"added"}
        assert lines(await exported(engine, here)) == lines(before)
        assert set(await bring_in(engine, before, here)) == {"unchanged"}
        assert lines(await exported(engine, here)) == lines(before)
        found = await engine.search_memory("three", workspace=here)
        assert {hit.text for hit in found.hits} >= {"three"}


@FEW
@given(st.lists(st.tuples(TEXTS, METADATA, st.none() | TEXTS), min_size=1, max_size=6))
def test_whatever_is_stored_comes_back_to_the_byte(
    store_settings: Settings, memories: list[tuple[str, dict[str, Any], str | None]]
) -> None:
    async def round_trip() -> None:
        async with open_workspaces(store_settings, 2) as (engine, (there, here)):
            for text, metadata, key in memories:
                await engine.add_memory(text, metadata, key=key, workspace=there)
            before = await exported(engine, there)
            await bring_in(engine, before, here)
            assert lines(await exported(engine, here)) == lines(before)

    trio.run(round_trip)


async def test_an_import_that_stopped_between_two_versions_goes_on(store_settings: Settings) -> None:
    async with open_workspaces(store_settings, 2) as (engine, (there, here)):
        await fill(engine, there)
        (record,) = [record for record in await exported(engine, there) if record.version == 4]
        half = attrs.evolve(
            record, text=record.history[1].text, metadata=record.history[1].metadata, history=record.history[:1]
        )
        half = attrs.evolve(half, updated_at=record.history[1].created_at, version=2)
        assert await bring_in(engine, [half, record, record], here) == ["added", "updated", "unchanged"]
        assert lines(await exported(engine, here)) == lines([record])


async def test_what_is_deleted_or_changed_during_an_export_is_left_out_or_whole(store_settings: Settings) -> None:
    async with open_workspaces(store_settings, 1) as (engine, (here,)):
        ids = [(await engine.add_memory(f"note {number}", workspace=here)).memory_id for number in range(20)]
        records = engine.export_memories(workspace=here)
        async with aclosing(records):
            found = [await anext(records)]
            await engine.delete_memory(ids[-1], workspace=here)
            await engine.update_memory(ids[-2], text="changed", workspace=here)
            await engine.add_memory("too late", workspace=here)
            found += [record async for record in records]
        assert [record.id for record in found] == ids[:-1]
        assert (found[-1].text, found[-1].version, len(found[-1].history)) == ("changed", 2, 1)


async def test_what_was_changed_or_deleted_here_stays_as_it_is(store_settings: Settings) -> None:
    async with open_workspaces(store_settings, 2) as (engine, (there, here)):
        for text in ("one", "two", "three"):
            await engine.add_memory(text, {}, key="k" if text == "three" else None, workspace=there)
        one, two, three = before = await exported(engine, there)
        assert one.id is not None
        assert two.id is not None
        await bring_in(engine, [one, two], here)
        await engine.update_memory(one.id, text="changed", workspace=here)
        await engine.delete_memory(two.id, workspace=here)
        mine = await engine.add_memory("mine", {}, key="k", workspace=here)
        results = [await engine.import_memory(record, workspace=here) for record in before]
        assert results == [
            Imported(Outcome.REFUSED, one.id, "it was changed here, and stays as it is here"),
            Imported(Outcome.REFUSED, two.id, "it was deleted here, and can be restored"),
            Imported(Outcome.REFUSED, mine.memory_id, f"its key belongs to another memory here, {mine.memory_id}"),
        ]
        assert [record.text for record in await exported(engine, here)] == ["changed", "mine"]
        assert three.key == "k"


async def test_what_comes_from_elsewhere_replaces_its_earlier_self(store_settings: Settings) -> None:
    async with open_workspaces(store_settings, 1) as (engine, (here,)):
        plain, keyed = Record(text="plain"), Record(text="one", key="chat:1")
        grown = attrs.evolve(keyed, text="one and two")
        assert await bring_in(engine, [plain, plain, keyed, keyed], here) == [
            "added",
            "unchanged",
            "added",
            "unchanged",
        ]
        dry = await engine.import_memory(grown, workspace=here, dry_run=True)
        assert dry.outcome is Outcome.UPDATED
        assert await bring_in(engine, [grown, grown], here) == ["updated", "unchanged"]
        assert [record.version for record in await exported(engine, here)] == [1, 2]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (Record(text="x", id="7"), "a memory's id is a UUID, not '7'"),
        (Record(text="x", metadata={"tags": 5}), "metadata.tags must be an array of strings"),
        (Record(text="x", key="k" * 513), "key must have 1 to 512 characters"),
        (Record(text="x", id=str(uuid.uuid4()), history=(Version(version=1, text=" "),)), "text cannot be empty"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
async def test_what_cannot_be_kept_is_refused_by_a_dry_run_as_well(
    store_settings: Settings, record: Record, words: str, dry_run: bool
) -> None:
    async with open_workspaces(store_settings, 1) as (engine, (here,)):
        with pytest.raises(ValidationError, match=words):
            await engine.import_memory(record, workspace=here, dry_run=dry_run)
        assert await exported(engine, here) == []


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of the test's own, since an export takes all workspaces of one."""
    monkeypatch.setenv("ZAPOMNI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ZAPOMNI_STORE_LINGER", "2")
    return tmp_path / "data"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "zapomni", *arguments]


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*arguments), capture_output=True, timeout=60, check=False, **options)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_all_workspaces_go_through_a_pipe_and_come_back_to_the_byte(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["add", "at home"]) == 0
    assert main(["workspace", "create", "work"]) == 0
    assert main(["add", "--workspace", "work", "at work"]) == 0
    sent = run("export", "-")
    assert sent.stderr == b"Wrote 2 memories of 2 workspaces\n"
    monkeypatch.setenv("ZAPOMNI_DATA_DIR", str(tmp_path / "other"))
    dry = run("import", "--dry-run", "-", input=sent.stdout)
    assert dry.stdout == b"Would import from Zapomni's own JSON Lines: 2 added\n"
    assert run("import", "-", input=sent.stdout).stdout == b"Imported from Zapomni's own JSON Lines: 2 added\n"
    again = run("export", "-")
    assert again.stdout == sent.stdout
    assert answer(capsys, "export", str(tmp_path / "file"), "--workspace", "work")["memories"] == {"work": 1}
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert b"at work" in (tmp_path / "file").read_bytes()
    notes = answer(capsys, "export", str(tmp_path / "notes"), "--format", "markdown")
    assert sum(notes["memories"].values()) == 2
    assert answer(capsys, "import", str(tmp_path / "notes"))["unchanged"] == 2
    assert stat.S_IMODE(next((tmp_path / "notes" / "work").iterdir()).stat().st_mode) == 0o600


def test_a_broken_line_is_told_and_the_rest_comes_in(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [jsonl.encode(Record(text=text, id=str(uuid.uuid4()))) for text in ("one", "two")]
    file = tmp_path / "file.jsonl"
    file.write_bytes(jsonl.HEADER + good[0] + b'{"text": "cut\n' + good[1] + good[1])
    counts = {"added": 2, "updated": 0, "unchanged": 1, "refused": 0}
    for flags in (["--dry-run"], []):
        told = answer(capsys, "import", str(file), *flags, code=1)
        assert (told["format"], told["complete"]) == ("zapomni.jsonl", True)
        assert {name: told[name] for name in counts} == counts
        assert [problem["where"] for problem in told["problems"]] == ["line 3"]
    assert main(["import", str(file)]) == 1
    shown = capsys.readouterr().out
    assert "0 added, 3 unchanged\n  line 3: it is not valid JSON: " in shown


async def test_a_dry_run_keeps_no_text(store_settings: Settings) -> None:
    async with open_workspaces(store_settings, 1) as (engine, (here,)):
        intake = Intake(engine, FORMATS["zapomni.jsonl"], argparse.Namespace(workspace=here, dry_run=True))
        for text in ("x" * 100_000, "y" * 100_000, "x" * 100_000):
            await intake._take(Record(text=text))
        assert intake.counts == {"added": 2, "unchanged": 1}
        assert len(repr(intake._seen)) < 1000


def test_a_foreign_file_is_recognised_and_comes_in_once(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "memory.json"
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea"]}
    file.write_text(json.dumps(entity) + "\n")
    assert answer(capsys, "import", str(file))["added"] == 1
    assert answer(capsys, "import", str(file))["unchanged"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["import", "{}/nowhere"], 1, "{}/nowhere: No such file or directory"),
        (["import", "{}/text"], 2, "{}/text is in none of the formats that can be imported: zapomni.jsonl, "),
        (["export", "{}/no/where"], 1, "{}/no/where cannot be written: No such file or directory"),
        (["export", "{}"], 1, "{} cannot be written: it is a folder"),
        (["export", "{}", "--format", "markdown"], 1, "{} cannot be written: it is there already; name a new folder"),
        (["export", "-", "--format", "markdown"], 2, "standard output takes JSON Lines, and nothing beside them"),
        (["export", "{}/new", "--workspace", "nowhere"], 3, "there is no workspace 'nowhere'"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], code: int, words: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("plain")
    assert main([argument.format(tmp_path) for argument in arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("zapomni: " + words.format(tmp_path))
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_an_export_follows_a_link(data: Path, tmp_path: Path) -> None:
    assert main(["add", "linked"]) == 0
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to("file")
    for flags in ([], ["--force"]):  # what it names is not there yet, and then it is
        assert main(["export", str(link), *flags]) == 0
        assert link.is_symlink()
        assert b"linked" in file.read_bytes()
        file.write_text("before")
    (tmp_path / "notes").mkdir()
    (tmp_path / "folder").symlink_to("notes")
    assert main(["export", "--format", "markdown", str(tmp_path / "folder")]) == 0
    assert (tmp_path / "folder").is_symlink()
    assert list((tmp_path / "notes").iterdir())
    (tmp_path / "circle").symlink_to("circle")
    assert main(["export", str(tmp_path / "circle")]) == 1
    assert (tmp_path / "circle").is_symlink()


def test_an_export_replaces_a_file_only_when_it_is_told_to(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["add", "new"]) == 0
    precious, link = tmp_path / "precious.jsonl", tmp_path / "link"
    precious.write_text("precious")
    link.symlink_to(precious)
    for path in (precious, link):
        capsys.readouterr()
        assert main(["export", str(path)]) == 1
        told = f"zapomni: {path} cannot be written: it is there already; --force replaces it\n"
        assert capsys.readouterr() == ("", told)
        assert precious.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["data", "link", "precious.jsonl"]
    assert main(["export", "--force", str(precious)]) == 0
    assert b"new" in precious.read_bytes()
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "mine.md").write_text("mine")
    assert main(["export", "--force", "--format", "markdown", str(notes)]) == 1
    assert os.listdir(notes) == ["mine.md"]


def linked(folder: Path, device: str) -> str:
    """Return another name of a device: what goes wrong then replaces a link of the test, and not the machine's."""
    link = folder / device.replace("/", "-")
    link.symlink_to(device)
    return str(link)


def test_an_export_writes_into_a_pipe_and_a_device(data: Path, tmp_path: Path) -> None:
    assert main(["add", "through the pipe"]) == 0
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = subprocess.Popen(command("export", str(pipe)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        reader = subprocess.run(["cat", str(pipe)], capture_output=True, timeout=60, check=True)
        assert child.communicate(timeout=60) == (f"Wrote 1 memory of 1 workspace to {pipe}\n".encode(), b"")
    finally:
        child.kill()
        child.communicate()
    assert reader.stdout == run("export", "-").stdout
    assert pipe.is_fifo()
    full = linked(tmp_path, "/dev/full")
    assert run("export", full).stderr == f"zapomni: {full} cannot be written: No space left on device\n".encode()


def test_the_path_of_standard_output_is_standard_output(data: Path, tmp_path: Path) -> None:
    assert main(["add", "to the path"]) == 0
    path = linked(tmp_path, "/dev/stdout")
    named = run("export", path)
    assert (named.returncode, named.stderr) == (0, b"Wrote 1 memory of 1 workspace\n")
    assert named.stdout == run("export", "-").stdout
    with (tmp_path / "log").open("ab") as log:
        log.write(b"before\n")
        log.flush()
        subprocess.run(command("export", path), stdout=log, stderr=subprocess.PIPE, timeout=60, check=True)
    assert (tmp_path / "log").read_bytes() == b"before\n" + named.stdout


def test_an_export_to_a_pipe_without_a_reader_can_be_interrupted(data: Path, tmp_path: Path) -> None:
    assert main(["add", "nobody reads"]) == 0
    os.mkfifo(tmp_path / "pipe")
    child = subprocess.Popen(
        command("export", str(tmp_path / "pipe"), "--log-level", "debug"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=3)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == 130
    finally:
        child.kill()
        child.communicate()


def test_an_export_to_a_reader_that_takes_nothing_can_be_interrupted(data: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(jsonl.HEADER + lines([Record(text="x" * 300_000)]))
    assert main(["import", str(tmp_path / "in")]) == 0
    child = subprocess.Popen(command("export", "-"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.read(1) == b"{"
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == 130
        assert child.communicate()[1] == b""
    finally:
        child.kill()
        child.communicate()


async def write_over(records: AsyncIterator[Record], path: Path) -> None:
    await write_file(records, path, replace=True)


@pytest.mark.parametrize("write", [write_over, write_folder])
async def test_an_export_that_fails_leaves_what_was_there(
    write: Callable[[AsyncIterator[Record], Path], Awaitable[None]], tmp_path: Path
) -> None:
    path = tmp_path / "out"
    if write is write_over:
        path.write_text("before")

    async def failing() -> AsyncIterator[Record]:
        yield Record(text="x" * 100_000)
        yield Record(text="another")
        raise DatabaseError("gone")

    before = os.listdir(tmp_path)
    with pytest.raises(DatabaseError):
        await write(failing(), path)
    assert os.listdir(tmp_path) == before
    assert not before or path.read_text() == "before"
