"""Several clients write, search, update and delete while everything around them breaks, as a seed decides.

The quick form runs in every test run, and makes every kind of fault at least once; ``--hard-seconds 1200`` makes it a
long one, ``--hard-seed`` repeats the decisions of one, though what they meet is a matter of moments.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
import trio

from tests.hard import faults
from tests.hard.clients import LINGER, Client
from tests.hard.clock import Clock
from tests.hard.ledger import Ledger, halves, orphans
from tests.hard.seeds import seed_of
from tests.hard.tally import Tally
from zapomni.config import Settings
from zapomni.engine import open_engine
from zapomni.store import reaper, seal
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLIENTS = 4
LONG = 60.0
"""Seconds from which on there is time for every fault."""
TWO_AT_A_TIME = 0.25
CALM = 0.6
"""How often a fault waits until somebody is at work; else it may meet those who have only just begun, or nobody."""
HIT_SECONDS = 120.0
"""Within which every kind of fault has hit something after the time is over."""
RECOVERY_SECONDS = 60.0
CHECK_SECONDS = 900.0
GONE_SECONDS = LINGER + reaper.COMPACTION_TIMEOUT
TOOLS = ("add_memory", "search_memory", "update_memory", "delete_memory")
STAYS = re.compile(
    r"store(/(clients\.lock|compact(\.begun)?|reaper\.lock|server\.lock|server\.log(\.1)?|socket\.path"
    r"|appendonlydir(/(seal|appendonly\.aof\.(manifest|\d+\.base\.rdb|\d+\.incr\.aof)))?))?"
)
"""What may be left in the data directory when nobody uses it."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Path, Path | None]]:
    """A small disk of its own, with room to fill; where the system lets us have none, a folder and no room."""
    path, mount = tmp_path / "disk", shutil.which("mount")
    path.mkdir()
    options = ["-t", "tmpfs", "-o", "size=512m,mode=700", "none", str(path)]
    is_small = mount is not None and not subprocess.run([mount, *options], check=False, capture_output=True).returncode
    try:
        yield path, path if is_small else None
    finally:
        if is_small:
            subprocess.run(["umount", "-l", path], check=True)


class Deck:
    """Deals faults at random, each kind before any comes again, and now and then two at a time."""

    def __init__(self, kinds: list[faults.Fault], seed: int) -> None:
        self.kinds = kinds
        self.random = random.Random(seed)
        self.cards: list[faults.Fault] = []
        self.missing = set(kinds)
        """Those that have not hit anything yet."""

    def deal(self, *, only_missing: bool) -> list[tuple[faults.Fault, random.Random]]:
        """Return faults to be made at the same time, each with what it decides by: how one goes is its own affair."""
        self.cards = [card for card in self.cards if card in self.missing or not only_missing]
        if not self.cards:
            kinds = [kind for kind in self.kinds if kind in self.missing or not only_missing]
            self.cards = self.random.sample(kinds, k=len(kinds))
        hand = [self.cards.pop()]
        alike = self.cards and faults.are_alike(hand[0], self.cards[-1])
        if self.cards and not alike and self.random.random() < TWO_AT_A_TIME:
            hand.append(self.cards.pop())
        return [(fault, random.Random(self.random.getrandbits(64))) for fault in hand]

    def pause(self) -> float:
        return self.random.expovariate(3)


async def break_things(scene: faults.Scene, deck: Deck, seconds: float) -> None:
    """Begin when there is something to lose; go on until every kind of fault has hit something."""

    async def strike(fault: faults.Fault, random: random.Random) -> None:
        hit = await fault(scene, random)
        (scene.tally.faults if hit else scene.tally.vain)[fault.__name__] += 1
        if hit:
            deck.missing.discard(fault)

    with trio.fail_after(60):
        while not scene.tally.acknowledged:  # noqa: ASYNC110  # nobody tells
            await trio.sleep(0.05)
    end = time.monotonic() + seconds
    with trio.move_on_after(seconds + HIT_SECONDS):
        while time.monotonic() < end or deck.missing:
            if deck.random.random() < CALM or time.monotonic() > end:
                await scene.is_busy()
            async with trio.open_nursery() as nursery:
                for fault, decisions in deck.deal(only_missing=time.monotonic() > end):
                    nursery.start_soon(strike, fault, decisions)
            await trio.sleep(deck.pause())
    scene.tally.wrong += [f"{fault.__name__} has never hit anything" for fault in deck.missing]


async def recover(clients: list[Client], tally: Tally) -> None:
    """Wait until every client has added and found something since the last fault, and then again, without an error."""
    await serve_all(clients)
    before = tally.errors.copy()
    await serve_all(clients)
    tally.wrong += [f"nothing was broken any more: {words}" for words in tally.errors - before]


async def serve_all(clients: list[Client]) -> None:
    before = [client.acknowledged.copy() for client in clients]
    with trio.fail_after(RECOVERY_SECONDS):
        for client, earlier in zip(clients, before, strict=True):
            while any(client.acknowledged[tool] == earlier[tool] for tool in TOOLS[:2]):  # noqa: ASYNC110
                await trio.sleep(0.05)


async def check(settings: Settings, ledger: Ledger) -> list[str]:
    """Compare the ledger with what a store reads from its files."""
    async with open_engine(settings) as engine:
        wrong = [*await ledger.violations(engine), *await ledger.unfindable(engine)]
    async with open_store(settings) as store:
        return [*wrong, *await halves(store.workspace("default")), *await orphans(store)]


async def all_gone(scene: faults.Scene) -> list[str]:
    """Wait until no process is left; return those that stay."""
    if await faults.comes(lambda: not scene.processes(), within=GONE_SECONDS, every=0.1):
        return []
    return [f"there is still {process.cmdline()}" for process in scene.processes()]


def unsealed(files: Path) -> list[str]:
    """Return what is wrong with the seal of files that were closed in an orderly way."""
    if problem := seal.problem(files):
        return [problem]
    last = max(path.stat().st_mtime_ns for path in files.iterdir() if path.name != seal.SEAL)
    if not (files / seal.SEAL).exists() or (files / seal.SEAL).stat().st_mtime_ns < last:
        return ["an orderly end has sealed nothing"]
    return []


def must_be_possible() -> bool:
    """Tell whether this is a machine of which it is known that it lets us make every fault."""
    is_able = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("cc") is not None
    return is_able and os.environ.get("CI") == "true"


async def test_nothing_acknowledged_is_lost_whatever_breaks(
    disk: tuple[Path, Path | None], tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = request.config.getoption("--hard-seconds")
    seed = seed_of(request)
    data, clock, ledger, tally = disk[0] / "data", Clock.make(tmp_path), Ledger(), Tally()
    data.mkdir(mode=0o700)
    clients = [Client(number, data, seed, ledger, tally, clock.variables) for number in range(CLIENTS)]
    scene = faults.Scene(data, clock, clients, tally, disk[1])
    impossible = faults.impossible(scene)
    dealt = [*faults.QUICK, *(faults.LONG + faults.OFTEN if seconds >= LONG else ())]
    deck = Deck([fault for fault in dealt if fault not in impossible], seed)
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(client.use_for_ever)
        await break_things(scene, deck, seconds)
        await recover(clients, tally)
        for client in clients:
            await client.leave(politely=True)
        nursery.cancel_scope.cancel()

    # What the store that took it has in memory is no proof; what another reads from the disk is, and what a third
    # reads that the second has compacted and closed.
    faults.send(signal.SIGKILL, *scene.stores())
    settings = Settings(data_dir=data, store_linger=LINGER)
    wrong = await all_gone(scene)
    with trio.fail_after(CHECK_SECONDS):
        wrong += await check(settings, ledger)
    reaper.note_removal(scene.store)
    wrong += await all_gone(scene)
    wrong += unsealed(scene.store / seal.FILES)
    with trio.fail_after(CHECK_SECONDS):
        wrong += [f"after an orderly end {broken}" for broken in await check(settings, ledger)]
    wrong += await all_gone(scene)
    left = [str(path.relative_to(data)) for path in data.rglob("*")]
    wrong += [f"{name} was left behind" for name in left if not STAYS.fullmatch(name)]
    wrong += [f"no {tool} was ever acknowledged" for tool in TOOLS if not tally.acknowledged[tool]]
    missing = [fault.__name__ for fault in impossible]
    with capsys.disabled():
        print(f"\nseed {seed}: {tally.faults.total()} faults, {tally.kills} kills, {tally}", *tally.wrong, sep="\n")
        print(f"faults that this machine does not let us make: {', '.join(missing) or 'none'}")
    assert wrong == [], f"seed {seed}"
    assert tally.wrong == [], f"seed {seed}"
    assert tally.missed == [], f"seed {seed}"
    assert not (missing and must_be_possible()), f"{missing} should be possible here"
