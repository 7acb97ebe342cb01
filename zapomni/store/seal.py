"""Checksums of the append-only file, by which damage is seen that leaves its structure alone.

The server checks the sum of what it has compacted, but the part that grows has none: a bit that flips there inside a
text is loaded as if it had been written so. So whoever ends the server while nobody uses it writes down the sums of the
blocks of this part, and whoever starts it next compares. The part only ever grows, so the sums stay true of its
beginning when a server that ran later was killed; when its end was cut off, they are to be forgotten.

Needs the standard library alone, because the reaper does.
"""

import zlib
from pathlib import Path

FILES = "appendonlydir"
SEAL = "seal"
BLOCK = 1 << 10  # less than one memory takes, because a salvage cuts where the first that is wrong begins


def renew(files: Path) -> None:
    """Seal the files as they are, unless they are not what was sealed before; for whoever knows that no server runs."""
    if damage(files) is not None:
        return
    lines = [" ".join([path.name, str(path.stat().st_size), *_sums(path)]) for path in sorted(files.glob("*.aof"))]
    fresh = files / f"{SEAL}.new"
    fresh.touch(mode=0o600)
    fresh.write_text("\n".join([_sum("\n".join(lines).encode()), *lines]))
    fresh.replace(files / SEAL)


def forget(files: Path) -> None:
    (files / SEAL).unlink(missing_ok=True)


def damage(files: Path) -> tuple[Path, int] | None:
    """Return a file that is not what was sealed, and where the first block begins that differs."""
    for path, length, sums in _sealed(files):
        size = path.stat().st_size
        whole = sums if size >= length else sums[: size // BLOCK]
        for number, (sealed, found) in enumerate(zip(whole, _sums(path, length), strict=False)):
            if sealed != found:
                return path, number * BLOCK
    return None


def missing(files: Path) -> int:
    """Return how many bytes the sealed files have lost at their ends."""
    return sum(max(0, length - path.stat().st_size) for path, length, _ in _sealed(files))


def _sealed(files: Path) -> list[tuple[Path, int, list[str]]]:
    """Return the sealed files that are still there: the server replaces them when it compacts."""
    try:
        own, *lines = (files / SEAL).read_text("ascii", "replace").splitlines()
    except (FileNotFoundError, ValueError):
        return []
    if own != _sum("\n".join(lines).encode()):  # the damage is to the seal
        return []
    entries = ((files / name, int(length), sums) for name, length, *sums in map(str.split, lines))
    return [entry for entry in entries if entry[0].exists()]


def _sum(block: bytes) -> str:
    return f"{zlib.crc32(block):08x}"


def _sums(path: Path, length: int | None = None) -> list[str]:
    """Return the sums of a file's blocks, up to a length."""
    left = path.stat().st_size if length is None else length
    sums = []
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(BLOCK, left))):
            sums.append(_sum(block))
            left -= len(block)
    return sums
