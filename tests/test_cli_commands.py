"""The everyday commands on a real store, as a pipe sees them."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import structlog

from tests.zones import machine_in
from zapomni.cli import main
from zapomni.cli.given import add_filter_flags, filters_from
from zapomni.cli.workspaces import choice
from zapomni.errors import ConfigError
from zapomni.models import MAX_TEXT_LENGTH
from zapomni.tools import filters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zapomni.config import Settings

NOBODY = "00000000-0000-4000-8000-000000000000"


@attrs.frozen
class Ran:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        assert (self.code, self.err) == (0, ""), self
        return json.loads(self.out)


@attrs.frozen
class CommandLine:
    """Runs commands in this process, in a workspace of the test's own."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    workspace: str

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ran:
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self.capsys.readouterr()
        code = main(arguments)
        return Ran(code, *self.capsys.readouterr())

    def add(self, text: str, *flags: str) -> str:
        """Add a memory and return its id."""
        ran = self("add", text, *flags)
        assert (ran.code, ran.err) == (0, "")
        return ran.out.strip()


@pytest.fixture
def zapomni(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store_settings: Settings, tmp_path: Path
) -> Iterator[CommandLine]:
    handlers, level = logging.root.handlers[:], logging.root.level
    name = f"test-{uuid.uuid4().hex}"
    monkeypatch.setenv("ZAPOMNI_DATA_DIR", str(store_settings.data_dir))
    monkeypatch.setenv("ZAPOMNI_STORE_LINGER", str(store_settings.store_linger))
    if store_settings.falkordb_url is not None:
        monkeypatch.setenv("ZAPOMNI_FALKORDB_URL", store_settings.falkordb_url)
    monkeypatch.setenv("ZAPOMNI_CONFIG", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").write_text(f'workspace = "{name}"\n')
    command_line = CommandLine(capsys, monkeypatch, name)
    yield command_line
    command_line("workspace", "delete", "--yes", name)
    structlog.reset_defaults()
    logging.basicConfig(handlers=handlers, level=level, force=True)


def test_what_was_added_is_found_listed_and_read(zapomni: CommandLine) -> None:
    key = zapomni.add("The spare key is with Nadia", "--tag", "home", "--source", "chat")
    zapomni.add("The pear tree blooms in April")

    found = zapomni("search", "where", "is", "the", "spare", "key")
    assert found.code == 0
    first, *_ = found.out.splitlines()
    assert first.split("\t")[0] == key
    assert first.split("\t")[2] == "The spare key is with Nadia"

    listed = [line.split("\t")[2] for line in zapomni("list").out.splitlines()]
    assert listed == ["The pear tree blooms in April", "The spare key is with Nadia"]

    shown = zapomni("get", key).out
    assert "tags: home\n" in shown
    assert "source: chat\n" in shown
    assert "\n\nThe spare key is with Nadia\n" in shown


def test_words_without_quotes_are_one_text(zapomni: CommandLine) -> None:
    ran = zapomni("add", "buy", "milk", "--json")
    assert ran.data["text_preview"] == "buy milk"


def test_standard_input_is_kept_verbatim(zapomni: CommandLine) -> None:
    text = " leading\r\n\ttabs, каждый знак 記憶 \x1b[31m and the last newline\n"
    added = zapomni("add", "-", stdin=text.encode()).out.strip()
    assert zapomni("get", added, "--json").data["text"] == text


def test_files_become_memories_that_name_them(zapomni: CommandLine, tmp_path: Path) -> None:
    first, second = tmp_path / "a.md", tmp_path / "b.md"
    first.write_bytes(b"# A\r\n")
    second.write_bytes("# Б".encode())
    receipts = zapomni("add", "--file", str(first), str(second), "--json").data
    memories = [zapomni("get", receipt["memory_id"], "--json").data for receipt in receipts]
    assert [memory["text"] for memory in memories] == ["# A\r\n", "# Б"]
    assert [memory["metadata"] for memory in memories] == [{"source": str(first)}, {"source": str(second)}]


def test_every_file_counts_when_the_flag_is_repeated(zapomni: CommandLine, tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("a", "b", "c")]
    for name in names:
        name.write_text(f"what {name.name} says")
    first, second, third = map(str, names)
    receipts = zapomni("add", "--file", first, "-f", second, third, "--json").data
    assert [receipt["text_preview"] for receipt in receipts] == ["what a says", "what b says", "what c says"]


def test_metadata_that_a_known_text_does_not_get_is_told(zapomni: CommandLine, tmp_path: Path) -> None:
    added = zapomni.add("dup text", "--tag", "a", "--meta", "n=1")
    told = (
        f"The metadata and tags of {added} are as before, not as they were given now; "
        f"'zapomni update {added}' changes them.\n"
    )
    assert zapomni("add", "dup text", "--tag", "b", "--meta", "k=1") == Ran(0, f"{added}\n", told)
    assert zapomni("get", added, "--json").data["metadata"] == {"tags": ["a"], "n": 1}
    for given in ((), ("--tag", "a"), ("--meta", "n=1", "--tag", "a")):
        assert zapomni("add", "dup text", *given) == Ran(0, f"{added}\n", ""), "nothing that was given is lost"
    file = tmp_path / "copy"
    file.write_text("dup text")
    assert zapomni("add", "--file", str(file), "--json").err == told, "where it also stands is lost, too"


def test_a_file_that_cannot_be_read_stores_nothing(zapomni: CommandLine, tmp_path: Path) -> None:
    good, binary = tmp_path / "good.txt", tmp_path / "image.png"
    good.write_text("good")
    binary.write_bytes(b"\x89PNG")
    assert zapomni("add", "--file", str(good), str(binary)) == Ran(
        2, "", f"zapomni: {binary} is not UTF-8 text: byte 0 belongs to no character\n"
    )
    missing = tmp_path / "missing"
    assert zapomni("add", "--file", str(good), str(missing)) == Ran(
        2, "", f"zapomni: {missing} cannot be read: No such file or directory\n"
    )
    assert zapomni("list").out == ""


def test_the_name_of_a_file_is_not_taken_for_a_text(zapomni: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "my notes.md"
    file.write_text("notes")
    hint = f"to add what is in it: zapomni add --file '{file}'; to add its name: printf %s '{file}' | zapomni add -"
    ran = zapomni("add", str(file))
    assert ran == Ran(2, "", f"zapomni: {file} is a file; {hint}\n")
    assert zapomni("add", "--file", str(file)).code == 0
    assert zapomni("add", "-", stdin=str(file).encode()).code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("add",), "nothing to remember: give a text, - for standard input, or --file FILE"),
        (("add", " "), "text cannot be empty or whitespace-only"),
        (("add", "x", "--file", "y"), "give a text or files, not both"),
        (("add", "x", "--metadata", "[1]"), '--metadata must be a JSON object, such as \'{"project": "garden"}\''),
        (("add", "x", "--meta", f"deep={'[' * 500}{']' * 500}"), "metadata is nested more than 100 levels deep"),
        (("add", "x", "--meta", "nothing"), "--meta takes NAME=VALUE, not 'nothing'"),
        (("add", "x", "--timestamp", "soon"), "--timestamp must be a date or time such as 2026-05-01"),
        (("search", " "), "nothing to look for: the query is empty"),
        (("search", "x", "--since", "soon"), "--since must be a date or time such as 2026-05-01"),
        (("search", "x", "--since", "today", "--until", "2000-01-01"), "--since must be before --until"),
        (("list", "--cursor", "x"), "cursor"),
        (("list", "--all", "--limit", "20"), "give --limit or --all, not both"),
        (("update", NOBODY), "nothing to change: give a new text, --file, or metadata"),
        (("delete", NOBODY, "--workspace", "no such name!"), "a workspace name starts with a letter or a digit"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(zapomni: CommandLine, arguments: tuple[str, ...], told: str) -> None:
    ran = zapomni(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("zapomni: ")
    assert told in ran.err
    assert ran.err.count("\n") == 1


def test_a_text_that_is_too_long_is_refused(zapomni: CommandLine) -> None:
    ran = zapomni("add", "-", stdin=b"x" * (MAX_TEXT_LENGTH + 1))
    assert ran == Ran(2, "", "zapomni: text exceeds maximum length of 10,000,000 characters\n")


@pytest.mark.parametrize("arguments", [("get",), ("update", "--tag", "x"), ("delete", "--yes"), ("undelete",)])
def test_an_unknown_id_has_its_own_exit_code(zapomni: CommandLine, arguments: tuple[str, ...]) -> None:
    ran = zapomni(arguments[0], NOBODY, *arguments[1:])
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"zapomni: there is no memory {NOBODY}")
    assert zapomni(arguments[0], "no id at all", *arguments[1:]).code == 3


def test_a_search_without_a_hit_has_the_exit_code_of_nothing_found(zapomni: CommandLine) -> None:
    assert zapomni("search", "anything") == Ran(3, "", "")
    assert zapomni("list") == Ran(0, "", "")


def test_looking_into_a_misspelt_workspace_does_not_make_it(zapomni: CommandLine) -> None:
    for arguments in (("search", "x"), ("add", "x"), ("list",), ("stats",)):
        assert zapomni(*arguments, "--workspace", "mispelt") == Ran(3, "", "zapomni: there is no workspace 'mispelt'\n")
    names = [info["name"] for info in zapomni("workspace", "list", "--json").data["workspaces"]]
    assert "mispelt" not in names


def test_control_characters_of_a_memory_are_written_out(zapomni: CommandLine) -> None:
    added = zapomni.add("bell \x07 and \x1b[31mred\x1b[0m", "--tag", "\x1b[1m")
    for arguments in (("list",), ("search", "bell"), ("get", added)):
        out = zapomni(*arguments).out
        assert "bell \\x07 and \\x1b[31mred\\x1b[0m" in out
        assert "\x1b" not in out
    assert zapomni("get", added, "--json").data["text"] == "bell \x07 and \x1b[31mred\x1b[0m"


def test_a_change_keeps_what_it_does_not_name_and_what_was(zapomni: CommandLine) -> None:
    added = zapomni.add("The key is with Nadia", "--tag", "home", "--meta", "floor=3")
    assert zapomni("update", added, "The key is with Omar").out == f"{added}\n"
    zapomni("update", added, "--tag", "keys")
    memory = zapomni("get", added, "--json").data
    assert (memory["text"], memory["metadata"]) == ("The key is with Omar", {"tags": ["keys"], "floor": 3})
    history = zapomni("get", added, "--history", "--json").data["history"]
    assert [version["text"] for version in history] == ["The key is with Omar", "The key is with Nadia"]
    shown = zapomni("get", added, "--history").out.splitlines()
    assert [line for line in shown if line.startswith("version: ")] == ["version: 3", "version: 2", "version: 1"]
    zapomni("update", added, "--metadata", "{}")
    assert zapomni("get", added, "--json").data["metadata"] == {}


def test_a_key_replaces(zapomni: CommandLine) -> None:
    first = zapomni.add("The wifi password is tulip", "--key", "wifi")
    second = zapomni("add", "The wifi password is rose", "--key", "wifi", "--json").data
    assert (second["memory_id"], second["replaced"]) == (first, True)


def test_what_was_deleted_comes_back(zapomni: CommandLine) -> None:
    added = zapomni.add("to be or not to be")
    assert zapomni("delete", added) == Ran(2, "", "zapomni: there is no terminal to ask on; say --yes if it is meant\n")
    assert zapomni("list").out != ""
    receipt = zapomni("delete", added, "--yes", "--json").data
    assert receipt["memory_id"] == added
    assert receipt["restorable_until"] > receipt["deleted_at"]
    assert zapomni("list").out == ""
    assert zapomni("list", "--deleted").out.split("\t")[0] == added
    assert zapomni("list", "--deleted", "--all", "--json").data["memories"][0]["id"] == added
    assert zapomni("list", "--deleted", "--tag", "x").code == 2
    assert zapomni("undelete", added).out == f"{added}\n"
    assert zapomni("list", "--deleted").out == ""
    assert zapomni("search", "to be").out.startswith(added)


def test_the_longest_retention_still_ends_on_a_date(zapomni: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    added = zapomni.add("kept for a century")
    monkeypatch.setenv("ZAPOMNI_RETENTION_DAYS", "3000000")
    told = "zapomni: retention_days must be 36,500 at the most, not 3000000.0\n"
    assert zapomni("delete", added, "--yes") == Ran(1, "", told)
    monkeypatch.setenv("ZAPOMNI_RETENTION_DAYS", "36500")
    receipt = zapomni("delete", added, "--yes", "--json").data
    until, since = (datetime.fromisoformat(receipt[name]) for name in ("restorable_until", "deleted_at"))
    assert until - since == timedelta(days=36_500)


def test_filters_limit_a_list_and_a_search(zapomni: CommandLine) -> None:
    old = zapomni.add("planted the pear tree", "--tag", "garden", "--timestamp", "2020-05-01T10:00", "--meta", "n=1")
    new = zapomni.add("planted the plum tree", "--tag", "garden", "--tag", "fruit", "--source", "diary")

    def ids(*arguments: str) -> list[str]:
        return [line.split("\t")[0] for line in zapomni(*arguments).out.splitlines()]

    assert set(ids("list", "--tag", "garden", "--tag", "fruit")) == {old, new}
    assert ids("list", "--tag", "garden", "--tag", "fruit", "--all-tags") == [new]
    assert ids("list", "--source", "diary") == [new]
    assert ids("list", "--since", "7d") == [new]
    assert ids("list", "--since", "2020-05-01", "--until", "2020-05-01") == [old]
    assert ids("list", "--until", "2020-04-30") == []
    assert ids("search", "tree", "--meta", "n=1") == [old]
    assert ids("search", "tree", "--until", "yesterday") == [old]


@pytest.mark.parametrize(
    "text",
    ["2026-05-01", "2026-05-01T09:30", "2026-05-01T09:30:00+03:00", "9999-12-31", "9999-12-31T23:59:59.999999Z"],
)
def test_a_date_means_the_same_to_a_flag_and_to_a_tool(text: str) -> None:
    parser = argparse.ArgumentParser()
    add_filter_flags(parser)
    for flag, name in (("--since", "date_from"), ("--until", "date_to")):
        given = filters_from(parser.parse_args([flag, text]), datetime(2026, 5, 2, tzinfo=UTC), UTC)
        assert given == filters.filters_from(filters.FilterArguments(**{name: text}))  # type: ignore[arg-type]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_a_day_is_the_same_one_to_whoever_adds_and_whoever_asks(zapomni: CommandLine, zone: str) -> None:
    def ids(*arguments: str) -> set[str]:
        return {line.split("\t")[0] for line in zapomni("list", *arguments).out.splitlines()}

    with machine_in(zone):
        added = zapomni.add("dentist appointment", "--timestamp", "2026-05-01")
        late = zapomni.add("supper", "--timestamp", "2026-05-01T23:59")
        assert ids("--since", "2026-05-01", "--until", "2026-05-01") == {added, late}
        assert ids("--until", "2026-04-30") == ids("--since", "2026-05-02", "--until", "2026-05-02") == set()
        assert zapomni("update", added, "--timestamp", "2026-05-03").code == 0
        assert ids("--since", "2026-05-03", "--until", "2026-05-03") == {added}
        written = zapomni("get", added, "--json").data["metadata"]["timestamp"]
        assert written.startswith("2026-05-03T00:00:00"), "the day can be read as it was written"
        recent = zapomni.add("a walk", "--timestamp", "yesterday")
        assert ids("--since", "yesterday", "--until", "yesterday") == {recent}


def test_no_end_is_no_mistake(zapomni: CommandLine) -> None:
    added = zapomni.add("for ever")
    assert zapomni("list", "--until", "9999-12-31").out.startswith(added)


def test_a_long_list_comes_in_parts_or_whole(zapomni: CommandLine, tmp_path: Path) -> None:
    added = [zapomni.add(f"memory {number}") for number in range(5)]
    part = zapomni("list", "--limit", "2", "--json").data
    assert [memory["id"] for memory in part["memories"]] == added[:2:-1]
    rest = zapomni("list", "--cursor", part["cursor"], "--all", "--json").data
    assert [memory["id"] for memory in rest["memories"]] == added[2::-1]
    assert rest["cursor"] is None
    more = [tmp_path / str(number) for number in range(5, 21)]
    for file in more:
        file.write_text(f"memory {file.name}")
    assert zapomni("add", "--file", *map(str, more)).out.count("\n") == 16
    assert zapomni("list").out.count("\n") == 20
    ran = zapomni("list", "-n", "2")
    assert ran.out.count("\n") == 2
    assert ran.err.startswith("There are more: --all, or --cursor ")


def test_statistics_count(zapomni: CommandLine) -> None:
    zapomni.add("one")
    data = zapomni("stats", "--json").data
    assert (data["workspace"], data["total_memories"], data["total_chunks"]) == (zapomni.workspace, 1, 1)
    assert "holds             1 memory in 1 passage" in zapomni("stats").out


def test_workspaces_are_made_listed_used_and_removed(zapomni: CommandLine, tmp_path: Path) -> None:
    name = f"{zapomni.workspace}-other"
    assert zapomni("workspace", "create", name.upper(), "--json").data == {"name": name, "created": True}
    assert zapomni("workspace", "create", name, "--json").data == {"name": name, "created": False}
    inside = zapomni.add("in the other", "--workspace", name)
    assert zapomni("list").out == ""
    told = f"{name} is the default workspace now ({tmp_path / 'settings.toml'}).\n"
    assert zapomni("workspace", "use", name) == Ran(0, told, "")
    assert zapomni("list").out.startswith(inside)
    assert zapomni("workspace", "list", "--json").data["current"] == name
    assert zapomni("workspace", "use", zapomni.workspace).code == 0
    assert zapomni("workspace", "delete", name).code == 2
    assert zapomni("workspace", "delete", name, "--yes", "--json").data == {"name": name, "memories_deleted": 1}
    assert zapomni("workspace", "use", name).code == 3


def test_a_variable_that_goes_before_the_file_is_pointed_out(
    zapomni: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAPOMNI_WORKSPACE", zapomni.workspace)
    ran = zapomni("workspace", "use", "default")
    assert ran.code == 0
    assert f"ZAPOMNI_WORKSPACE is set to {zapomni.workspace}, which goes before the settings file.\n" == ran.err
    monkeypatch.setenv("ZAPOMNI_WORKSPACE", "")
    assert zapomni("workspace", "use", zapomni.workspace).err == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, 'workspace = "garden"\n'),
        ("", 'workspace = "garden"\n'),
        ("# mine\nworkspace = 'x'  # why\r\npool_size = 3", '# mine\nworkspace = "garden"  # why\r\npool_size = 3'),
        ('workspace = "a # \\" b" # "why" # so', 'workspace = "garden" # "why" # so'),
        ("workspace = '\\' \npool_size = 3", 'workspace = "garden"\npool_size = 3'),
        ("workspace=5# why", 'workspace = "garden"# why'),
        ('"workspace" = "x"\n', 'workspace = "garden"\n'),
        ("pool_size = 3 # workspace = 1", 'workspace = "garden"\npool_size = 3 # workspace = 1'),
        ("[table]\nworkspace_of = 1\n", 'workspace = "garden"\n[table]\nworkspace_of = 1\n'),
    ],
)
def test_choosing_a_workspace_changes_one_line_of_the_settings(before: str | None, after: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    if before is not None:
        path.write_bytes(before.encode())
    choice(path, "garden").apply()
    assert path.read_bytes() == after.encode()


@pytest.mark.parametrize(
    "content",
    ['workspace = """\nx"""\n', "a = '''\nworkspace = 1\n'''\n", "[table]\nworkspace = 1\n", "workspace = \n", "\xff"],
)
def test_settings_that_one_line_cannot_change_stay_as_they_are(content: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError):
        choice(path, "garden")
    assert path.read_bytes() == content.encode("latin-1")


def test_a_backup_comes_back_in_another_directory(
    zapomni: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = zapomni.add("safe and sound")
    file = tmp_path / "memories.zapomni"
    assert zapomni("backup", str(file), "--json").data == {"file": str(file), "bytes": file.stat().st_size}
    assert zapomni("backup", str(file)) == Ran(1, "", f"zapomni: {file} is there already; --force replaces it\n")
    assert zapomni("backup", str(file), "--force").code == 0
    assert zapomni("restore", str(file)).code == 1, "what is in use is not touched"
    monkeypatch.delenv("ZAPOMNI_FALKORDB_URL", raising=False)
    other = ("--data-dir", str(tmp_path / "other"))
    assert zapomni.workspace in zapomni("restore", str(file), "--json", *other).data["workspaces"]
    assert zapomni("get", added, "--text", *other).code == 0


def test_a_backup_follows_a_link_and_replaces_no_pipe(zapomni: CommandLine, tmp_path: Path) -> None:
    link, file, pipe = tmp_path / "link", tmp_path / "file", tmp_path / "pipe"
    link.symlink_to(file)
    os.mkfifo(pipe)
    for flags in ((), ("--force",)):
        assert zapomni("backup", str(link), *flags).code == 0
        assert link.is_symlink()
        assert file.read_bytes().startswith(b"zapomni backup")
        told = f"zapomni: {pipe} is no file, and a backup takes the place of nothing else\n"
        assert zapomni("backup", str(pipe), *flags) == Ran(1, "", told)
        assert pipe.is_fifo()


def test_a_damaged_backup_is_named(zapomni: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("no backup")
    assert zapomni("restore", str(file)) == Ran(1, "", f"zapomni: {file} is no backup of Zapomni\n")
    assert zapomni("backup", str(tmp_path)) == Ran(1, "", f"zapomni: {tmp_path} is a folder; name a file\n")
    nowhere = tmp_path / "nowhere" / "file"
    ran = zapomni("backup", str(nowhere))
    assert ran.code == 1
    assert ran.err.startswith(f"zapomni: the backup {nowhere} cannot be written: ")


def test_embedding_again_is_counted(zapomni: CommandLine) -> None:
    zapomni.add("a passage")
    data = zapomni("reembed", "--json").data
    assert data["passages_embedded"] == {zapomni.workspace: 0}, "the model is the same"


def test_the_settings_are_shown_with_where_they_come_from_but_no_secret(
    zapomni: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAPOMNI_FALKORDB_URL", "falkor://:hunter2@localhost")
    monkeypatch.setenv("ZAPOMNI_EMBEDDING_API_KEY", "hunter2")
    shown = zapomni("config", "show", "--json", "--log-level", "debug")
    assert "hunter2" not in shown.out
    settings = shown.data["settings"]
    assert settings["workspace"] == {"value": zapomni.workspace, "origin": f"file {tmp_path / 'settings.toml'}"}
    assert settings["log_level"] == {"value": "debug", "origin": "flag"}
    assert settings["embedding_api_key"] == {"value": "(hidden)", "origin": "environment"}
    assert settings["embedding_url"] == {"value": None, "origin": "default"}
    plain = zapomni("config", "show")
    assert plain.code == 0
    assert "hunter2" not in plain.out
    assert len(plain.out.splitlines()) == len(settings)
