"""What others on the machine can see: nothing."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.hard.served import served
from tests.wire import call
from zapomni import config
from zapomni.config import Settings
from zapomni.engine import open_engine
from zapomni.errors import ZapomniError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent
SECRET = "hunter2-0f3c"


def everything_in(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


async def test_everything_in_the_data_directory_is_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with served(data) as (client, _):
        await client.ask(call(1, "add_memory", text="a private thought"))
        open_to_others = [
            f"{path.relative_to(tmp_path)} {stat.filemode(path.lstat().st_mode)}"
            for path in everything_in(data)
            if path.lstat().st_mode & 0o077
        ]
    assert open_to_others == []


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


@pytest.mark.parametrize(
    "variables",
    [
        {"ZAPOMNI_FALKORDB_URL": f"falkor://me:{SECRET}@127.0.0.1:1/"},
        {"ZAPOMNI_EMBEDDER": "openai", "ZAPOMNI_EMBEDDING_URL": "http://127.0.0.1:1/v1", "ZAPOMNI_EMBEDDING_MODEL": "m",
         "ZAPOMNI_EMBEDDING_API_KEY": SECRET},
        {"ZAPOMNI_EMBEDDER": "openai", "ZAPOMNI_EMBEDDING_URL": f"http://me:{SECRET}@127.0.0.1:1/v1",
         "ZAPOMNI_EMBEDDING_MODEL": "m"},
        {"ZAPOMNI_FALKORDB_URL": f"nonsense://me:{SECRET}@host"},
    ],
)  # fmt: skip
def test_secrets_reach_neither_log_nor_answer(tmp_path: Path, variables: dict[str, str]) -> None:
    lines = (
        '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
        '"clientInfo":{"name":"t","version":"1"}}}\n'
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_memory","arguments":{"text":"hello"}}}\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "zapomni", "serve", "--log-level", "debug", "--shutdown-grace", "20"],
        input=lines.encode(),
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ZAPOMNI_DATA_DIR": str(tmp_path / "d"), **variables},
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    text = (done.stdout + done.stderr).decode()
    assert text, "it said nothing at all"
    assert SECRET not in text


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
