"""What may happen to a store and its clients, one function each.

A fault is put right again by its end, and tells whether it hit anything: one that met nobody proves nothing. What it
hit has to cope meanwhile and afterwards.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import psutil
import trio

from tests.hard.clients import LINGER
from tests.hard.clock import DAY
from zapomni.store import reaper
from zapomni.store.embedded import ROOM, UNREACHABLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from tests.hard.clients import Client
    from tests.hard.clock import Clock
    from tests.hard.tally import Tally

    type Fault = Callable[[Scene, Random], Awaitable[bool]]

ROOT = Path(__file__).parent.parent.parent
BRIEFLY = 0.3
SOON = 3.0
"""Within which what has to be seen of a fault is seen, if it ever is."""
PAGE = 4096
ENDS = 30
"""How often the last room is taken away until a write meets the end."""
DISK_FULL = (b"Short write", b"No space left", b"write error on AOF", b"error writing to the AOF")


@attrs.frozen
class Scene:
    """Where faults happen."""

    data: Path
    clock: Clock
    clients: Sequence[Client]
    tally: Tally
    room: Path | None = None
    """A folder beside the data on their disk, where that is a small one."""

    @property
    def store(self) -> Path:
        return self.data / "store"

    def processes(self, *words: str) -> list[psutil.Process]:
        """Return the processes of ours, on this directory, whose command lines have these words."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or [])
            if all(word in line for word in words) and self._concerns(process, line):
                found.append(process)
        return found

    def _concerns(self, process: psutil.Process, line: str) -> bool:
        if str(self.data) in line:
            return True
        with contextlib.suppress(psutil.Error, OSError):
            return Path(process.cwd()).is_relative_to(self.data)
        return False

    def stores(self) -> list[psutil.Process]:
        return self.processes("redis-server")

    def reapers(self) -> list[psutil.Process]:
        return self.processes("reaper.py")

    def servers(self) -> list[psutil.Process]:
        return self.processes("zapomni", "serve")

    async def is_busy(self) -> bool:
        """Wait until somebody has written something, so that more is likely on its way."""
        before = self.tally.acknowledged["add_memory"]
        return await comes(lambda: self.tally.acknowledged["add_memory"] > before)

    def is_felt(self, before: int) -> bool:
        """Tell whether a call had to be refused since there were so many refusals."""
        return self.tally.errors.total() > before


def send(number: int, *processes: psutil.Process) -> bool:
    """Send processes a signal; tell whether one of them was there to get it."""
    sent = False
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
            sent = True
    return sent


async def comes(true: Callable[[], object], *, within: float = SOON, every: float = 0.02) -> bool:
    """Wait until something is so; False when it does not come to that."""
    with trio.move_on_after(within):
        while not true():  # noqa: ASYNC110  # nobody tells
            await trio.sleep(every)
        return True
    return False


async def killed_client(scene: Scene, random: Random) -> bool:
    found = scene.servers()
    if not found:
        return False
    process = random.choice(found)
    scene.tally.killed.add(process.pid)
    return send(signal.SIGKILL, process)


async def killed_store(scene: Scene, random: Random) -> bool:
    return send(signal.SIGKILL, *scene.stores())


async def killed_reaper(scene: Scene, random: Random) -> bool:
    return send(signal.SIGKILL, *scene.reapers())


async def stopped(processes: list[psutil.Process], seconds: float) -> bool:
    hit = send(signal.SIGSTOP, *processes)
    try:
        await trio.sleep(seconds if hit else 0)
    finally:
        send(signal.SIGCONT, *processes)
    return hit


async def stopped_store(scene: Scene, random: Random) -> bool:
    return await stopped(scene.stores(), random.uniform(BRIEFLY, 3 * BRIEFLY))


async def stopped_client(scene: Scene, random: Random) -> bool:
    found = scene.servers()
    return await stopped(random.sample(found, k=random.randint(min(1, len(found)), len(found))), BRIEFLY)


async def stopped_reaper(scene: Scene, random: Random) -> bool:
    return await stopped(scene.reapers(), BRIEFLY)


async def long_stopped_store(scene: Scene, random: Random) -> bool:
    """Stop it for longer than somebody waits: a reaper for an answer, a client for a socket, a call for its turn."""
    longest = random.choice([reaper.ANSWER_TIMEOUT, UNREACHABLE])
    return await stopped(scene.stores(), longest + random.uniform(0.5, 3))


async def long_stopped_client(scene: Scene, random: Random) -> bool:
    found = scene.servers()
    return await stopped(random.sample(found, k=min(1, len(found))), reaper.ANSWER_TIMEOUT + random.uniform(0.5, 3))


async def removed_socket(scene: Scene, random: Random) -> bool:
    """Nobody new can reach the store until somebody replaces it; let there be somebody new."""
    path = reaper.socket_path(scene.store)
    if path is None or not scene.stores():
        return False
    try:
        os.unlink(path)
    except OSError:
        return False
    return await killed_client(scene, random) or True


async def revoked_permission(scene: Scene, random: Random) -> bool:
    """Take the rights on a folder away, also from root, who has none but these here, when it is needed.

    It is needed by whoever starts the store again. The folder of the store is given back by the program itself, which
    owns it; then this has hit nothing.
    """
    files = scene.store / "appendonlydir"
    folder = random.choice([scene.data, scene.data, scene.store, files, files])
    if not folder.exists() or not await scene.is_busy():
        return False
    before = scene.tally.errors.total()
    folder.chmod(0o000)
    try:
        send(signal.SIGKILL, *scene.stores())
        await comes(lambda: scene.is_felt(before))
        await trio.sleep(random.uniform(0, BRIEFLY))
        return scene.is_felt(before) and await is_denied(folder)
    finally:
        folder.chmod(0o700)


async def is_denied(folder: Path) -> bool:
    """Tell whether a folder is closed to somebody who has the rights of our servers, and no others."""
    look = [sys.executable, "-m", "tests.hard.worker", sys.executable, "-c", f"import os; os.listdir({str(folder)!r})"]
    done = await trio.run_process(look, check=False, capture_stderr=True, cwd=ROOT)
    return b"PermissionError" in done.stderr


async def jumped_clock(scene: Scene, random: Random) -> bool:
    """Set the clock of servers and store to another time within a day, and back."""
    scene.clock.move(random.randint(-DAY, DAY))
    try:
        await trio.sleep(random.uniform(BRIEFLY, 3 * BRIEFLY))
        return bool(scene.stores())
    finally:
        scene.clock.move(0)


async def full_disk(scene: Scene, random: Random) -> bool:
    """Leave no room on the disk, and wait until a writer is told so."""
    assert scene.room is not None
    if not await scene.is_busy():
        return False
    before = scene.tally.errors.total()
    filler = Filler(scene.room / "full")
    try:
        await trio.to_thread.run_sync(filler.leave, 0)
        await comes(lambda: scene.is_felt(before))
        await trio.sleep(random.uniform(0, 2 * BRIEFLY))
        return scene.is_felt(before)
    finally:
        filler.remove()


async def ended_disk(scene: Scene, random: Random) -> bool:
    """Take the last room away from writes that were let begin, again and again until the store itself meets the end."""
    assert scene.room is not None
    log = scene.store / "server.log"
    begin = log.stat().st_size if log.exists() else 0
    filler = Filler(scene.room / "ended")
    try:
        for _ in range(ENDS):
            await trio.to_thread.run_sync(filler.leave, ROOM + (random.randint(1, 8) << 16))
            if not await scene.is_busy():
                break
            await trio.sleep(random.uniform(0, 0.02))
            await trio.to_thread.run_sync(filler.leave, random.randint(0, 4) * PAGE)
            await trio.sleep(random.uniform(0.02, 0.1))
            if has_met_the_end(log, begin):
                await trio.sleep(random.uniform(0, BRIEFLY))
                return True
        return False
    finally:
        filler.remove()


def has_met_the_end(log: Path, begin: int) -> bool:
    try:
        said = log.read_bytes()
    except OSError:
        return False
    return any(words in (said[begin:] if len(said) >= begin else said) for words in DISK_FULL)


@attrs.frozen
class Filler:
    """A file that takes as much of its disk as leaves so much."""

    path: Path

    def leave(self, room: int) -> None:
        file = os.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            part = 1
            while (more := (free(self.path.parent) - room) // part) >= PAGE:
                try:
                    os.posix_fallocate(file, os.fstat(file).st_size, more)
                except OSError:  # somebody else took a part of it at the same time
                    part *= 2
            if (less := room - free(self.path.parent)) > 0:
                os.ftruncate(file, max(0, os.fstat(file).st_size - less))
            os.fsync(file)
        finally:
            os.close(file)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


async def deserted(scene: Scene, random: Random, *victims: Callable[[], list[psutil.Process]]) -> bool:
    """Let all clients leave, kill what is left in the middle of ending, and let them come back.

    Without victims, wait until the store was closed in peace.
    """
    with contextlib.suppress(OSError):
        reaper.note_removal(scene.store)  # so that the end begins with a compaction
    phase = random.choice([compacting, lingering, ending])
    try:
        async with trio.open_nursery() as nursery:
            for client in scene.clients:
                nursery.start_soon(client.leave, random.random() < 0.5)
        processes = [process for found in victims for process in found()]
        if not victims:
            return await comes(lambda: not scene.stores() and not scene.reapers(), within=LINGER + SOON, every=0.1)
        await phase(scene, random)
        hit = send(signal.SIGKILL, *processes)
        await trio.sleep(random.uniform(0, 2 * LINGER))
        return hit
    finally:
        for client in scene.clients:
            client.come_back()


async def compacting(scene: Scene, random: Random) -> None:
    await comes((scene.store / reaper.REWRITING).exists, within=LINGER, every=0.001)
    await trio.sleep(random.uniform(0, 0.06))


async def lingering(scene: Scene, random: Random) -> None:
    await trio.sleep(random.uniform(0, LINGER))


async def ending(scene: Scene, random: Random) -> None:
    """Wait until the store closes its socket, which it does first; next its files are sealed."""
    path = reaper.socket_path(scene.store) or ""
    await comes(lambda: not os.path.lexists(path), within=LINGER + SOON, every=0.001)
    await trio.sleep(random.uniform(0, 0.01))


async def deserted_alone(scene: Scene, random: Random) -> bool:
    return await deserted(scene, random)


async def deserted_and_store_killed(scene: Scene, random: Random) -> bool:
    return await deserted(scene, random, scene.stores)


async def deserted_and_reaper_killed(scene: Scene, random: Random) -> bool:
    return await deserted(scene, random, scene.reapers)


async def deserted_and_both_killed(scene: Scene, random: Random) -> bool:
    return await deserted(scene, random, scene.stores, scene.reapers)


QUICK: tuple[Fault, ...] = (
    killed_client,
    killed_store,
    killed_reaper,
    stopped_store,
    stopped_client,
    stopped_reaper,
    removed_socket,
    revoked_permission,
    jumped_clock,
    full_disk,
    ended_disk,
    deserted_alone,
    deserted_and_store_killed,
    deserted_and_reaper_killed,
)
LONG: tuple[Fault, ...] = (deserted_and_both_killed, long_stopped_store, long_stopped_client)
"""Dealt as well where there is time for them."""
OFTEN: tuple[Fault, ...] = (killed_client, killed_store, deserted_and_store_killed, deserted_and_reaper_killed)
"""Dealt twice where there is time."""


def are_alike(one: Fault, other: Fault) -> bool:
    """Tell whether two faults would undo each other; clients can only leave when they are there."""
    return one is other or {one, other} <= {fault for fault in QUICK + LONG if fault.__name__.startswith("deserted")}


def impossible(scene: Scene) -> list[Fault]:
    """Return the faults that this machine does not let us make."""
    found: list[Fault] = []
    if scene.room is None:
        found += [full_disk, ended_disk]
    if scene.clock.library is None:
        found.append(jumped_clock)
    return found
