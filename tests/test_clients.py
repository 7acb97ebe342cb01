"""Clients' settings: ours goes in and comes out, and nobody else's byte moves."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zapomni.clients import (
    CLIENTS,
    Client,
    Launch,
    Machine,
    Status,
    find,
    install,
    jsonc,
    snippet,
    status,
    toml,
    uninstall,
)
from zapomni.clients.launch import starts_us
from zapomni.errors import ConfigError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

LAUNCH = Launch("/opt/zap omni/bin/zapomni", ("serve", "--workspace", "рабочий"))
JSON_CLIENTS = [client for client in CLIENTS.values() if client.syntax == "json"]
CODEX = CLIENTS["codex-cli"]
# A busy machine is no failure of ours.
AT_ANY_SPEED = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

every_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
every_json_client = pytest.mark.parametrize("client", JSON_CLIENTS, ids=[client.name for client in JSON_CLIENTS])


# Texts of settings files, in every layout that a person, an editor or a formatter may leave behind.

TRIVIA = st.sampled_from(
    ["", "", "", " ", "\n", "\n  ", "\n\t\t", "\r\n    ", ' // a, "b": {\n', "/* } */", "\n/* c\n*/ "]
)
NAMES = st.sampled_from(["a", "b", "zap", "mcpServers ", 'q"uote', "ключ", "servers.x", "\U0001f9e0"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(['{"zapomni": 1}', "// no comment", "\\", '"', "}", "\u2028"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def json_texts(draw: st.DrawFn, table: str) -> str:
    root = draw(st.dictionaries(NAMES, VALUES, max_size=3))
    if draw(st.booleans()):
        keys = list(root)
        keys.insert(draw(st.integers(0, len(keys))), table)
        servers = draw(st.dictionaries(NAMES, VALUES, max_size=3))
        root = {key: servers if key == table else root[key] for key in keys}
    style = draw(st.sampled_from(["free", "spread", "tabs", "compact"]))
    match style:
        case "free":
            return draw(TRIVIA) + write_freely(draw, root) + draw(TRIVIA)
        case "spread":
            return json.dumps(root, indent=2) + draw(st.sampled_from(["", "\n"]))
        case "tabs":
            return json.dumps(root, indent="\t", ensure_ascii=False).replace("\n", "\r\n") + "\r\n"
        case _:
            return json.dumps(root)


def write_freely(draw: st.DrawFn, value: Any) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    parts = []
    for item in value:
        key = f"{json.dumps(item)}{draw(TRIVIA)}:{draw(TRIVIA)}" if isinstance(value, dict) else ""
        parts.append(
            draw(TRIVIA) + key + write_freely(draw, value[item] if isinstance(value, dict) else item) + draw(TRIVIA)
        )
    last = ("," if draw(st.booleans()) else "") + draw(TRIVIA) if parts else draw(TRIVIA)
    return opening + ",".join(parts) + last + closing


TOML_LINES = st.sampled_from(
    [
        "",
        "# [mcp_servers.zapomni] is only a comment",
        "{n} = 1",
        "{n} = nan",
        "\"{n} dotted\".sub = 'x'  # tail",
        '{n} = """\n[mcp_servers.zapomni]\ncommand = \\"""no\\"\n"""',
        "{n} = '''\n[x]'''''",
        "{n} = [\n  1, # ] one\n  [ 2 ],\n]",
        '{n} = {{ a = "]}}", b = {{ c = 1 }} }}',
        "{n} = 2026-11-18T08:00:00Z",
        '  {n} = "#"  ',
    ]
)
TOML_HEADERS = st.sampled_from(
    ["[{n}]", "[mcp_servers.{n}]", '[ mcp_servers . "{n}" ] # ours is zapomni', "[[many.{n}]]", "[mcp_servers.{n}.env]"]
)


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    lines = []
    for number, block in enumerate(
        draw(st.lists(st.tuples(TOML_HEADERS, st.lists(TOML_LINES, max_size=4)), max_size=4))
    ):
        header, inner = block
        lines += [header.format(n=f"t{number}")] if number else []
        lines += [line.format(n=f"k{number}-{place}") for place, line in enumerate(inner)]
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n", "  "]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@given(st.data())
@AT_ANY_SPEED
def test_json_comes_back_to_the_byte(data: st.DataObject) -> None:
    client = data.draw(st.sampled_from(JSON_CLIENTS))
    text = data.draw(json_texts(client.table))
    entry = client.entry(LAUNCH)
    before = jsonc.parse(text)
    after = jsonc.put(text, client.table, "zapomni", entry)
    values = jsonc.parse(after)
    assert values[client.table].pop("zapomni") == entry
    assert values == {client.table: {}, **before}
    assert jsonc.drop(after, client.table, "zapomni") == text


@given(st.data())
@AT_ANY_SPEED
def test_a_strict_file_stays_one_that_strict_readers_take(data: st.DataObject) -> None:
    root = data.draw(st.dictionaries(NAMES, VALUES, max_size=3))
    text = json.dumps(root, indent=data.draw(st.sampled_from([None, 2, 4, "\t"])))
    after = jsonc.put(text, "mcpServers", "zapomni", CLIENTS["cursor"].entry(LAUNCH))
    assert list(json.loads(after)) == [*root, "mcpServers"]


@given(toml_texts())
@AT_ANY_SPEED
@example("mcp_servers.a.command = 'x'")
@example("[mcp_servers]\na = { command = 'x' }\n")
def test_toml_comes_back_to_the_byte(text: str) -> None:
    entry = CODEX.entry(Launch(LAUNCH.command, LAUNCH.args, {"A B": "ü\x7f\n"}))
    before = toml.parse(text)
    after = toml.put(text, CODEX.table, "zapomni", entry)
    values = tomllib.loads(after)
    assert values["mcp_servers"].pop("zapomni") == entry
    assert repr({"mcp_servers": {}, **before}) == repr({"mcp_servers": {}, **values})
    assert after.startswith(text)
    assert toml.drop(after, CODEX.table, "zapomni") == text


@given(text=toml_texts(), lines=st.lists(TOML_LINES, max_size=4))
@AT_ANY_SPEED
def test_toml_that_others_wrote_behind_ours_stays(text: str, lines: list[str]) -> None:
    behind = "\n".join(["[later]", *(line.format(n=f"k{place}") for place, line in enumerate(lines))])
    after = toml.put(text, CODEX.table, "zapomni", CODEX.entry(LAUNCH)) + behind
    without = toml.drop(after, CODEX.table, "zapomni")
    assert without.endswith(behind)
    assert repr(tomllib.loads(without)) == repr({**tomllib.loads(text), **tomllib.loads(behind)})


@every_client
@pytest.mark.parametrize("text", ["", None])
def test_a_missing_file_is_made_and_emptied_again(client: Client, text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "new" / "settings"
    if text is not None:
        path.parent.mkdir()
        path.write_text(text)
    assert status(client, LAUNCH, path) is Status.ABSENT
    install(client, LAUNCH, path).apply()
    assert status(client, LAUNCH, path) is Status.INSTALLED
    assert path.read_text() == snippet(client, LAUNCH)
    uninstall(client, path).apply()
    assert status(client, LAUNCH, path) is Status.ABSENT
    assert path.read_text().strip() == ("" if client.syntax == "toml" else "{}")


@every_client
def test_installing_twice_changes_nothing(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "settings"
    install(client, LAUNCH, path).apply()
    again = install(client, LAUNCH, path)
    assert not again
    assert again.diff() == ""
    assert again.apply() is None
    assert sorted(tmp_path.iterdir()) == [path]


@every_client
def test_uninstalling_what_is_not_there_changes_nothing(client: Client, tmp_path: Path) -> None:
    change = uninstall(client, tmp_path / "none" / "settings")
    assert not change
    assert change.apply() is None
    assert not (tmp_path / "none").exists()


def test_a_desktop_file_reads_as_if_written_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n  "mcpServers": {\n    "git": {\n      "command": "uvx"\n    }\n  }\n}\n')
    install(CLIENTS["claude-desktop"], Launch("/bin/zapomni", ("serve",)), path).apply()
    assert path.read_text() == (
        '{\n  "mcpServers": {\n    "git": {\n      "command": "uvx"\n    },\n'
        '    "zapomni": {\n      "command": "/bin/zapomni",\n      "args": [\n        "serve"\n      ]\n    }\n  }\n}\n'
    )


def test_comments_stay_with_the_line_they_speak_of() -> None:
    text = '{\n  "context_servers": {\n    "git": {} // mine\n    // the end\n  }, // servers\n}\n'
    after = jsonc.put(text, "context_servers", "zapomni", {"command": "z"})
    assert after == (
        '{\n  "context_servers": {\n    "git": {}, // mine\n    // the end\n'
        '    "zapomni": {\n      "command": "z"\n    }\n  }, // servers\n}\n'
    )


@every_client
def test_a_different_entry_is_reported_and_replaced_only_when_asked(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "settings"
    install(client, Launch("/old/zapomni", ("serve",), {"ZAPOMNI_LOG_LEVEL": "debug"}), path).apply()
    before = path.read_bytes()
    assert status(client, LAUNCH, path) is Status.DIFFERENT
    with pytest.raises(ConfigError, match=r"has a different .* if it is yours, --replace replaces it"):
        install(client, LAUNCH, path)
    assert path.read_bytes() == before
    change = install(client, LAUNCH, path, replace=True)
    backup = change.apply()
    assert backup is not None
    assert backup.read_bytes() == before
    assert status(client, LAUNCH, path) is Status.INSTALLED
    assert "debug" in path.read_text(), "what the person set in the entry stays"


OURS: list[dict[str, Any]] = [
    {"command": "zapomni"},
    {
        "command": "/opt/old venv/bin/zapomni",
        "args": ["serve", "--workspace", "x"],
        "env": {"A": "b"},
        "disabled": True,
    },
    {"command": "C:\\Python\\Scripts\\Zapomni.EXE", "args": ["serve"]},
    {"command": "/usr/bin/python3.12", "args": ["-m", "zapomni", "serve"]},
    {"command": "uvx", "args": ["zapomni@latest"]},
    {"command": "uv", "args": ["--directory", "/src/x", "run", "zapomni", "serve"]},
    {"command": "pipx", "args": ["run", "zapomni", "serve"]},
    {"command": "wsl.exe", "args": ["-d", "Ubuntu", "--exec", "env", "A=b", "/home/ann/bin/zapomni", "serve"]},
]
FOREIGN: list[dict[str, Any]] = [
    {"command": "npx", "args": ["-y", "zapomni", "serve"]},
    {"command": "docker", "args": ["run", "zapomni"]},
    {"command": "/opt/zapomni/bin/other", "args": ["serve"]},
    {"command": "zapomni", "args": ["frobnicate"]},
    {"command": "uvx", "args": ["--with", "zapomni", "other"]},
    {"url": "http://localhost/zapomni"},
    {"command": {"path": "zapomni"}},
    {"command": "zapomni", "args": [5]},
    {},
]


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: str(entry["command"]))
def test_whatever_starts_us_comes_out_again(entry: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text(json.dumps({"mcpServers": {"zapomni": entry}}))
    uninstall(CLIENTS["cursor"], path).apply()
    assert json.loads(path.read_text()) == {"mcpServers": {}}


@pytest.mark.parametrize("entry", FOREIGN, ids=str)
def test_what_only_has_our_name_comes_out_only_when_asked_for(entry: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text(json.dumps({"mcpServers": {"zapomni": entry}}))
    with pytest.raises(ConfigError, match="starts something else; if it is yours, --replace takes it out"):
        uninstall(CLIENTS["cursor"], path)
    uninstall(CLIENTS["cursor"], path, replace=True).apply()
    assert json.loads(path.read_text()) == {"mcpServers": {}}


@every_client
def test_what_we_install_is_known_as_ours(client: Client) -> None:
    for launch in (Launch.of_this_installation(["--read-only"]), LAUNCH, LAUNCH.through_wsl("Ubuntu")):
        assert starts_us(client.entry(launch))


def test_replacing_keeps_what_the_client_added_and_drops_another_transport(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text('{"mcpServers": {"zapomni": {"url": "http://x", "autoApprove": ["search"]}, "b": {}}}')
    install(CLIENTS["cline"], LAUNCH, path, replace=True).apply()
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers["zapomni"] == {"autoApprove": ["search"], "command": LAUNCH.command, "args": list(LAUNCH.args)}
    assert list(servers) == ["zapomni", "b"]


def test_an_entry_that_only_has_more_than_ours_counts_as_installed(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    entry = {**CLIENTS["cline"].entry(LAUNCH), "disabled": False, "env": {"ZAPOMNI_WORKSPACE": "x"}}
    path.write_text(json.dumps({"mcpServers": {"zapomni": entry}}))
    assert status(CLIENTS["cline"], LAUNCH, path) is Status.INSTALLED


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '"x"',
        "{",
        '{"a": 1 "b": 2}',
        '{"a": 1}}',
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": 01}',
        "{,}",
        '{"mcpServers": []}',
        '{"mcpServers": {"zapomni": "x"}}',
        '{"mcpServers": {"zapomni": {}}, "mcpServers": {"zapomni": {}}}',
        '{"a": ' + "[" * 100_000,
        "/* never closed",
    ],
)
@pytest.mark.parametrize("edit", ["install", "uninstall"])
def test_json_that_cannot_be_edited_safely_is_left_alone(text: str, edit: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is left as it is"):
        _ = install(CLIENTS["cursor"], LAUNCH, path) if edit == "install" else uninstall(CLIENTS["cursor"], path)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a = 1\na = 2",
        "mcp_servers = {}",
        "mcp_servers = { a = { command = 'x' } }",
        "mcp_servers = 3",
        "[[mcp_servers]]",
    ],
)
def test_toml_that_cannot_be_edited_safely_is_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is left as it is"):
        install(CODEX, LAUNCH, path)
    assert path.read_text() == text


def test_an_inline_entry_of_ours_is_not_torn_out_of_its_table(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("mcp_servers = { zapomni = { command = 'zapomni' }, b = {} }")
    with pytest.raises(ConfigError, match="an inline table; the entry has to be taken out of it by hand"):
        uninstall(CODEX, path)


@pytest.mark.parametrize("text", ["mcp_servers = {}", " 'mcp_servers' = { a = { command = 'x' } } # mine\n[other]\n"])
def test_an_inline_table_of_servers_is_told_from_a_file_that_is_broken(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    told = (
        f'{path} is left as it is: "mcp_servers" is written as an inline table; the entry has to be added to it by hand'
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        install(CODEX, LAUNCH, path)
    assert status(CODEX, LAUNCH, path) is Status.ABSENT


@pytest.mark.parametrize(
    "text", ["[mcp_servers]\nzapomni = { command = 'zapomni' }\nb = {}\n", "mcp_servers.zapomni.command = 'zapomni'\n"]
)
def test_other_spellings_of_our_toml_entry_come_out_too(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    uninstall(CODEX, path).apply()
    assert "zapomni" not in path.read_text()


def test_bytes_that_are_no_text_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConfigError, match="UTF-8"):
        install(CLIENTS["cursor"], LAUNCH, path)


@pytest.mark.parametrize("client", [CLIENTS["cursor"], CODEX], ids=["json", "toml"])
def test_a_byte_order_mark_stays(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "settings"
    before = b"\xef\xbb\xbf" + (b'{"a": 1}' if client.syntax == "json" else b"a = 1\n")
    path.write_bytes(before)
    install(client, LAUNCH, path).apply()
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    uninstall(client, path).apply()
    assert path.read_bytes() == before


def test_mode_link_and_earlier_backups_survive(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "mcp.json"
    target.parent.mkdir()
    target.write_text('{"mcpServers": {"git": {}}}')
    target.chmod(0o640)
    link = tmp_path / "mcp.json"
    link.symlink_to(target)
    first = install(CLIENTS["cursor"], LAUNCH, link).apply()
    second = uninstall(CLIENTS["cursor"], link).apply()
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert first is not None
    assert second is not None
    assert first.read_text() == target.read_text() == '{"mcpServers": {"git": {}}}'
    assert "zapomni" in second.read_text()
    assert stat.S_IMODE(first.stat().st_mode) == 0o640
    assert sorted(target.parent.iterdir()) == sorted([target, first, second])


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    install(CLIENTS["cursor"], LAUNCH, path).apply()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_whoever_wrote_in_between_wins(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    change = install(CLIENTS["cursor"], LAUNCH, path)
    path.write_text('{"new": 1}')
    with pytest.raises(ConfigError, match="another program"):
        change.apply()
    assert path.read_text() == '{"new": 1}'
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "locked" / "mcp.json"
    path.parent.mkdir(mode=0o500)
    with pytest.raises(ConfigError, match="cannot be changed"):
        install(CLIENTS["cursor"], LAUNCH, path).apply()


def test_a_folder_in_the_file_s_place_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        install(CLIENTS["cursor"], LAUNCH, tmp_path)


def test_the_diff_shows_our_lines_and_only_those(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('model = "o"')
    diff = install(CODEX, Launch("/bin/zapomni", ("serve",)), path).diff()
    changed = [line for line in diff.splitlines()[2:] if line[0] in "+-"]
    assert [line for line in changed if line.startswith("-")] == ['-model = "…"']
    assert "+[mcp_servers.zapomni]" in changed
    assert "No newline at end of file" in diff
    assert path.read_text() == 'model = "o"', "showing is not doing"


def hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: hidden(item) for name, item in value.items()}
    if isinstance(value, list):
        return [hidden(item) for item in value]
    return "…" if isinstance(value, str) else value


@given(json_texts("mcpServers"))
@AT_ANY_SPEED
def test_of_json_that_is_shown_names_and_numbers_stay_and_no_text(text: str) -> None:
    assert jsonc.parse(jsonc.hide(text, ())) == hidden(jsonc.parse(text))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a = 'hunter2' # or \"hunter2\"\n", 'a = "…" # or …\n'),
        ("a.'b c'.\"d\" = ['hunter2', \"hunter2\"]\n", 'a.\'b c\'."d" = ["…", "…"]\n'),
        ("a = { 'b c' = 'hunter2', d = 5 }\n", "a = { 'b c' = \"…\", d = 5 }\n"),
        ('a = """\nx = "hunter2" \\""" hunter2"""\nb = 5\n', 'a = "…"\nb = 5\n'),
        ("a = '''\nx = 'hunter2' # '''\nb = true\n", 'a = "…"\nb = true\n'),
        ('a = ["serve", "hunter2"]\n', 'a = ["serve", "…"]\n'),
    ],
)
def test_of_toml_that_is_shown_names_and_numbers_stay_and_what_is_ours(text: str, shown: str) -> None:
    assert tomllib.loads(text)
    assert toml.hide(text, ["serve"]) == shown


ONE_LINE = (
    '{"mcpServers": {"other": {"command": "x", "env": {"TOKEN": "hunter2"}}, "zapomni": {"url": "http://hunter2@h"}}}'
)
SPREAD = json.dumps(json.loads(ONE_LINE), indent=2)
OURS_BEFORE = '{"mcpServers": {"zapomni": {"command": "hunter2", "env": {"ZAPOMNI_EMBEDDING_API_KEY": "hunter2"}}}}'
TOML_BEFORE = "[mcp_servers.other]\nenv = { TOKEN = 'hunter2' }\n\n[mcp_servers.zapomni]\nurl = \"http://hunter2@h\"\n"


@pytest.mark.parametrize("text", [ONE_LINE, SPREAD, OURS_BEFORE, TOML_BEFORE], ids=["line", "spread", "ours", "toml"])
def test_a_diff_shows_what_we_write_and_nobody_s_secrets(text: str, tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text(text)
    client = CODEX if text == TOML_BEFORE else CLIENTS["cursor"]
    for change in (install(client, LAUNCH, path, replace=True), uninstall(client, path, replace=True)):
        diff = change.diff()
        assert "hunter2" not in diff
        assert "zapomni" in diff
        assert b"hunter2" in (change.before or b""), "nothing but what is shown is hidden"
    added = [line for line in install(client, LAUNCH, path, replace=True).diff().splitlines() if line.startswith("+")]
    assert all(any(each in line for line in added) for each in [LAUNCH.command, *LAUNCH.args])
    if "TOKEN" in text:
        install(client, LAUNCH, path, replace=True).apply()
        assert "hunter2" in path.read_text()


CLINE = "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
LINUX = "/home/ann"
MAC = "/Users/ann"
WINDOWS = "/mnt/c/Users/ann"


@pytest.mark.parametrize(
    ("name", "linux", "macos", "windows"),
    [
        (
            "claude-desktop",
            ".config/Claude/claude_desktop_config.json",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("claude-code", ".claude.json", ".claude.json", ".claude.json"),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            "Library/Application Support/Code/User/mcp.json",
            "AppData/Roaming/Code/User/mcp.json",
        ),
        (
            "windsurf",
            ".codeium/windsurf/mcp_config.json",
            ".codeium/windsurf/mcp_config.json",
            ".codeium/windsurf/mcp_config.json",
        ),
        (
            "cline",
            f".config/{CLINE}",
            f"Library/Application Support/{CLINE}",
            f"AppData/Roaming/{CLINE}",
        ),
        ("zed", ".config/zed/settings.json", ".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
        ("gemini-cli", ".gemini/settings.json", ".gemini/settings.json", ".gemini/settings.json"),
        ("codex-cli", ".codex/config.toml", ".codex/config.toml", ".codex/config.toml"),
    ],
)
def test_each_client_s_file_is_looked_for_where_it_is(name: str, linux: str, macos: str, windows: str) -> None:
    client = find(name)
    assert client.path(Machine("linux", Path(LINUX))) == Path(LINUX, linux)
    assert client.path(Machine("macos", Path(MAC))) == Path(MAC, macos)
    assert client.path(Machine("windows", Path(WINDOWS))) == Path(WINDOWS, windows)


@pytest.mark.parametrize(
    ("name", "variable", "expected"),
    [
        ("vscode", "XDG_CONFIG_HOME", "/x/Code/User/mcp.json"),
        ("zed", "XDG_CONFIG_HOME", "/x/zed/settings.json"),
        ("claude-code", "CLAUDE_CONFIG_DIR", "/x/.claude.json"),
        ("codex-cli", "CODEX_HOME", "/x/config.toml"),
    ],
)
def test_variables_move_a_file(name: str, variable: str, expected: str) -> None:
    assert find(name).path(Machine("linux", Path(LINUX), {variable: "/x"})) == Path(expected)
    assert find(name).path(Machine("linux", Path(LINUX), {variable: "x"})) == find(name).path(
        Machine("linux", Path(LINUX))
    )


def test_of_two_places_the_one_in_use_is_meant(tmp_path: Path) -> None:
    machine = Machine("linux", tmp_path)
    shared = tmp_path / ".cline" / "data" / "settings" / "cline_mcp_settings.json"
    assert find("cline").path(machine) != shared
    shared.parent.mkdir(parents=True)
    shared.write_text("{}")
    assert find("cline").path(machine) == shared


@every_client
def test_a_client_is_present_once_its_file_or_its_program_is(client: Client, tmp_path: Path) -> None:
    machine = Machine("linux", tmp_path / "home", {"PATH": str(tmp_path / "bin")})
    assert not client.present(machine)
    if client.program is not None:
        program = tmp_path / "bin" / client.program
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert client.present(machine)
        program.unlink()
    path = client.path(machine)
    path.parent.mkdir(parents=True)
    path.touch()
    assert client.present(machine)


def test_an_unknown_client_gets_a_hint() -> None:
    with pytest.raises(ValidationError, match="did you mean claude-code"):
        find("Claude Code")
    with pytest.raises(ValidationError, match="codex-cli"):
        find("emacs")


def test_this_machine_is_one_of_the_known_kinds() -> None:
    assert Machine.current().platform == ("macos" if sys.platform == "darwin" else "linux")


@every_client
def test_the_snippet_is_what_an_empty_file_would_get(client: Client) -> None:
    reading: Callable[[str], dict[str, Any]] = tomllib.loads if client.syntax == "toml" else json.loads
    assert reading(snippet(client, LAUNCH)) == {client.table: {"zapomni": client.entry(LAUNCH)}}


def test_the_command_is_absolute_and_belongs_to_this_installation() -> None:
    launch = Launch.of_this_installation(["--read-only"], {"ZAPOMNI_WORKSPACE": "w"})
    assert Path(launch.command).is_absolute()
    assert launch.args[-2:] == ("serve", "--read-only")
    assert launch.env == {"ZAPOMNI_WORKSPACE": "w"}
    assert os.access(launch.command, os.X_OK)
    module = "from zapomni.clients import Launch; print(Launch.of_this_installation().command)"
    elsewhere = subprocess.run(
        [sys.executable, "-c", module], cwd="/", capture_output=True, text=True, check=True, timeout=60
    )
    assert elsewhere.stdout.strip() == launch.command


def test_windows_starts_us_through_wsl_with_our_variables() -> None:
    launch = Launch("/home/ann/.local/bin/zapomni", ("serve",), {"A": "b c"}).through_wsl("Ubuntu")
    assert launch.command == "wsl.exe"
    assert launch.args == ("-d", "Ubuntu", "--exec", "env", "A=b c", "/home/ann/.local/bin/zapomni", "serve")
    assert launch.env == {}
