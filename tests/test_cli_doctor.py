"""The doctor: every line says ok or what to do, and nothing is left of the examination."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from tests.servers import wait_until_gone
from zapomni.cli.checkup import CHECKS, Finding, examine
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings


async def findings_of(settings: Settings) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {name: [] for name in CHECKS}
    with trio.fail_after(120):
        healthy = await examine(settings, lambda finding: found[finding.check].append(finding))
    assert healthy is all(finding.state != "failed" for findings in found.values() for finding in findings)
    return found


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, in which no client has settings."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("PATH", str(home))
    return home


async def test_a_healthy_store_is_found_healthy_and_left_as_it_was(store_settings: Settings) -> None:
    async with open_store(store_settings) as store:
        before = [info for info in await store.list_workspaces() if info.name.startswith("doctor-")]
        found = await findings_of(store_settings)
        after = [info for info in await store.list_workspaces() if info.name.startswith("doctor-")]
    assert {name: [finding.state for finding in findings] for name, findings in found.items()} == {
        name: ["ok"] for name in CHECKS
    }
    assert before == after == []


async def test_every_finding_that_is_not_ok_says_what_to_do(store_settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broken = attrs.evolve(store_settings, data_dir=tmp_path / "file" / "data", falkordb_url=None)
    found = await findings_of(broken)
    assert {findings[0].state for findings in found.values()} == {"ok", "warning", "failed"}
    for findings in found.values():
        assert all(finding.advice for finding in findings if finding.state != "ok")
    assert found["data directory"][0].told == f"{tmp_path / 'file'} is a file, not a folder"


@pytest.mark.parametrize("place", ["data", "data/store"])
async def test_a_bad_data_directory_is_blamed_alone(place: str, store_settings: Settings, tmp_path: Path) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("")
    broken = attrs.evolve(store_settings, data_dir=tmp_path / "data", falkordb_url=None)
    found = await findings_of(broken)
    assert found["data directory"][0].told == f"{tmp_path / place} is a file, not a folder"
    assert [name for name, findings in found.items() if findings[0].state == "failed"] == ["data directory"]
    for name in ("store", "model", "round trip"):
        assert found[name] == [
            Finding(name, "warning", "not tried: the data directory comes first", "mend that, and run the doctor again")
        ]


async def test_a_database_elsewhere_needs_no_data_directory(store_settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remote = attrs.evolve(store_settings, data_dir=tmp_path / "file", falkordb_url="falkor://127.0.0.1:1")
    found = await findings_of(remote)
    assert found["data directory"][0].told == found["disk"][0].told == "not needed: falkordb_url names a server"
    assert found["store"][0].state == "failed"


async def test_an_embedder_that_does_not_answer_is_found(store_settings: Settings) -> None:
    remote = attrs.evolve(
        store_settings, embedder="ollama", embedding_model="bge-m3", embedding_url="http://127.0.0.1:1"
    )
    found = await findings_of(remote)
    assert found["store"][0].state == "ok"
    assert found["model"][0].state == found["round trip"][0].state == "failed"
    assert "ollama pull" in found["model"][0].advice


async def test_a_database_that_does_not_answer_is_found_and_its_password_is_not_told(store_settings: Settings) -> None:
    remote = attrs.evolve(store_settings, falkordb_url="falkor://:hunter2@127.0.0.1:1")
    found = await findings_of(remote)
    assert found["binaries"][0].told == "not needed: falkordb_url names a server"
    assert found["store"][0].state == "failed"
    assert "hunter2" not in str(found)


async def test_clients_are_looked_at_and_not_touched(store_settings: Settings, home: Path) -> None:
    cursor, codex = home / ".cursor" / "mcp.json", home / ".codex" / "config.toml"
    contents = {
        cursor: '{"mcpServers": {"zapomni": {"command": "elsewhere"}}}',
        codex: "not = [toml",
        home / ".gemini" / "settings.json": "{}",
    }
    for path, content in contents.items():
        path.parent.mkdir()
        path.write_text(content)
    found = (await findings_of(store_settings))["clients"]
    assert [(finding.state, finding.told.partition(" (")[0]) for finding in found[:2]] == [
        ("warning", "Cursor"),
        ("ok", "Gemini CLI"),
    ]
    assert found[0].advice == "if that is not meant: zapomni install cursor"
    assert (found[2].state, str(codex) in found[2].told) == ("warning", True)
    assert {path: path.read_text() for path in contents} == contents


def doctor(data: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")}
    return subprocess.run(
        [sys.executable, "-m", "zapomni", "doctor", "--data-dir", str(data), *flags],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**environ, "ZAPOMNI_STORE_LINGER": "0"},
    )


def test_a_new_machine_is_healthy(tmp_path: Path) -> None:
    done = doctor(tmp_path / "data")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(CHECKS)
    assert all(line.startswith("ok    ") for line in lines)
    assert "will be made when it is first needed" in done.stdout
    assert "was not running, started in" in done.stdout


def test_a_machine_reads_what_a_person_reads(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    done = doctor(tmp_path / "data", "--json")
    assert done.returncode == 1
    data: dict[str, Any] = json.loads(done.stdout)
    assert data["healthy"] is False
    states = {check["check"]: check["state"] for check in data["checks"]}
    assert (states["python"], states["data directory"], states["store"]) == ("ok", "failed", "warning")
    plain = doctor(tmp_path / "data")
    assert plain.returncode == 1
    assert "FAIL  data directory: " in plain.stdout
    assert "      -> choose another with --data-dir" in plain.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_directory_that_cannot_be_written_is_blamed_alone(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(0o500)
    done = doctor(closed)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"FAIL  data directory: {closed} cannot be written to by this user\n" in done.stdout
    assert done.stdout.count("FAIL") == 1


def test_the_folder_of_the_store_is_private(tmp_path: Path) -> None:
    doctor(tmp_path / "data")
    (tmp_path / "data" / "store").chmod(0o755)
    shown = doctor(tmp_path / "data").stdout
    assert f"warn  data directory: others may look into {tmp_path / 'data' / 'store'}" in shown


def test_a_repair_leaves_everything_to_be_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "zapomni"]
    environ = {**os.environ, "ZAPOMNI_DATA_DIR": str(tmp_path / "data"), "ZAPOMNI_STORE_LINGER": "0"}
    subprocess.run([*command, "add", "The spare key is with Nadia"], check=True, timeout=60, env=environ)
    done = doctor(tmp_path / "data", "--repair")
    assert (done.returncode, done.stderr) == (0, "")
    found = subprocess.run(
        [*command, "search", "spare key"], check=True, timeout=60, env=environ, capture_output=True, text=True
    )
    assert found.stdout.endswith("The spare key is with Nadia\n")


def test_a_damaged_data_file_is_named_and_salvaged(tmp_path: Path) -> None:
    """The way that the error message shows is walked to its end."""
    data = tmp_path / "data"
    environment = {**os.environ, "ZAPOMNI_DATA_DIR": str(data), "ZAPOMNI_STORE_LINGER": "0"}

    def zapomni(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zapomni", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)

    for number in range(5):
        assert zapomni("add", f"memory number {number}").returncode == 0
    trio.run(wait_until_gone, data, 20)
    (file,) = (data / "store" / "appendonlydir").glob("*.incr.aof")
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4096] = bytes(4096)
    file.write_bytes(content)
    failed = zapomni("list")
    assert failed.returncode == 1
    assert "zapomni doctor --salvage" in failed.stderr
    mended = zapomni("doctor", "--salvage")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "behind the damage were cut off" in mended.stderr
    assert 0 < len(zapomni("list").stdout.splitlines()) < 5
