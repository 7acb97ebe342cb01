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
from zapomni.store.embedded import POLL_INTERVAL, find_binaries

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings

FILES = seal.FILES
WORK = "salvage"
PATIENCE = 10.0  # seconds beyond the linger in which a store is compacted, ended and sealed


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
        if not await _is_idle(directory, lock, settings.store_linger + PATIENCE):
            raise ConfigError("the store is running, so its files can be read; stop all clients first")
        return await trio.to_thread.run_sync(_cut, directory)
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


def _cut(directory: Path) -> Salvage:
    files, work = directory / FILES, directory / WORK
    copy = directory / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    shutil.rmtree(work, ignore_errors=True)  # of one that was cut short
    shutil.copytree(files, work / "fixed")
    manifest = next((work / "fixed").glob("*.manifest"))
    if found := seal.damage(work / "fixed"):
        path, place = found
        os.truncate(path, place)  # and then to where a write ends
        _end_with(manifest, path.name)
    seal.forget(work / "fixed")
    for name in _tails(manifest)[:-1]:
        if _check(work / "fixed" / name).returncode:
            _end_with(manifest, name)
            break
    done = _check("--fix", manifest)
    if done.returncode:
        shutil.rmtree(work)
        last = done.stdout.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise DatabaseError(f"the data file cannot be salvaged ({last}); restore a backup into an empty directory")
    shutil.copytree(files, work / "copy")
    lost = _size(files) - _size(work / "fixed")
    # Ended at any moment, this leaves each file as it was or as it is to be, and the copy beside it before any changes.
    (work / "copy").rename(copy)
    gone = set(_tails(files / manifest.name)) - set(_tails(manifest))
    # The list comes first: what it leaves out is not to be read once the file before it is cut.
    for fixed in sorted((work / "fixed").iterdir(), key=lambda path: path != manifest):
        if fixed.stat().st_size != (files / fixed.name).stat().st_size:  # nothing but a cut is ever made
            with fixed.open("rb") as file:
                os.fsync(file.fileno())
            fixed.replace(files / fixed.name)
    for name in gone:
        (files / name).unlink()
    seal.forget(files)
    shutil.rmtree(work)
    return Salvage(copy, lost)


def _check(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run the checker, which is the server program under another name."""
    return subprocess.run(
        ["redis-check-aof", *map(str, arguments)],
        executable=find_binaries().server,
        input=b"y\n",
        capture_output=True,
        check=False,
    )


def _tails(manifest: Path) -> list[str]:
    """Return the files of what was appended since the last rewrite, in their order: several if one did not end."""
    lines = [line.split() for line in manifest.read_text().splitlines()]
    entries = [dict(zip(words[::2], words[1::2], strict=False)) for words in lines]
    return [entry["file"] for entry in entries if entry.get("type") == "i"]


def _end_with(manifest: Path, name: str) -> None:
    """Let go what was appended after a file that is damaged: without its end it would be put upon something else."""
    tails = _tails(manifest)
    later = set(tails[tails.index(name) + 1 :] if name in tails else [])
    kept = [line for line in manifest.read_text().splitlines(keepends=True) if not later & set(line.split())]
    manifest.write_text("".join(kept))
    for other in later:
        (manifest.parent / other).unlink()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != seal.SEAL)
