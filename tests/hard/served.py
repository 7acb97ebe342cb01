"""The real server on the real store, as a process that speaks the protocol."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import trio

from tests.wire import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parent.parent.parent


@contextlib.asynccontextmanager
async def served(data: Path) -> AsyncIterator[tuple[RawClient, psutil.Process]]:
    command = [sys.executable, "-m", "zapomni", "serve", "--data-dir", str(data), "--log-level", "error"]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        client = RawClient(process.stdin, process.stdout)
        await client.initialize()
        yield client, psutil.Process(process.pid)
        await process.stdin.aclose()
        with trio.fail_after(10):
            await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
