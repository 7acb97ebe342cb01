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
        error = innermost(group)
    else:
        return
    raise error


def innermost(error: BaseException) -> BaseException:
    """Take an error out of the groups that nurseries put around it.

    Of several, whoever asks the program to end goes first; being cancelled is one only where there is no other.
    """
    return min(_leaves(error), key=_rank)


def _rank(error: BaseException) -> int:
    if isinstance(error, trio.Cancelled):
        return 2
    return 1 if isinstance(error, Exception) else 0


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
