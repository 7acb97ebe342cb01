"""Several clients write, search, update and delete while everything around them breaks, as a seed decides.

The quick form runs in every test run; ``--hard-seconds 1200`` makes it a long one, ``--hard-seed`` repeats one.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
import trio

from tests.hard import faults
from tests.hard.clients import LINGER, Client, Tally
from tests.hard.clock import Clock
from tests.hard.ledger import Ledger, halves
from tests.hard.seeds import seed_of
from zapomni.config import Settings
from zapomni.engine import open_engine
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENTS = 4
RECOVERY_SECONDS = 60.0
CHECK_SECONDS = 900.0
STAYS = re.compile(
    r"store(/(clients\.lock|compact(\.begun)?|reaper\.lock|server\.lock|server\.log(\.1)?|socket\.path"
    r"|appendonlydir(/(seal|appendonly\.aof\.(manifest|\d+\.base\.rdb|\d+\.incr\.aof)))?))?"
)
"""What may be left in the data directory when nobody uses it."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Path | None]]:
    """A small disk of its own, with a file to fill it by; where the system lets us have none, a folder and no file."""
    path, mount = tmp_path / "disk", shutil.which("mount")
    path.mkdir()
    options = ["-t", "tmpfs", "-o", "size=512m,mode=700", "none", str(path)]
    is_small = mount is not None and not subprocess.run([mount, *options], check=False, capture_output=True).returncode
    try:
        yield path, path / "filler" if is_small else None
    finally:
        if is_small:
            subprocess.run(["umount", "-l", path], check=True)


async def break_things(scene: faults.Scene, seconds: float, tally: Tally) -> None:
    """Begin when there is something to lose."""
    with trio.fail_after(60):
        while not tally.acknowledged:  # noqa: ASYNC110  # nobody tells
            await trio.sleep(0.05)
    end = time.monotonic() + seconds
    deck: list[faults.Fault] = []
    while time.monotonic() < end:
        deck = deck or scene.random.sample(faults.possible(scene), k=len(faults.possible(scene)))  # so that each comes
        fault = deck.pop()
        async with fault(scene):
            await trio.sleep(scene.random.uniform(0, faults.BRIEFLY))
        tally.faults[fault.__name__] += 1
        await trio.sleep(scene.random.expovariate(2))


async def recover(clients: list[Client]) -> None:
    """Wait until every client has added and found something since the last fault."""
    before = [client.acknowledged.copy() for client in clients]
    with trio.fail_after(RECOVERY_SECONDS):
        for client, earlier in zip(clients, before, strict=True):
            while any(client.acknowledged[tool] == earlier[tool] for tool in ("add_memory", "search_memory")):  # noqa: ASYNC110
                await trio.sleep(0.05)


async def test_nothing_acknowledged_is_lost_whatever_breaks(
    disk: tuple[Path, Path | None], tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = request.config.getoption("--hard-seconds")
    seed = seed_of(request)
    data, clock, ledger, tally = disk[0] / "data", Clock.make(tmp_path), Ledger(), Tally()
    data.mkdir(mode=0o700)
    scene = faults.Scene(data, random.Random(seed), clock, disk[1])
    clients = [Client(number, data, seed, ledger, tally, clock.variables) for number in range(CLIENTS)]
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(client.use_for_ever)
        await break_things(scene, seconds, tally)
        await recover(clients)
        nursery.cancel_scope.cancel()
    settings = Settings(data_dir=data, store_linger=LINGER)
    with trio.fail_after(CHECK_SECONDS):
        async with open_engine(settings) as engine:
            wrong = await ledger.violations(engine)
            missed = await ledger.unfindable(engine)
        async with open_store(settings) as store:
            wrong += await halves(store.workspace("default"))
    with capsys.disabled():
        print(f"\nseed {seed}: {tally.faults.total()} faults, {tally.kills} kills, {tally}")
    assert wrong == [], f"seed {seed}"
    assert missed == [], f"seed {seed}"
    assert tally.missed == [], f"seed {seed}"
    assert tally.unanswered == 0, f"seed {seed}"
    with trio.fail_after(LINGER + 12):  # ten of them for a busy machine
        while scene.servers() or scene.reapers() or scene.clients():  # noqa: ASYNC110  # not our children
            await trio.sleep(0.1)
    left = [str(path.relative_to(data)) for path in data.rglob("*")]
    assert [name for name in left if not STAYS.fullmatch(name)] == [], f"seed {seed}"
