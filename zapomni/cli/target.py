"""Where an export goes: a stream, a file that appears when it is whole, or a folder of the same kind.

A link leads to what it names, and a pipe or a device is written to, not replaced. Only the owner can read a new file.
Nothing blocks the loop, so Ctrl-C works also when a reader takes its time.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from zapomni.errors import ConfigError
from zapomni.transfer import jsonl, markdown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import BinaryIO

    from zapomni.transfer import Record

BLOCK = 64 * 1024


async def write_stream(records: AsyncIterator[Record]) -> None:
    """Write JSON Lines to stdout, which must be open."""
    await _write_straight(records, sys.stdout.fileno())


def is_stdout(name: str) -> bool:
    """Tell whether a path is another name of standard output, such as /dev/stdout."""
    try:
        return os.path.samestat(os.stat(name), os.fstat(1))
    except (OSError, ValueError):  # a path that is not there, or a standard output that is closed
        return False


async def _write_straight(records: AsyncIterator[Record], output: int) -> None:
    def write(block: bytes) -> None:
        # Past the buffers of Python: a thread that waits in one of those would crash the interpreter's exit.
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(output, rest) :]

    await _write_lines(records, write, abandon=True)


async def write_file(records: AsyncIterator[Record], path: Path, *, replace: bool = False) -> None:
    """Write JSON Lines to a file, or into a pipe or device.

    Raises `ConfigError`, also for a file that is there already, unless it is to be replaced.
    """
    with _explained(path):
        if _is_special(path):
            # A pipe opens when it has a reader; whoever interrupts does not wait for one.
            output = await trio.to_thread.run_sync(os.open, path, os.O_WRONLY, abandon_on_cancel=True)
            try:
                await _write_straight(records, output)
            finally:
                os.close(output)
        else:
            with _new_file(path, replace=replace) as file:
                await _write_lines(records, file.write)


async def write_folder(records: AsyncIterator[Record], path: Path) -> None:
    """Write a folder of Markdown files, which must not be there yet, or be empty. Raises `ConfigError`."""
    with _explained(path), _new_folder(path) as folder:
        async for record in records:
            await trio.to_thread.run_sync(_write_note, folder / markdown.file_name(record), markdown.encode(record))


@contextmanager
def _new_file(path: Path, *, replace: bool) -> Iterator[BinaryIO]:
    path = Path(os.path.realpath(path))
    if path.exists() and not replace:
        raise FileExistsError(0, "it is there already; --force replaces it")
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    path = Path(os.path.realpath(path))
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(0, "it is there already; name a new folder, or an empty one")
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as temporary:
        whole = Path(temporary, "whole")
        whole.mkdir(0o700)
        yield whole
        whole.replace(path)


def _is_special(path: Path) -> bool:
    """Tell a pipe or a device from a file, be it there or not. Raises `OSError` for a folder."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(0, "it is a folder")
    return not stat.S_ISREG(mode)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


def _write_note(path: Path, content: bytes) -> None:
    path.parent.mkdir(0o700, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


async def _write_lines(
    records: AsyncIterator[Record], write: Callable[[bytes], object], *, abandon: bool = False
) -> None:
    block = bytearray(jsonl.HEADER)
    async for record in records:
        block += jsonl.encode(record)
        if len(block) >= BLOCK:
            await trio.to_thread.run_sync(write, bytes(block), abandon_on_cancel=abandon)
            block.clear()
    await trio.to_thread.run_sync(write, bytes(block), abandon_on_cancel=abandon)
