"""A data file that is damaged in the middle: keep what stands before the damage, and lose nothing in silence.

A torn end is what a crash leaves, and the server mends that by itself at its next start. Damage in the middle means
that something else has written to the file, or the disk has failed; then everything behind it is unreadable, and
giving that up is for the owner of the data to decide. So the server does not start, says so, and this is the way out.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.errors import ConfigError, DatabaseError
from zapomni.store import reaper, seal
from zapomni.store.embedded import find_binaries

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings

FILES = seal.FILES
WORK = "salvage"


@attrs.frozen
class Salvage:
    """What became of a damaged directory."""

    copy: Path
    """The files as they were."""
    lost_bytes: int
    """What stood behind the damage, and is only in the copy now."""


async def salvage(settings: Settings) -> Salvage:
    """Cut a damaged data file off at the damage, after copying it.

    Raises `ConfigError` while a store runs in the directory or where there is none, and `DatabaseError` when the file
    cannot be saved, in which case it is as it was.
    """
    directory = settings.data_dir.absolute() / "store"
    if not (directory / FILES).is_dir():
        raise ConfigError(f"there is no store in {settings.data_dir}")
    lock = reaper.open_lock(directory, reaper.SERVER)
    try:
        if not reaper.try_lock(lock, fcntl.LOCK_EX):
            raise ConfigError("the store is running, so its files can be read; stop all clients first")
        return await trio.to_thread.run_sync(_cut, directory)
    finally:
        os.close(lock)


def _cut(directory: Path) -> Salvage:
    files, work = directory / FILES, directory / WORK
    copy = directory / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    shutil.rmtree(work, ignore_errors=True)  # of one that was cut short
    shutil.copytree(files, work / "fixed")
    if found := seal.damage(work / "fixed"):
        path, place = found
        os.truncate(path, place)  # and then to where a write ends
    seal.forget(work / "fixed")
    # The server program is its own checker, under another name.
    done = subprocess.run(
        ["redis-check-aof", "--fix", str(next((work / "fixed").glob("*.manifest")))],
        executable=find_binaries().server,
        input=b"y\n",
        capture_output=True,
        check=False,
    )
    if done.returncode:
        shutil.rmtree(work)
        last = done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise DatabaseError(f"the data file cannot be salvaged ({last}); restore a backup into an empty directory")
    shutil.copytree(files, work / "copy")
    lost = _size(files) - _size(work / "fixed")
    # Ended at any moment, this leaves each file as it was or as it is to be, and the copy beside it before any changes.
    (work / "copy").rename(copy)
    for fixed in (work / "fixed").iterdir():
        if fixed.stat().st_size != (files / fixed.name).stat().st_size:  # nothing but a cut is ever made
            with fixed.open("rb") as file:
                os.fsync(file.fileno())
            fixed.replace(files / fixed.name)
    seal.forget(files)
    shutil.rmtree(work)
    return Salvage(copy, lost)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != seal.SEAL)
