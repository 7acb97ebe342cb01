"""Several clients write, search and delete while everything around them breaks, in an order that a seed decides.

The quick form runs in every test run; ``--hard-seconds 1200`` makes it a long one, ``--hard-seed`` repeats one.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio

from tests.hard import faults
from tests.hard.ledger import Ledger
from tests.wire import RawClient, call
from zapomni.config import Settings
from zapomni.engine import open_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

ROOT = Path(__file__).parent.parent.parent
CLIENTS = 4
LINGER = 1.0
CALL_SECONDS = 20.0
BIG = 200_000
"""Characters of the large texts, which are written in several batches."""


@attrs.define
class Tally:
    rounds: int = 0
    kills: int = 0
    starts: int = 0
    acknowledged: int = 0
    errors: int = 0
    unanswered: int = 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, where the system lets us have one; else a folder that never fills up."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512m,mode=700", "none", path], check=False, capture_output=True
    )
    try:
        yield path
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", path], check=True)


class Client:
    """A client that uses its server until it breaks, and then starts another."""

    def __init__(self, number: int, data: Path, seed: int, ledger: Ledger, tally: Tally) -> None:
        self.number = number
        self.random = random.Random(f"{seed}-{number}")
        self.data = data
        self.ledger = ledger
        self.tally = tally
        self.made = 0
        jumps = number == 0  # one of the clients has a clock that cannot be trusted
        starter = ["-m", "tests.hard.worker", str(seed)] if jumps else ["-m", "zapomni"]
        flags = ["--data-dir", str(data), "--log-level", "error", "--request-timeout", str(CALL_SECONDS / 2)]
        self.command = [sys.executable, *starter, "serve", *flags]

    async def use_for_ever(self) -> None:
        while True:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
                async with self.server() as server:
                    await server.initialize()
                    while True:
                        await self.act(server)

    @contextlib.asynccontextmanager
    async def server(self) -> AsyncIterator[RawClient]:
        self.tally.starts += 1
        environment = {"ZAPOMNI_STORE_LINGER": str(LINGER)}
        process = await trio.lowlevel.open_process(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env={**_clean(), **environment}
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield RawClient(process.stdin, process.stdout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def act(self, server: RawClient) -> None:
        kind = self.random.random()
        known = list(self.ledger.acknowledged)
        if kind < 0.7 or not known:
            await self.add(server)
        elif kind < 0.9:
            await self.ask(server, "search_memory", query=self.random.choice(known), limit=3)
        else:
            await self.delete(server, self.random.choice(known))

    async def add(self, server: RawClient) -> None:
        self.made += 1
        word = f"w{self.number}x{self.made}"
        text = f"{word} " + " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(3, 60)))
        if self.random.random() < 0.03:
            text += " more" * (BIG // 5)
        self.ledger.sent[word] = text
        answer = await self.ask(server, "add_memory", text=text, metadata={"source": f"client {self.number}"})
        if answer is not None:
            self.ledger.acknowledged[word] = answer["memory_id"]
            self.tally.acknowledged += 1

    async def delete(self, server: RawClient, word: str) -> None:
        if word in self.ledger.deleting:
            return
        self.ledger.deleting.add(word)
        answer = await self.ask(server, "delete_memory", memory_id=self.ledger.acknowledged[word], confirm=True)
        if answer is not None:
            self.ledger.deleted.add(word)

    async def ask(self, server: RawClient, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the structured answer; None for an error. A server that is gone raises."""
        request_id = f"{tool} {self.random.random()}"
        await server.send(call(request_id, tool, **arguments))
        with trio.move_on_after(CALL_SECONDS) as scope:
            answer = await server.answer_to(request_id)
        if scope.cancelled_caught:
            self.tally.unanswered += 1
            raise EOFError("a call was not answered")
        result: dict[str, Any] = answer.get("result", {"isError": True})
        if result.get("isError"):
            self.tally.errors += 1
            return None
        structured: dict[str, Any] = result["structuredContent"]
        return structured


WORDS = (
    "cat",
    "dog",
    "tea",
    "sofa",
    "garden",
    "music",
    "Лондон",
    "снег",
    "память",
    "记忆",
    "茶",
    "🐈",
    "database",
    "Rust",
)


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")}


async def break_things(scene: faults.Scene, seconds: float, tally: Tally) -> None:
    """Begin when there is something to lose."""
    with trio.fail_after(60):
        while not tally.acknowledged:  # noqa: ASYNC110  # nobody tells
            await trio.sleep(0.05)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fault = scene.random.choice(faults.FAULTS)
        async with fault(scene):
            await trio.sleep(scene.random.uniform(0, faults.BRIEFLY))
        tally.rounds += 1
        tally.kills += fault.__name__.startswith(("killed", "removed"))
        await trio.sleep(scene.random.expovariate(2))


async def test_nothing_acknowledged_is_lost_whatever_breaks(
    disk: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = request.config.getoption("--hard-seconds")
    seed = request.config.getoption("--hard-seed") or random.randrange(1 << 32)
    data = disk / "data"
    data.mkdir()
    ledger, tally = Ledger(), Tally()
    scene = faults.Scene(data, random.Random(seed), disk / "filler")
    async with trio.open_nursery() as nursery:
        for number in range(CLIENTS):
            nursery.start_soon(Client(number, data, seed, ledger, tally).use_for_ever)
        await break_things(scene, seconds, tally)
        nursery.cancel_scope.cancel()
    async with open_engine(Settings(data_dir=data, store_linger=LINGER)) as engine:
        with trio.fail_after(120):
            wrong = await ledger.violations(engine)
            missed = await ledger.unfindable(engine, sample=50)
    with capsys.disabled():
        print(f"\nseed {seed}: {tally}, {len(ledger.deleted)} deleted")
    assert wrong == [], f"seed {seed}"
    assert missed == [], f"seed {seed}"
    assert tally.unanswered == 0, f"seed {seed}"
    await trio.sleep(LINGER)
    with trio.fail_after(2 + 10):  # ten more for a busy machine
        while scene.servers() or scene.reapers() or scene.clients():  # noqa: ASYNC110  # not our children
            await trio.sleep(0.1)
    assert [path.name for path in (data / "store").glob("temp-*")] == []
