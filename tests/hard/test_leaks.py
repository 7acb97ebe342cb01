"""Thousands of calls, a third of them given up by the client: nothing grows."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import psutil
import trio

from tests.wire import RawClient, call, cancel, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

ROOT = Path(__file__).parent.parent.parent
BATCH = 60


@attrs.frozen
class Holdings:
    descriptors: int
    threads: int
    resident: int

    @classmethod
    def of(cls, process: psutil.Process) -> Holdings:
        return cls(process.num_fds(), process.num_threads(), process.memory_info().rss)


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


async def batch(client: RawClient, start: int) -> None:
    """Send searches and additions, give every third one up at once, and wait for the rest."""
    numbers = range(start, start + BATCH)
    for number in numbers:
        tool = "add_memory" if number % 6 == 0 else "search_memory"
        arguments = {"text": f"memory number {number}"} if number % 6 == 0 else {"query": f"number {number}"}
        await client.send(call(number, tool, **arguments))
        if number % 3 == 0:
            await client.send(cancel(number))
    for number in numbers:
        if number % 3:
            assert (await client.answer_to(number))["result"]["isError"] is False
    await client.ask(request(f"after {start}", "ping"))
    client.kept.clear()  # what was answered before it could be given up


async def test_calls_leave_nothing_behind(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    calls = 10_000 if request.config.getoption("--slow") else 1_200
    async with served(tmp_path) as (client, process):
        for start in range(0, 600, BATCH):  # caches fill, and connections open
            await batch(client, start)
        before = Holdings.of(process)
        for start in range(1_000, 1_000 + calls, BATCH):
            await batch(client, start)
        await trio.sleep(1)  # for threads that were abandoned
        after = Holdings.of(process)
        assert after.descriptors <= before.descriptors + 2
        assert after.threads <= before.threads + 2
        assert after.resident < before.resident + 30_000_000
