"""The file of a backup: frames of a kind and a length, and a checksum over all of them at the end.

The file appears under its name only when it is whole. A reader believes nothing before it has checked everything.
"""

from __future__ import annotations

import hashlib
import os
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson
import trio

from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

MAGIC = b"zapomni backup 1\n"
LONGEST = 1 << 30
_HEAD = struct.Struct("<cI")


class Archive:
    """A backup that is being written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()

    async def write(self, kind: bytes, payload: bytes) -> None:
        await trio.to_thread.run_sync(self._put, _HEAD.pack(kind, len(payload)), payload)

    async def write_json(self, kind: bytes, value: Any) -> None:
        await self.write(kind, orjson.dumps(value))

    def _put(self, *parts: bytes) -> None:
        for part in parts:
            self._sum.update(part)
            self._file.write(part)

    def _begin(self) -> None:
        self._put(MAGIC)

    def _end(self) -> None:
        self._file.write(_HEAD.pack(b"Z", self._sum.digest_size) + self._sum.digest())
        self._file.flush()
        os.fsync(self._file.fileno())


@asynccontextmanager
async def create(path: Path) -> AsyncIterator[Archive]:
    """Write a backup, readable by nobody else; when something fails, no file is left, and an old one stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        file = await trio.to_thread.run_sync(_open_private, temporary)
    except OSError as error:
        raise ConfigError(f"the backup {path} cannot be written: {error}") from error
    try:
        with file:
            archive = Archive(file)
            archive._begin()
            yield archive
            await trio.to_thread.run_sync(archive._end)
        await trio.to_thread.run_sync(temporary.replace, path)
    except OSError as error:
        raise ConfigError(f"the backup {path} cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _open_private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def check(path: Path) -> None:
    """Raise `ConfigError` unless a file is a whole backup."""
    try:
        total = hashlib.sha256()
        with path.open("rb") as file:
            total.update(_magic(file, path))
            while True:
                head, kind, payload = _frame(file, path)
                if kind == b"Z":
                    break
                total.update(head)
                total.update(payload)
            if payload != total.digest() or file.read(1):
                raise ConfigError(f"the backup {path} is damaged: its checksum is wrong")
    except OSError as error:
        raise ConfigError(f"the backup {path} cannot be read: {error}") from error


def frames(path: Path) -> Iterator[tuple[bytes, bytes]]:
    """Return the frames of a backup that was checked."""
    with path.open("rb") as file:
        _magic(file, path)
        while True:
            _, kind, payload = _frame(file, path)
            if kind == b"Z":
                return
            yield kind, payload


def _magic(file: BinaryIO, path: Path) -> bytes:
    magic = file.read(len(MAGIC))
    if magic == MAGIC:
        return magic
    if magic.startswith(MAGIC.rsplit(b" ", 1)[0]):
        raise ConfigError(f"the backup {path} was made by another version of Zapomni: upgrade Zapomni")
    raise ConfigError(f"{path} is no backup of Zapomni")


def _frame(file: BinaryIO, path: Path) -> tuple[bytes, bytes, bytes]:
    head = file.read(_HEAD.size)
    if len(head) == _HEAD.size:
        kind, length = _HEAD.unpack(head)
        payload = file.read(length) if length <= LONGEST else b""
        if len(payload) == length:
            return head, kind, payload
    raise ConfigError(f"the backup {path} is damaged: it ends too early")
