"""What others on the machine can see: nothing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import trio

from tests.embedding_server import open_embedding_server
from tests.hard.served import served
from tests.wire import call
from zapomni import config
from zapomni.config import Settings
from zapomni.engine import open_engine
from zapomni.errors import ZapomniError
from zapomni.store import reaper, seal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent.parent
SECRET = "hunter2-0f3c"


def open_to_others(folder: Path) -> list[str]:
    """Return what anybody but its owner could read, write or enter."""
    return [
        f"{path.relative_to(folder)} {stat.filemode(path.lstat().st_mode)}"
        for path in (folder, *folder.rglob("*"))
        if path.lstat().st_mode & 0o077
    ]


@pytest.fixture
def careless() -> Iterator[None]:
    """A umask that takes nothing from the modes that files are made with."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def zapomni(*arguments: str, home: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user whose home this is, with nothing of our own environment."""
    return subprocess.run(
        [sys.executable, "-m", "zapomni", *arguments],
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "ZAPOMNI_STORE_LINGER": "0", **variables},
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.usefixtures("careless")
async def test_everything_in_the_data_directory_is_private(tmp_path: Path) -> None:
    """While it is served, when it was closed, when it was compacted, and when it was salvaged."""
    data = tmp_path / "data"
    async with served(data) as (client, _):
        await client.ask(call(1, "add_memory", text="a private thought"))
        assert open_to_others(data) == []
    assert open_to_others(data) == []
    async with served(data) as (client, _):
        await client.ask(call(1, "add_memory", text="a second thought"))
        reaper.note_removal(data / "store")
        assert open_to_others(data) == []
    files = data / "store" / seal.FILES
    assert (files / seal.SEAL).exists()
    assert not (files / "appendonly.aof.1.base.rdb").exists(), "nothing was compacted"
    assert open_to_others(data) == []
    async with served(data) as (client, _):
        await client.ask(call(1, "add_memory", text="a third thought"))
    (growing,) = files.glob("*.incr.aof")
    growing.write_bytes(growing.read_bytes().replace(b"a third thought", b"a bird thought!", 1))
    done = zapomni("doctor", "--salvage", "--data-dir", str(data), home=tmp_path)
    assert list((data / "store").glob("damaged-*")), done
    assert open_to_others(data) == []


@pytest.mark.usefixtures("careless")
async def test_what_is_written_for_its_owner_is_private(tmp_path: Path) -> None:
    data, made = tmp_path / "data", tmp_path / "made"
    made.mkdir(mode=0o700)
    async with served(data) as (client, _):
        await client.ask(call(1, "add_memory", text="a private thought"))
    for arguments in (
        ("backup", str(made / "all.zapomni")),
        ("export", str(made / "all.jsonl")),
        ("export", "--format", "markdown", str(made / "notes")),
    ):
        done = zapomni(*arguments, "--data-dir", str(data), home=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len([path for path in made.rglob("*") if path.is_file()]) >= 3
    assert open_to_others(made) == []


async def test_nothing_listens_on_a_network(tmp_path: Path) -> None:
    async with served(tmp_path) as (client, process):
        await client.ask(call(1, "add_memory", text="a private thought"))
        servers = [other for other in psutil.process_iter() if _works_in(other, tmp_path / "store")]
        assert servers, "the store's own process was not found"
        for each in (process, *servers):
            assert each.net_connections(kind="inet") == []


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return bool(process.cwd() == str(folder))
    except psutil.Error:
        return False


UNREACHABLE = (
    {"ZAPOMNI_FALKORDB_URL": f"falkor://me:{SECRET}@127.0.0.1:1/"},
    {"ZAPOMNI_FALKORDB_URL": f"nonsense://me:{SECRET}@host"},
    {"ZAPOMNI_FALKORDB_URL": f"falkors://me:{SECRET}@127.0.0.1:1?ssl_nonsense={SECRET}"},
)


@pytest.mark.parametrize("variables", UNREACHABLE)
def test_secrets_of_a_store_reach_neither_log_nor_answer(tmp_path: Path, variables: dict[str, str]) -> None:
    assert SECRET not in said_by_a_server(tmp_path, variables)


def refusal(_: str, __: object) -> tuple[int, bytes]:
    return 401, b'{"error": "no such key"}'


def detour(_: str, __: object) -> tuple[int, bytes]:
    return 302, b""


@pytest.mark.parametrize(
    ("embedder", "answer"), [("openai", None), ("openai", refusal), ("openai", detour), ("ollama", refusal)]
)
async def test_secrets_of_an_embedder_reach_neither_log_nor_answer(
    tmp_path: Path, embedder: str, answer: Callable[[str, object], tuple[int, bytes]] | None
) -> None:
    """It answers, so that the address is really used, and logged by whoever logs such things."""
    async with open_embedding_server() as server:
        server.answer = answer
        server.headers.append(("Location", f"http://me:{SECRET}@{server.url.removeprefix('http://')}/elsewhere"))
        variables = {
            "ZAPOMNI_EMBEDDER": embedder,
            "ZAPOMNI_EMBEDDING_MODEL": "m",
            "ZAPOMNI_EMBEDDING_URL": server.url.replace("://", f"://me:{SECRET}@") + "/v1",
            "ZAPOMNI_EMBEDDING_API_KEY": SECRET,
        }
        said = await trio.to_thread.run_sync(said_by_a_server, tmp_path, variables)
        assert server.requests, f"the embedder was never asked: {said[-2000:]}"
        assert SECRET not in said
        assert b64encode(f"me:{SECRET}".encode()).decode() not in said


def said_by_a_server(folder: Path, variables: dict[str, str]) -> str:
    """Return everything that a server says at debug level while it adds a memory."""
    lines = (
        '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        '"clientInfo":{"name":"t","version":"1"}}}\n'
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_memory","arguments":{"text":"hello"}}}\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "zapomni", "serve", "--log-level", "debug", "--shutdown-grace", "20"],
        input=lines.encode(),
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "ZAPOMNI_DATA_DIR": str(folder / "d"),
            "ZAPOMNI_STORE_LINGER": "0",
            **variables,
        },
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    said = (done.stdout + done.stderr).decode()
    assert "Traceback (most recent call last)\n" not in said
    assert said, "it said nothing at all"
    return said


@pytest.mark.parametrize(
    "arguments",
    [
        ("config", "show"),
        ("config", "show", "--json"),
        ("doctor",),
        ("install", "--all", "--dry-run"),
        ("stats", "--log-level", "debug"),
        ("serve", "--falkordb-url", f"falkor://me:{SECRET}@127.0.0.1:1/?nonsense={SECRET}"),
        ("doctor", "--falkordb-url", f"falkor:/me:{SECRET}@host"),
        ("stats", "--pool-size", "many"),
    ],
)
def test_secrets_are_in_nothing_that_a_command_says(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = zapomni(
        *arguments,
        home=tmp_path,
        ZAPOMNI_DATA_DIR=str(tmp_path / "d"),
        ZAPOMNI_FALKORDB_URL=f"falkor://me:{SECRET}@127.0.0.1:1/",
        ZAPOMNI_EMBEDDER="openai",
        ZAPOMNI_EMBEDDING_MODEL="m",
        ZAPOMNI_EMBEDDING_URL=f"http://me:{SECRET}@127.0.0.1:1/v1",
        ZAPOMNI_EMBEDDING_API_KEY=SECRET,
    )
    said = (done.stdout + done.stderr).decode()
    assert said, "it said nothing at all"
    assert SECRET not in said


def test_settings_show_no_secret() -> None:
    settings = Settings(
        falkordb_url=f"falkor://:{SECRET}@host", embedding_api_key=SECRET, embedding_url=f"http://{SECRET}@h"
    )
    assert SECRET not in repr(settings)
    with pytest.raises(ZapomniError) as caught:
        config.load({}, {"ZAPOMNI_POOL_SIZE": "many", "ZAPOMNI_FALKORDB_URL": f"falkor://:{SECRET}@host"})
    assert SECRET not in str(caught.value)


async def test_an_engine_that_cannot_reach_its_server_does_not_tell_the_password() -> None:
    async with open_engine(Settings(falkordb_url=f"falkor://:{SECRET}@127.0.0.1:1/")) as engine:
        with pytest.raises(ZapomniError) as caught:
            await engine.add_memory("hello")
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__
