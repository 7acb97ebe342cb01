"""What a server knows about the call that a tool is answering.

A tool takes arguments and returns an answer; it knows neither the protocol nor who asked. What it may want beyond
that lies in a context variable: where to report progress, if the client asked for it, and where to leave facts for
the one log line that the server writes about the call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

Reporter = Callable[[float, float | None, str | None], Awaitable[None]]
"""Takes how much is done, how much there is in all, and a word for people."""


@attrs.frozen
class Call:
    """One call, as long as it is being answered."""

    reporter: Reporter | None = None
    facts: dict[str, object] = attrs.field(factory=dict)
    """Ids and counts for the log; never the text of a memory."""


_current: ContextVar[Call | None] = ContextVar("zapomni_call", default=None)


def current_call() -> Call:
    """Return the call being answered; outside a server, one that nobody listens to."""
    return _current.get() or Call()


@contextlib.contextmanager
def answering(call: Call) -> Iterator[None]:
    """Make a call the current one for the work inside."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
