"""What may happen to a store and its clients, one function each.

A fault is put right again by the end of its block; what it hit has to cope meanwhile and afterwards.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

import attrs
import psutil
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path
    from random import Random

    from tests.hard.clock import Clock

    type Fault = Callable[[Scene], AbstractAsyncContextManager[None]]

DAY = 86_400
BRIEFLY = 0.3


@attrs.frozen
class Scene:
    """Where faults happen."""

    data: Path
    random: Random
    clock: Clock
    room: Path | None = None
    """A file that can be made to fill the disk, where the data lie on a small one."""

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
            return bool(process.cwd() == str(self.store))
        return False

    def servers(self) -> list[psutil.Process]:
        return self.processes("redis-server")

    def reapers(self) -> list[psutil.Process]:
        return self.processes("reaper.py")

    def clients(self) -> list[psutil.Process]:
        return self.processes("zapomni", "serve")


def kill(process: psutil.Process, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


@contextlib.asynccontextmanager
async def killed_client(scene: Scene) -> AsyncIterator[None]:
    for process in scene.random.sample(scene.clients(), k=min(1, len(scene.clients()))):
        kill(process)
    yield


@contextlib.asynccontextmanager
async def killed_store(scene: Scene) -> AsyncIterator[None]:
    for process in scene.servers():
        kill(process)
    yield


@contextlib.asynccontextmanager
async def killed_reaper(scene: Scene) -> AsyncIterator[None]:
    for process in scene.reapers():
        kill(process)
    yield


@contextlib.asynccontextmanager
async def stopped(scene: Scene, processes: list[psutil.Process], longest: float) -> AsyncIterator[None]:
    for process in processes:
        kill(process, signal.SIGSTOP)
    try:
        await trio.sleep(scene.random.uniform(0, longest))
        yield
    finally:
        for process in processes:
            kill(process, signal.SIGCONT)


def stopped_store(scene: Scene) -> AbstractAsyncContextManager[None]:
    return stopped(scene, scene.servers(), 3 * BRIEFLY)


def stopped_client(scene: Scene) -> AbstractAsyncContextManager[None]:
    return stopped(scene, scene.clients()[:1], BRIEFLY)


def stopped_reaper(scene: Scene) -> AbstractAsyncContextManager[None]:
    return stopped(scene, scene.reapers(), BRIEFLY)


@contextlib.asynccontextmanager
async def removed_socket(scene: Scene) -> AsyncIterator[None]:
    """Nobody new can reach the store until somebody replaces it."""
    (scene.store / "server.sock").unlink(missing_ok=True)
    yield


@contextlib.asynccontextmanager
async def revoked_permission(scene: Scene) -> AsyncIterator[None]:
    """Take the rights on a directory away, also from root, who has none but these here."""
    folder = scene.random.choice([scene.data, scene.store])
    if not folder.exists():
        yield
        return
    folder.chmod(0o000)
    try:
        await trio.sleep(BRIEFLY)
        yield
    finally:
        folder.chmod(0o700)


@contextlib.asynccontextmanager
async def jumped_clock(scene: Scene) -> AsyncIterator[None]:
    """Set the clock of servers and store to another time within a day, and back."""
    scene.clock.move(scene.random.randint(-DAY, DAY))
    try:
        await trio.sleep(scene.random.uniform(0, 3 * BRIEFLY))
        yield
    finally:
        scene.clock.move(0)


@contextlib.asynccontextmanager
async def full_disk(scene: Scene) -> AsyncIterator[None]:
    assert scene.room is not None
    try:
        fill(scene.room)
        await trio.sleep(scene.random.uniform(0, 2 * BRIEFLY))
        yield
    finally:
        scene.room.unlink(missing_ok=True)


def fill(path: Path) -> None:
    """Leave no room on the disk that a file lies on."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    os.sync()


FAULTS = (
    killed_client,
    killed_client,
    killed_store,
    killed_store,
    killed_reaper,
    stopped_store,
    stopped_client,
    stopped_reaper,
    removed_socket,
    revoked_permission,
    jumped_clock,
    full_disk,
)


def possible(scene: Scene) -> list[Fault]:
    """Return the faults that this machine lets us make, the commonest as often as they are listed."""
    impossible: list[Fault] = []
    if scene.room is None:
        impossible.append(full_disk)
    if scene.clock.library is None:
        impossible.append(jumped_clock)
    return [fault for fault in FAULTS if fault not in impossible]
