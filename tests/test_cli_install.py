"""Clients' settings from the command line: added, shown, taken out, and nobody else's byte moved."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from zapomni.cli import main
from zapomni.cli.install import SERVER_FLAGS, vanishing
from zapomni.cli.serve import FLAGS
from zapomni.clients import CLIENTS, Launch, Machine

if TYPE_CHECKING:
    from pathlib import Path

OTHERS = '{\n  // mine\n  "mcpServers": {"other": {"command": "x"}}\n}\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, without any client's program."""
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def cursor_with_others(home: Path) -> Path:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text(OTHERS)
    return path


@pytest.mark.parametrize("name", CLIENTS)
def test_every_client_gets_the_server_once_and_gives_it_back(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (first,) = answer(capsys, "install", name)
    assert (first["client"], first["changed"], first["error"]) == (name, True, None)
    path = CLIENTS[name].path(Machine.current())
    parse = tomllib.loads if CLIENTS[name].syntax == "toml" else json.loads
    entry = parse(path.read_text())[CLIENTS[name].table]["zapomni"]
    assert [entry["command"], *entry["args"]] == [
        Launch.of_this_installation().command,
        *Launch.of_this_installation().args,
    ]
    assert not answer(capsys, "install", name)[0]["changed"]
    assert answer(capsys, "uninstall", name)[0]["changed"]
    assert not answer(capsys, "uninstall", name)[0]["changed"]
    assert "zapomni" not in path.read_text()


def test_others_stay_and_the_backup_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = cursor_with_others(home)
    assert main(["install", "cursor"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Cursor: added to {path}\n  as it was before: {path}.zapomni-backup\n")
    assert (home / ".cursor" / "mcp.json.zapomni-backup").read_text() == OTHERS
    assert "// mine" in path.read_text()
    assert main(["uninstall", "cursor"]) == 0
    assert capsys.readouterr().out.startswith(f"Cursor: taken out of {path}\n")
    assert path.read_text() == OTHERS


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_dry_run_shows_the_change_and_makes_none(
    command: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cursor_with_others(home)
    if command == "uninstall":
        main(["install", "cursor"])
    before = path.read_text()
    capsys.readouterr()
    assert main([command, "cursor", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    sign = "+" if command == "install" else "-"
    assert f"--- {path}\n+++ {path}\n" in shown
    assert any(line.startswith(sign) and '"zapomni"' in line for line in shown.splitlines())
    assert path.read_text() == before


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_dry_run_shows_nobody_s_keys(command: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "mcp.json"
    servers = {"other": {"command": "x", "TOKEN": "hunter2"}, "zapomni": {"url": "http://hunter2@host"}}
    path.write_text(json.dumps({"mcpServers": servers}, indent=2))
    assert main([command, "cursor", "--file", str(path), "--dry-run", "--replace"]) == 0
    captured = capsys.readouterr()
    assert '"TOKEN": "…"' in captured.out
    assert '-      "url": "…"\n' in captured.out
    assert "hunter2" not in captured.out
    assert captured.err.startswith('Where "…" stands, a value is only hidden here.\n')


def test_settings_become_the_servers_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--workspace", "work", "--data-dir", "~/data", "--read-only", "--tools", "core"]
    assert main(["install", "zed", *flags]) == 0
    entry = json.loads((home / ".config" / "zed" / "settings.json").read_text())["context_servers"]["zapomni"]
    given = entry["args"][entry["args"].index("serve") + 1 :]
    assert given == ["--data-dir", str(home / "data"), "--workspace", "work", "--read-only", "--tools", "core"]
    assert set(SERVER_FLAGS) <= set(FLAGS), "serve has to understand them"


def test_what_starts_something_else_is_replaced_only_when_asked_for(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cursor", "--workspace", "one"]) == 0
    capsys.readouterr()
    assert main(["install", "cursor", "--workspace", "two"]) == 1
    assert 'has a different "zapomni" entry; if it is yours, --replace replaces it' in capsys.readouterr().err
    assert main(["install", "cursor", "--workspace", "two", "--replace"]) == 0
    assert '"two"' in (home / ".cursor" / "mcp.json").read_text()


def test_without_a_client_all_are_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cursor_with_others(home)
    main(["install", "cursor"])
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("broken = ")
    listed = {row["client"]: row for row in answer(capsys, "install")}
    assert set(listed) == set(CLIENTS)
    assert (listed["cursor"]["found"], listed["cursor"]["status"]) == (True, "installed")
    assert (listed["zed"]["found"], listed["zed"]["status"]) == (False, "absent")
    assert (listed["cursor"]["error"], listed["codex-cli"]["status"]) == (None, "unreadable")
    assert main(["install"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == ["client", "on", "this", "machine", "zapomni", "settings"]
    assert len(lines) == 1 + len(CLIENTS)
    assert lines[-1].split() == ["codex-cli", "yes", "unreadable", str(home / ".codex" / "config.toml")]
    assert captured.err.startswith(f"codex-cli: {listed['codex-cli']['error']}\n")
    assert "it is not valid TOML" in captured.err


def test_all_takes_every_client_that_is_found_and_goes_on_after_an_error(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "--all"]) == 1
    assert capsys.readouterr().err == "zapomni: no client is found on this machine; name one\n"
    cursor_with_others(home)
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("broken = ")
    results = {row["client"]: row for row in answer(capsys, "install", "--all", code=1)}
    assert set(results) == {"cursor", "codex-cli"}
    assert results["cursor"]["changed"]
    assert "config.toml is left as it is" in results["codex-cli"]["error"]


def test_a_snippet_is_printed_for_whoever_writes_it_by_hand(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "codex-cli", "--print"]) == 0
    captured = capsys.readouterr()
    assert tomllib.loads(captured.out)["mcp_servers"]["zapomni"]["args"][-1] == "serve"
    assert captured.err == f"Codex CLI, in {home / '.codex' / 'config.toml'}:\n"
    assert list(home.iterdir()) == []


def test_another_file_can_be_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "vscode", "--file", str(home / "project" / "mcp.json")]) == 0
    assert "zapomni" in json.loads((home / "project" / "mcp.json").read_text())["servers"]
    capsys.readouterr()
    assert main(["install", "vscode", "zed", "--file", str(home / "x")]) == 2
    assert main(["install", "--file", str(home / "x")]) == 2
    told = "zapomni: --file is the settings of one client; name"
    assert [line.startswith(told) for line in capsys.readouterr().err.splitlines()] == [True, True]


FOREIGN = '{"mcpServers": {"zapomni": {"command": "npx", "args": ["zapomni"]}}}'


def test_an_entry_that_only_has_our_name_is_taken_out_only_when_asked_for(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cursor_with_others(home)
    path.write_text(FOREIGN)
    assert main(["uninstall", "cursor"]) == 1
    told = f'{path} is left as it is: its "zapomni" entry starts something else; if it is yours, --replace takes it out'
    assert capsys.readouterr().err == f"zapomni: {told}\n"
    main(["install", "zed"])
    results = {row["client"]: row for row in answer(capsys, "uninstall", "--all", code=1)}
    assert (results["cursor"]["changed"], results["cursor"]["error"]) == (False, told)
    assert results["zed"]["changed"], "the others are gone on with"
    assert path.read_text() == FOREIGN
    assert main(["uninstall", "--all", "--replace"]) == 0
    assert "zapomni" not in path.read_text()


def test_a_client_that_is_named_beside_all_does_not_hold_up_the_others(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor_with_others(home).write_text(FOREIGN)
    (home / ".gemini").mkdir()
    results = {row["client"]: row["changed"] for row in answer(capsys, "install", "cursor", "--all", code=1)}
    assert results == {"cursor": False, "gemini-cli": True}


def test_a_dry_run_of_many_says_what_would_fail_and_that_nothing_was_done(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor_with_others(home).write_text(FOREIGN)
    (home / ".gemini").mkdir()
    dry = {row["client"]: row for row in answer(capsys, "install", "--all", "--dry-run", code=1)}
    assert (dry["gemini-cli"]["changed"], dry["gemini-cli"]["dry_run"]) == (True, True)
    assert main(["install", "--all", "--dry-run"]) == 1
    shown = capsys.readouterr().out
    assert "Cursor: " in shown
    assert "--replace replaces it" in shown
    assert not (home / ".gemini" / "settings.json").exists()
    (wet,) = answer(capsys, "install", "gemini-cli")
    assert (wet["changed"], wet["dry_run"]) == (True, False)


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        (["--config", "{home}/nope.toml"], 1, "the settings file {home}/nope.toml does not exist"),
        (["--config", "{home}/odd.toml"], 1, "unknown setting colour (file {home}/odd.toml)"),
        (["--config", "{home}/bad.toml"], 1, "workspace (file {home}/bad.toml) is 'a/b': a workspace name starts"),
        (["--config", "{home}/bad.toml", "--workspace", "a/b"], 2, "a workspace name starts"),
        (["--workspace", "a/b"], 2, "a workspace name starts"),
    ],
)
def test_settings_that_the_server_would_not_start_with_are_not_written(
    flags: list[str], code: int, told: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "odd.toml").write_text("colour = 1\n")
    (home / "bad.toml").write_text("workspace = 'a/b'\n")
    assert main(["install", "zed", *(flag.format(home=home) for flag in flags)]) == code
    assert capsys.readouterr().err.startswith(f"zapomni: {told.format(home=home)}")
    assert not (home / ".config").exists()


def test_a_settings_file_is_named_by_where_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "good.toml").write_text("workspace = 'a/b'\n")
    monkeypatch.chdir(home)
    monkeypatch.setenv("ZAPOMNI_POOL_SIZE", "none of the client's")
    assert main(["install", "zed", "--config", "good.toml", "--workspace", "work"]) == 0
    entry = json.loads((home / ".config" / "zed" / "settings.json").read_text())["context_servers"]["zapomni"]
    assert entry["args"][-4:] == ["--config", str(home / "good.toml"), "--workspace", "work"]


def test_a_client_on_windows_starts_the_server_inside_wsl(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["install", "cursor", "--wsl"]) == 1
    assert "WSL_DISTRO_NAME is not set" in capsys.readouterr().err
    monkeypatch.setenv("WSL_DISTRO_NAME", "Ubuntu")
    assert main(["install", "cursor", "--wsl", "--print"]) == 0
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["zapomni"]
    assert (entry["command"], entry["args"][:3]) == ("wsl.exe", ["-d", "Ubuntu", "--exec"])


def test_an_unknown_client_is_one_line_with_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "curser"]) == 2
    assert capsys.readouterr().err == "zapomni: unknown client 'curser'; did you mean cursor?\n"
    assert main(["uninstall"]) == 2
    assert capsys.readouterr().err.startswith("zapomni: name a client: claude-desktop, ")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/home/a/.cache/uv/archive-v0/Xy12/bin/zapomni", True),
        ("/home/a/.cache/uv/environments-v2/z-1/bin/zapomni", True),
        ("/home/a/.local/share/pipx/.cache/1a2b/bin/zapomni", True),
        ("/home/a/.local/share/uv/tools/zapomni/bin/zapomni", False),
        ("/home/a/.local/bin/zapomni", False),
        ("/opt/venv/bin/python", False),
    ],
)
def test_a_program_that_may_vanish_is_told_from_one_that_stays(command: str, expected: bool) -> None:
    assert vanishing(command) is expected
