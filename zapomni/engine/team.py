"""A nursery whose errors are what its tasks raised, and no groups of them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def open_team() -> AsyncIterator[trio.Nursery]:
    """Open a nursery; the first error of a task, or of the block, ends all of them and is raised as it is."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        error = _first(group)
    else:
        return
    raise error


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return one of the errors; being cancelled is one only where there is no other."""
    errors = _leaves(group)
    return next((error for error in errors if not isinstance(error, trio.Cancelled)), errors[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
