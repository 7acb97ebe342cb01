"""The one broad `except` of the program.

A request must be answered whatever its tool does, so somewhere every `Exception` has to be caught. It is caught here
and nowhere else, for our own tools and, in the server, for the tools of others. `trio.Cancelled`, `KeyboardInterrupt`
and `SystemExit` are no `Exception` and pass: the work was told to stop, and there is nothing to answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@attrs.frozen
class Failure:
    """What became of an attempt that raised."""

    error: Exception


async def attempt[T, *Ts](work: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T | Failure:
    """Return the work's result, or the error that it raised."""
    try:
        return await work(*args)
    except Exception as error:
        return Failure(_innermost(error))


def _innermost(error: Exception) -> Exception:
    """Take an error out of the groups that nurseries put around it; of several alike, the first speaks for all."""
    while isinstance(error, ExceptionGroup) and len({type(each) for each in error.exceptions}) == 1:
        error = error.exceptions[0]
    return error
