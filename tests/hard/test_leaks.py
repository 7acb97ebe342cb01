"""Thousands of calls, a third of them given up by the client: nothing grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio
import trio.testing

from tests.fakes import SlowTool, server_with
from tests.hard.served import served
from tests.servers import server_of
from tests.wire import call, cancel, connected, request

if TYPE_CHECKING:
    from pathlib import Path

    import psutil
    import pytest

    from tests.wire import RawClient

BATCH = 60


@attrs.frozen
class Holdings:
    descriptors: int
    threads: int
    resident: int

    @classmethod
    def of(cls, process: psutil.Process) -> Holdings:
        return cls(process.num_fds(), process.num_threads(), process.memory_info().rss)


async def batch(client: RawClient, start: int) -> None:
    """Send searches and additions, give every third one up, some at once and some as it runs, and wait for the rest."""
    numbers = range(start, start + BATCH)
    for number in numbers:
        tool = "add_memory" if number % 4 == 0 else "search_memory"
        arguments = {"text": f"memory number {number}"} if number % 4 == 0 else {"query": f"number {number}"}
        await client.send(call(number, tool, **arguments))
        if number % 3 == 0:
            await trio.sleep(number % 5 / 500)
            await client.send(cancel(number))
    for number in numbers:
        if number % 3:
            assert (await client.answer_to(number))["result"]["isError"] is False
    await client.ask(request(f"after {start}", "ping"))
    client.kept.clear()  # what was answered before it could be given up


def calls_to_make(request: pytest.FixtureRequest) -> int:
    return 10_000 if request.config.getoption("--slow") else 1_200


async def test_calls_leave_nothing_behind(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    calls = calls_to_make(request)
    async with served(tmp_path) as (client, process):
        for start in range(0, 600, BATCH):  # caches fill, and connections open
            await batch(client, start)
        store = server_of(tmp_path)
        before, store_before = Holdings.of(process), Holdings.of(store)
        for start in range(1_020, 1_020 + calls // 2, BATCH):
            await batch(client, start)
        half = Holdings.of(process)
        for start in range(20_040, 20_040 + calls // 2, BATCH):
            await batch(client, start)
        await trio.sleep(1)  # for threads that were abandoned
        after, store_after = Holdings.of(process), Holdings.of(store)
        assert after.descriptors <= before.descriptors + 2
        assert after.threads <= before.threads + 2
        assert after.resident < half.resident + 6_000_000
        assert store_after.descriptors <= store_before.descriptors + 2
        assert store_after.threads <= store_before.threads + 2
        stats = (await client.ask(call("stats", "get_stats")))["result"]["structuredContent"]
        assert stats["total_memories"] >= (calls + 600) // 6, "those that nobody gave up"


async def test_calls_leave_no_task_behind(request: pytest.FixtureRequest) -> None:
    """In one process with the server, where its tasks can be counted; what is given up is given up as it runs."""
    tool = SlowTool()
    async with connected(server_with(tool)) as client:
        await client.ask(call("first", "slow_tool", seconds=0))
        before = trio.lowlevel.current_statistics().tasks_living
        for number in range(calls_to_make(request)):
            given_up = number % 3 == 0
            await client.send(call(number, "slow_tool", seconds=60 if given_up else 0))
            if given_up:
                await trio.testing.wait_all_tasks_blocked()
                assert tool.running == 1
                await client.send(cancel(number))
            else:
                assert (await client.answer_to(number))["result"]["isError"] is False
        await trio.testing.wait_all_tasks_blocked()
        assert tool.running == 0
        assert trio.lowlevel.current_statistics().tasks_living == before
        assert client.kept == []
