"""Work on the store's byte strings as arrays, without holding up the event loop where they are long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONG = 1 << 18  # bytes that are not worked through on the event loop's own thread


async def compute[T](work: Callable[[], T], data: Iterable[bytes | None]) -> T:
    """Run work on these byte strings, in a thread where it takes long."""
    if sum(len(part) for part in data if part) < LONG:
        return work()
    return await trio.to_thread.run_sync(work)
