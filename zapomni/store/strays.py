"""Servers that nobody can reach any more, because their socket or lock was deleted.

They are found as processes that work in the directory, and ended: on Linux; elsewhere that has to be done by hand.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from zapomni.store import reaper

if TYPE_CHECKING:
    from collections.abc import Collection

POLL_INTERVAL = 0.1


def is_bound(path: str) -> bool:
    """Tell whether somebody listens at a path, though its file may be gone."""
    with suppress(OSError):
        return any(
            line.endswith(f" {path}") for line in Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()
        )
    return False


def shares_files(pid: int) -> bool:
    """Tell whether a process sees the same file systems as we do; a container may not, and still share a directory."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    return True  # it ended just now


async def end(directory: Path, pids: Collection[int]) -> None:
    """End servers of a directory, by force when they do not listen, and wait for that."""
    begin = trio.current_time()
    while stray := [pid for pid in reaper.servers(directory) if pid in pids]:
        slow = trio.current_time() > begin + reaper.ANSWER_TIMEOUT
        reaper.send(stray, signal.SIGKILL if slow else signal.SIGTERM)
        await trio.sleep(POLL_INTERVAL)
