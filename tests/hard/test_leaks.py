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
WARM = 600
"""Calls until caches are full and connections open."""
GROWTH = 1_500_000
"""Bytes that memory may vary by, however many searches there were; 3 KB for each would be more."""


@attrs.frozen
class Holdings:
    descriptors: int
    threads: int
    resident: int

    @classmethod
    def of(cls, process: psutil.Process) -> Holdings:
        return cls(process.num_fds(), process.num_threads(), process.memory_info().rss)

    def is_kept_by(self, later: Holdings) -> bool:
        """Tell whether no more is held later, but for what a pool may open in between."""
        return later.descriptors <= self.descriptors + 2 and later.threads <= self.threads + 2


async def batch(client: RawClient, start: int, *, writing: bool) -> None:
    """Send searches and perhaps additions, give every third one up, at once or as it runs, and wait for the rest."""
    numbers = range(start, start + BATCH)
    for number in numbers:
        if writing and number % 4 == 0:
            await client.send(call(number, "add_memory", text=f"memory number {number}"))
        else:
            await client.send(call(number, "search_memory", query=f"number {number % BATCH}"))
        if number % 3 == 0:
            await trio.sleep(number % 5 / 500)
            await client.send(cancel(number))
    for number in numbers:
        if number % 3:
            assert (await client.answer_to(number))["result"]["isError"] is False
    await client.ask(request(f"after {start}", "ping"))
    client.kept.clear()  # what was answered before it could be given up


def calls_to_make(request: pytest.FixtureRequest) -> int:
    return 10_020 if request.config.getoption("--slow") else 600


async def test_calls_leave_nothing_behind(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    calls = calls_to_make(request)
    async with served(tmp_path) as (client, process):
        for start in range(0, WARM, BATCH):
            await batch(client, start, writing=True)
        store = server_of(tmp_path)
        before, store_before = Holdings.of(process), Holdings.of(store)
        for start in range(10_020, 10_020 + calls, BATCH):
            await batch(client, start, writing=True)
        await trio.sleep(1)  # for threads that were abandoned
        assert before.is_kept_by(Holdings.of(process))
        assert store_before.is_kept_by(Holdings.of(store))
        stats = (await client.ask(call("stats", "get_stats")))["result"]["structuredContent"]
        assert stats["total_memories"] >= (calls + WARM) // 6, "those that nobody gave up"


async def test_searches_cost_no_memory_that_is_kept(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    calls = calls_to_make(request)
    async with served(tmp_path) as (client, process):
        for number in range(100):
            await client.ask(call(f"add {number}", "add_memory", text=f"memory number {number}"))
        for start in range(0, WARM, BATCH):
            await batch(client, start, writing=False)
        store = server_of(tmp_path)
        before, store_before = Holdings.of(process), Holdings.of(store)
        for start in range(10_020, 10_020 + calls, BATCH):
            await batch(client, start, writing=False)
        await trio.sleep(1)
        after, store_after = Holdings.of(process), Holdings.of(store)
        assert before.is_kept_by(after)
        assert store_before.is_kept_by(store_after)

        assert after.resident < before.resident + GROWTH
        assert store_after.resident < store_before.resident + GROWTH


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
