"""JSON from elsewhere, a value at a time: however large a file is, only one of its entries is held.

A file may be a list of entries, one object, or many objects one after the other (which is what JSON Lines are);
it may stand alone, in an unpacked export, or still in the archive that was sent by mail.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from zapomni.transfer.records import Problem

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

_GAP = re.compile(r"[\s,]*")
_READ = 64 * 1024
_LONGEST = 256 * 1024 * 1024
# The names that exports have inside an archive or a folder, the ones to prefer first.
_NAMES = (re.compile(r"conversations(-\d+)?\.json"), re.compile(r"memories\.json"))


def values(path: Path) -> Generator[tuple[str, Any]]:
    """Yield each value with its place; a `Problem` where there is none to be had. Raises `OSError`."""
    for name, opening in _parts(path):
        with opening as file:
            if isinstance(file, Problem):
                yield file.where, file
                continue
            lead, number = f"{name}, " if name else "", 0
            try:
                with as_text(file) as text:
                    for number, value in enumerate(stream(text), 1):
                        where = f"{lead}entry {number}"
                        yield where, Problem(where, value.reason) if isinstance(value, Problem) else value
            except (zipfile.BadZipFile, zlib.error, EOFError):
                where = f"{lead}entry {number + 1}"
                yield where, Problem(where, "the archive is damaged here; nothing after it could be read")


def stream(file: TextIO) -> Iterator[Any]:
    """Yield the entries of a list, or the values that follow one another; the last may be a `Problem`."""
    decoder = json.JSONDecoder(parse_constant=lambda name: None)
    buffer, at, ended, inside = "", 0, False, None
    while True:
        at = _skip(buffer, at)
        if at < len(buffer):
            if inside is None:
                inside = buffer[at] == "["
                at += inside
                continue
            if inside and buffer[at] == "]":
                return
            try:
                value, end = decoder.raw_decode(buffer, at)
                yield sound(value)
                at = end
                continue
            except RecursionError:
                yield Problem("", "it is nested too deeply; nothing after it was read")
                return
            except ValueError:
                if ended or len(buffer) - at > _LONGEST:
                    yield Problem("", "it is cut off or broken here; nothing after it could be read")
                    return
        elif ended:
            if inside:
                yield Problem("", "the list is cut off here")
            return
        # Reading as much again as failed keeps the number of attempts at a long entry small.
        more = file.read(max(_READ, len(buffer) - at))
        buffer, at, ended = buffer[at:] + more, 0, not more


def as_text(file: BinaryIO) -> TextIO:
    """Decode a file by its byte order mark, else as UTF-8; what is no text becomes a replacement character."""
    head = file.peek(4)[:4] if isinstance(file, io.BufferedReader) else b""
    encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return io.TextIOWrapper(file, encoding, errors="replace", newline="")


def _parts(path: Path) -> Iterator[tuple[str, Any]]:
    if path.is_dir():
        for name in _chosen([item.name for item in sorted(path.iterdir()) if item.is_file()]):
            yield name, (path / name).open("rb")
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in _chosen(sorted(archive.namelist())):
                yield name, _member(archive, name)
    else:
        yield "", path.open("rb")


def _chosen(names: list[str]) -> list[str]:
    for pattern in _NAMES:
        found = [name for name in names if pattern.fullmatch(name.rpartition("/")[2])]
        if found:
            return found
    return []


@contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[BinaryIO | Problem]:
    if archive.getinfo(name).flag_bits & 1:
        yield Problem(name, "it is encrypted")
        return
    with archive.open(name) as member:
        yield io.BufferedReader(member)  # type: ignore[type-var]  # typeshed wants readinto, which ZipExtFile inherits


def _skip(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return match.end() if match else at


def sound(value: Any) -> Any:
    """Put a replacement character for every half of a surrogate pair: JSON can carry it, UTF-8 cannot."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [sound(item) for item in value]
        case dict():
            return {sound(name): sound(item) for name, item in value.items()}
    return value
