"""A data file that is damaged: keep all that can be read, and lose nothing in silence.

A torn end is what a crash leaves, and the server mends that by itself at its next start. Any other damage means that
something else has written to the files, or the disk has failed, and what to do about that is for the owner of the data
to decide. So the server does not start, says so, and this is the way out.

Where the damage breaks the structure of a file, everything behind it is unreadable, and is cut off. Where it does not,
and only a checksum tells of it, all is kept: one memory in doubt is better than none after it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.errors import ConfigError, DatabaseError
from zapomni.store import reaper, seal
from zapomni.store.binaries import check_files
from zapomni.store.embedded import POLL_INTERVAL

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings

FILES = seal.FILES
WORK = "salvage"
PATIENCE = 10.0  # seconds beyond the linger in which a store is compacted, ended and sealed


@attrs.frozen
class Salvage:
    """What became of a damaged directory."""

    copy: Path | None
    """The files as they were; None where nothing was damaged."""
    lost_bytes: int
    """What stood behind the damage, and is only in the copy now."""
    doubtful_bytes: int
    """What is not as it was when the store was closed, and was kept."""


async def salvage(settings: Settings) -> Salvage:
    """Make a damaged store one that starts, after copying its files.

    Raises `ConfigError` while a store runs in the directory or where there is none, and `DatabaseError` when the file
    cannot be saved, in which case it is as it was.
    """
    directory = settings.data_dir.absolute() / "store"
    if not (directory / FILES).is_dir():
        raise ConfigError(f"there is no store in {settings.data_dir}")
    lock = reaper.open_lock(directory, reaper.SERVER)
    try:
        if not await _is_idle(directory, lock, settings.store_linger + PATIENCE):
            raise ConfigError("the store is running, so its files can be read; stop all clients first")
        return await trio.to_thread.run_sync(_mend, directory)
    finally:
        os.close(lock)


async def _is_idle(directory: Path, lock: int, patience: float) -> bool:
    """Take the lock of a server that is not there; one whose last client has gone is given the time to end."""
    until = trio.current_time() + patience
    while not reaper.try_lock(lock, fcntl.LOCK_EX) or reaper.servers(directory):
        if _has_clients(directory) or trio.current_time() > until:
            return False
        await trio.sleep(POLL_INTERVAL)
    return True


def _has_clients(directory: Path) -> bool:
    """Tell whether clients hold their lock together; a reaper at its last work holds it alone."""
    lock = reaper.open_lock(directory, reaper.CLIENTS)
    try:
        return reaper.try_lock(lock, fcntl.LOCK_SH) and not reaper.try_lock(lock, fcntl.LOCK_EX)
    finally:
        os.close(lock)


def _mend(directory: Path) -> Salvage:
    files, work = directory / FILES, directory / WORK
    fixed, copy = work / "fixed", directory / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    shutil.rmtree(work, ignore_errors=True)  # of one that was cut short
    shutil.copytree(files, fixed)
    try:
        _mend_list(fixed)
        cut_short = seal.lost(fixed)
        for name in seal.growing(fixed)[:-1]:
            if name in cut_short or check_files(fixed / name).returncode:
                _end_with(fixed, name)
                break
        done = check_files("--fix", fixed / seal.MANIFEST)
        if done.returncode:
            raise _hopeless(done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2])
    except DatabaseError:
        shutil.rmtree(work)
        raise
    doubtful = seal.changed_bytes(fixed)
    seal.forget(fixed)
    names = {path.name for path in files.iterdir()} - {seal.SEAL}
    changed = [path for path in fixed.iterdir() if not _is_same(path, files / path.name)]
    gone = names - {path.name for path in fixed.iterdir()}
    if seal.problem(files) is None and not (changed or gone):
        shutil.rmtree(work)
        return Salvage(None, 0, 0)
    shutil.copytree(files, work / "copy")
    lost = _size(files) - _size(fixed)
    # Ended at any moment, this leaves each file as it was or as it is to be, and the copy beside it before any changes.
    (work / "copy").rename(copy)
    # The list comes first: what it leaves out is not to be read once the file before it is cut.
    for path in sorted(changed, key=lambda path: path.name != seal.MANIFEST):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        path.replace(files / path.name)
    for name in gone:
        (files / name).unlink()
    seal.forget(files)
    shutil.rmtree(work)
    return Salvage(copy, lost, doubtful)


def _mend_list(files: Path) -> None:
    """Write the list of files as it was when the store was closed, if it was damaged since and no file came or went."""
    try:
        entries = seal.listed(files)
    except (FileNotFoundError, ValueError):
        entries = []
    sealed = seal.read(files)
    there = {path.name for path in seal.data_files(files)}
    if sealed and entries != sealed.entries and there == {entry.name for entry in sealed.entries}:
        (files / seal.MANIFEST).write_text("".join(entry.line for entry in sealed.entries))
    elif not entries:
        raise _hopeless(f"{seal.MANIFEST}, the list of its parts, is missing or damaged")


def _hopeless(reason: str) -> DatabaseError:
    return DatabaseError(f"the data file cannot be salvaged ({reason}); restore a backup into an empty directory")


def _end_with(files: Path, name: str) -> None:
    """Let go what was appended after a file that is damaged: without its end it would be put upon something else."""
    names = seal.growing(files)
    later = set(names[names.index(name) + 1 :])
    manifest = files / seal.MANIFEST
    kept = [line for line in manifest.read_text().splitlines(keepends=True) if not later & set(line.split())]
    manifest.write_text("".join(kept))
    for other in later:
        (files / other).unlink()


def _is_same(path: Path, before: Path) -> bool:
    """Tell whether a file needs no replacing; but for the list, which is short, nothing but a cut is ever made."""
    if not before.exists() or path.stat().st_size != before.stat().st_size:
        return False
    return path.name != seal.MANIFEST or path.read_bytes() == before.read_bytes()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in seal.data_files(folder))
