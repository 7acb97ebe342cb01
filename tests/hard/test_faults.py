"""Several clients write, search, update and delete while everything around them breaks, as a seed decides.

The quick form runs in every test run; ``--hard-seconds 1200`` makes it a long one, ``--hard-seed`` repeats one.
"""

from __future__ import annotations

import random
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import trio

from tests.hard import faults
from tests.hard.clients import LINGER, Client, Tally
from tests.hard.clock import Clock
from tests.hard.ledger import Ledger
from zapomni.config import Settings
from zapomni.engine import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENTS = 4
CHECK_SECONDS = 600.0
STAYS = {"appendonlydir", "clients.lock", "compact", "reaper.lock", "server.lock", "server.log", "socket.path"}
"""What may be left in the store's directory when nobody uses it."""


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
        tally.faults[fault.__name__] += 1
        await trio.sleep(scene.random.expovariate(2))


async def test_nothing_acknowledged_is_lost_whatever_breaks(
    disk: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = request.config.getoption("--hard-seconds")
    seed = request.config.getoption("--hard-seed") or random.randrange(1 << 32)
    data, clock, ledger, tally = disk / "data", Clock.make(tmp_path), Ledger(), Tally()
    data.mkdir(mode=0o700)
    scene = faults.Scene(data, random.Random(seed), clock, disk / "filler")
    async with trio.open_nursery() as nursery:
        for number in range(CLIENTS):
            client = Client(number, data, seed, ledger, tally, clock.variables)
            nursery.start_soon(client.use_for_ever)
        await break_things(scene, seconds, tally)
        nursery.cancel_scope.cancel()
    async with open_engine(Settings(data_dir=data, store_linger=LINGER)) as engine:
        with trio.fail_after(CHECK_SECONDS):
            wrong = await ledger.violations(engine)
            missed = await ledger.unfindable(engine)
    with capsys.disabled():
        print(f"\nseed {seed}: {tally.faults.total()} faults, {tally.kills} kills, {tally}")
    assert wrong == [], f"seed {seed}"
    assert missed == [], f"seed {seed}"
    assert tally.unanswered == 0, f"seed {seed}"
    with trio.fail_after(LINGER + 12):  # ten of them for a busy machine
        while scene.servers() or scene.reapers() or scene.clients():  # noqa: ASYNC110  # not our children
            await trio.sleep(0.1)
    assert {path.name for path in (data / "store").iterdir()} <= STAYS
