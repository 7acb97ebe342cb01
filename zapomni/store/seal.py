"""What the append-only files were when the store was closed, by which damage is seen that the server passes over.

The server checks the sum of what it has compacted, but the part that grows has none: a bit that flips there inside a
text is loaded as if it had been written so. And it believes the list of its files, the manifest: one that it leaves out
is removed, and where there is no list, all is begun anew. So whoever ends the server while nobody uses it writes down
the list, and the sums of the blocks of what grows; whoever starts it next compares.

A seal stays true when a server that ran later was killed. Files only ever grow, and the list changes only with a new
file of a higher number; what it leaves out then, the server has compacted.

Needs the standard library alone, because the reaper does.
"""

import contextlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILES = "appendonlydir"
MANIFEST = "appendonly.aof.manifest"
SEAL = "seal"
BLOCK = 1 << 10
BASE, GROWING, SPENT = "b", "i", "h"  # the server's own signs
NAMES = {  # as the server makes them
    BASE: "appendonly.aof.{}.base.rdb",
    GROWING: "appendonly.aof.{}.incr.aof",
}
EMPTY = NAMES[BASE].format(1)  # the first is compacted from nothing


class Entry(NamedTuple):
    """A file of the list."""

    kind: str
    name: str
    number: int

    @property
    def line(self) -> str:
        return f"file {self.name} seq {self.number} type {self.kind}\n"


class Sealed(NamedTuple):
    """What the seal says."""

    entries: list[Entry]
    sums: dict[str, tuple[int, list[str]]]
    """For each file that grows its length, and the sums of its blocks."""


def listed(files: Path) -> list[Entry]:
    """Return the files that the server reads, in their order.

    Raises `FileNotFoundError` where there is no list, and `ValueError` for one that cannot be read.
    """
    entries, spent = [], []
    for line in (files / MANIFEST).read_text("ascii").splitlines():
        words = line.split()
        pairs = dict(zip(words[::2], words[1::2], strict=True))
        kind, name, number = (pairs.get(key, "") for key in ("type", "file", "seq"))
        if kind == SPENT and name == NAMES[GROWING].format(number):
            spent.append(int(number))
        if kind == SPENT:
            continue
        if kind not in NAMES or name != NAMES[kind].format(number):
            raise ValueError(line)
        entries.append(Entry(kind, name, int(number)))
    if max(spent, default=0) > _last(entries):
        raise ValueError("the newest file cannot be spent: the server would remove it")
    return entries


def growing(files: Path) -> list[str]:
    """Return the names of what was appended since the last rewrite, in order: several if one did not end."""
    return [entry.name for entry in listed(files) if entry.kind == GROWING]


def data_files(files: Path) -> list[Path]:
    """Return the files that are there and hold data, listed or not; none where there is no folder."""
    return [path for path in files.glob("*") if path.suffix in (".aof", ".rdb")]


def renew(files: Path) -> None:
    """Seal the files as they are, unless they are not what was sealed before; for whoever knows that no server runs."""
    if problem(files) is not None or not (files / MANIFEST).exists():
        return
    lines = []
    for entry in listed(files):
        path = files / entry.name
        sums = [str(path.stat().st_size), *_sums(path)] if entry.kind == GROWING else []
        lines.append(" ".join([entry.kind, entry.name, str(entry.number), *sums]))
    fresh = files / f"{SEAL}.new"
    fresh.touch(mode=0o600)
    fresh.write_text("\n".join([_sum("\n".join(lines).encode()), *lines]))
    fresh.replace(files / SEAL)


def forget(files: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        (files / SEAL).unlink()
        folder = os.open(files, os.O_RDONLY)
        os.fsync(folder)  # it must not come back over files that have grown in another way since
        os.close(folder)


def problem(files: Path) -> str | None:
    """Tell in what the files are not what a server left behind, or None; while none runs."""
    sealed = read(files)
    try:
        entries = listed(files)
    except FileNotFoundError:
        return f"{MANIFEST} is missing" if sealed or _has_data(files) else None
    except ValueError:
        return f"{MANIFEST} cannot be read"
    if sealed is None:
        return None
    if _last(entries) <= _last(sealed.entries) and entries != sealed.entries:
        return f"{MANIFEST} is not what it was when the store was closed"
    names = [entry.name for entry in entries if entry in sealed.entries]
    if gone := next((name for name in names if not (files / name).exists()), None):
        return f"{gone} is missing"
    if cut := next((name for name in lost(files) if name != entries[-1].name), None):
        return f"{cut} has lost its end since it was closed"
    for path, place, _ in _changed(files, sealed):
        return f"{path.name} has changed behind byte {place:,} since it was closed"
    return None


def lost(files: Path) -> dict[str, int]:
    """Return how many bytes sealed files have lost at their ends."""
    found = {}
    for path, length, _ in _still_listed(files, read(files)):
        if (size := path.stat().st_size) < length:
            found[path.name] = length - size
    return found


def changed_bytes(files: Path) -> int:
    """Return how long the blocks are, all together, that are not what was sealed."""
    sealed = read(files)
    return sum(length for _, _, length in _changed(files, sealed)) if sealed else 0


def read(files: Path) -> Sealed | None:
    """Return what the seal says; None where there is none, or it is itself what was damaged."""
    try:
        own, *lines = (files / SEAL).read_text("ascii", "replace").splitlines()
    except (FileNotFoundError, ValueError):
        return None
    if own != _sum("\n".join(lines).encode()):
        return None
    sealed = Sealed([], {})
    try:
        for line in lines:
            kind, name, number, *rest = line.split()
            sealed.entries.append(Entry(kind, name, int(number)))
            if kind == GROWING:
                sealed.sums[name] = int(rest[0]), rest[1:]
    except (ValueError, IndexError):  # of another version
        return None
    return sealed


def _last(entries: list[Entry]) -> int:
    """Return the number of the newest file that grows; 0 before there is one."""
    return max((entry.number for entry in entries if entry.kind == GROWING), default=0)


def _has_data(files: Path) -> bool:
    """Tell whether files hold something, which those of a first start that was cut short do not."""
    return any(path.name != EMPTY and path.stat().st_size for path in data_files(files))


def _still_listed(files: Path, sealed: Sealed | None) -> Iterator[tuple[Path, int, list[str]]]:
    """Return the sealed files that are still there: the server replaces them when it compacts."""
    names = growing(files) if sealed else []
    for name, (length, sums) in sealed.sums.items() if sealed else ():
        if name in names and (files / name).exists():
            yield files / name, length, sums


def _changed(files: Path, sealed: Sealed) -> Iterator[tuple[Path, int, int]]:
    """Return where blocks begin that are not what was sealed, and how long they are."""
    for path, length, sums in _still_listed(files, sealed):
        size = path.stat().st_size
        whole = sums if size >= length else sums[: size // BLOCK]
        for number, (sum_then, sum_now) in enumerate(zip(whole, _sums(path, length), strict=False)):
            if sum_then != sum_now:
                yield path, number * BLOCK, min(BLOCK, length - number * BLOCK)


def _sum(block: bytes) -> str:
    return f"{zlib.crc32(block):08x}"


def _sums(path: Path, length: int | None = None) -> Iterator[str]:
    """Return the sums of a file's blocks, up to a length."""
    left = path.stat().st_size if length is None else length
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(BLOCK, left))):
            yield _sum(block)
            left -= len(block)
