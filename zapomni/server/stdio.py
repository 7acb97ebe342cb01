"""The standard streams, taken over for the protocol.

While a server runs, file descriptor 1 leads to stderr and descriptor 0 to nothing, and the protocol uses private
copies: no `print` of a library and no child process can write into it or read from it. The SDK's own transport reads
in a thread that cannot be cancelled, so a signal would have to wait for the client's next line; Trio's descriptor
streams are cancelled at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from typing import TYPE_CHECKING, TextIO

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_LOWEST_PRIVATE_DESCRIPTOR = 3


@contextlib.asynccontextmanager
async def open_stdio() -> AsyncIterator[tuple[trio.abc.ReceiveStream, trio.abc.SendStream]]:
    """Claim descriptors 0 and 1, and give them back at the end. Raises `ConnectionError` where they are missing."""
    _check("stdin", sys.stdin)
    _check("stdout", sys.stdout)
    sys.stdout.flush()
    with _claimed(0, os.devnull, os.O_RDONLY) as incoming, _claimed(1, 2, os.O_WRONLY) as outgoing:
        async with trio.lowlevel.FdStream(incoming) as source, trio.lowlevel.FdStream(outgoing) as sink:
            yield source, sink


def _check(name: str, stream: TextIO | None) -> None:
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        raise ConnectionError(f"{name} not available in binary mode")
    if buffer.closed:
        raise ConnectionError(f"{name} is closed")


@contextlib.contextmanager
def _claimed(descriptor: int, diversion: int | str, mode: int) -> Iterator[int]:
    """Yield a private copy of a standard descriptor, which leads elsewhere meanwhile.

    The copy is the caller's to close. A second copy is kept to put everything back.
    """
    try:
        private = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST_PRIVATE_DESCRIPTOR)
    except OSError as error:
        raise ConnectionError(f"{'stdin' if descriptor == 0 else 'stdout'} is closed") from error
    kept = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LOWEST_PRIVATE_DESCRIPTOR)
    try:
        _divert(descriptor, diversion, mode)
        yield private
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def _divert(descriptor: int, diversion: int | str, mode: int) -> None:
    if isinstance(diversion, int):
        with contextlib.suppress(OSError):  # a process may have been started without stderr
            os.dup2(diversion, descriptor)
            return
    nothing = os.open(os.devnull, mode)
    try:
        os.dup2(nothing, descriptor)
    finally:
        os.close(nothing)
