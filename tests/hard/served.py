"""The real server on the real store, as a process that speaks the protocol."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import trio

from tests.servers import wait_until_gone
from tests.wire import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

ROOT = Path(__file__).parent.parent.parent
GONE_SECONDS = 30.0
"""Within which nothing of a server is left, its store and the reaper of that included."""


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a server is started with: none of our own settings, and a store that ends at once."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")}
    return {**ours, "ZAPOMNI_STORE_LINGER": "0", **(variables or {})}


@contextlib.asynccontextmanager
async def served(data: Path) -> AsyncIterator[tuple[RawClient, psutil.Process]]:
    """Serve a directory; at the end the server ends well, has complained of nothing, and leaves no process."""
    command = [sys.executable, "-m", "zapomni", "serve", "--data-dir", str(data), "--log-level", "error"]
    with tempfile.TemporaryFile() as log:
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=ROOT, env=environment()
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            client = RawClient(process.stdin, process.stdout)
            await client.initialize()
            yield client, psutil.Process(process.pid)
            await process.stdin.aclose()
            with trio.fail_after(GONE_SECONDS):
                assert await client.receive() is None
                assert await process.wait() == 0
            log.seek(0)
            assert log.read().decode() == ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                await wait_until_gone(data, GONE_SECONDS)
