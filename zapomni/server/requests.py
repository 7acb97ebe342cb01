"""The life of one request, from its arrival to its answer.

There is one path, whether a request came over the wire or through `MCPServer.handle_request`: the log is bound, the
deadline starts, the request waits for its turn (which counts against the deadline), the work runs, the outcome is
counted, and one line is logged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import structlog
import trio

from zapomni.log import get_logger
from zapomni.tools.attempt import Failure, attempt
from zapomni.tools.call import Call, answering

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zapomni.tools.call import Reporter

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
TIMED_OUT = -32001

LOGGED_LENGTH = 100
"""How much of a name that a client chose goes into the log."""

log = get_logger("server")


class RequestError(Exception):
    """An error answer of the protocol: a number, words for the client, and perhaps data."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@attrs.frozen
class Request:
    """What is asked, by its names alone."""

    method: str
    tool: str | None = None
    request_id: str | int | None = None
    timeout: float | None = None
    """Seconds, where the server's own limit does not suit."""
    reporter: Reporter | None = None
    waits: bool = True
    """Takes a turn among those that run at the same time; what is answered at once need not."""

    @property
    def subject(self) -> str:
        return self.tool or self.method


class Requests:
    """Runs requests side by side, each in a scope of its own, and counts them."""

    def __init__(self, *, timeout: float, max_concurrent: int) -> None:
        self.total = 0
        self.errors = 0
        self._timeout = timeout
        self._turns = trio.Semaphore(max_concurrent)

    async def run[T](self, request: Request, work: Callable[[], Awaitable[T]]) -> T:
        """Return what the work returns. Raises `RequestError`, and nothing else of its own.

        The detail of an unexpected error is logged and not told.
        """
        started = time.perf_counter()
        call = Call(request.reporter)
        outcome = "cancelled"
        self.total += 1
        with structlog.contextvars.bound_contextvars(request_id=_shown_id(request.request_id)):
            try:
                with answering(call):
                    # Around the deadline, not inside it: what breaks while work is being cancelled is caught, too.
                    result = await attempt(self._run, request, work)
                outcome = _outcome_of(result)
                if isinstance(result, Failure):
                    raise _as_request_error(result.error, request)
                return result
            finally:
                if outcome not in ("ok", "cancelled"):
                    self.errors += 1
                facts: dict[str, object] = {"tool": request.tool[:LOGGED_LENGTH]} if request.tool else {}
                milliseconds = round((time.perf_counter() - started) * 1000, 2)
                log.info("request", method=request.method, outcome=outcome, ms=milliseconds, **facts, **call.facts)

    async def _run[T](self, request: Request, work: Callable[[], Awaitable[T]]) -> T:
        seconds = self._timeout if request.timeout is None else request.timeout
        with trio.move_on_after(seconds):
            if not request.waits:
                return await work()
            await self._take_turn()
            try:
                return await work()
            finally:
                self._turns.release()
        raise RequestError(TIMED_OUT, f"{request.subject} timed out after {seconds:g} s")

    async def _take_turn(self) -> None:
        """Take a free turn at once; going round the loop for it would be a good part of what a call costs."""
        try:
            self._turns.acquire_nowait()
        except trio.WouldBlock:
            await self._turns.acquire()


def _shown_id(request_id: str | int | None) -> str | int:
    if request_id is None:
        return "<no-id>"
    return request_id[:LOGGED_LENGTH] if isinstance(request_id, str) else request_id


def _outcome_of(result: object) -> str:
    if isinstance(result, Failure):
        if not isinstance(result.error, RequestError):
            return "failed"
        return "timeout" if result.error.code == TIMED_OUT else "error"
    return "error" if isinstance(result, Mapping) and result.get("isError") else "ok"


def _as_request_error(error: Exception, request: Request) -> RequestError:
    if isinstance(error, RequestError):
        return error
    log.error("request_failed", method=request.method, tool=request.tool, exc_info=error)
    failed = RequestError(
        INTERNAL_ERROR,
        f"Tool execution failed: {request.tool}"
        if request.tool
        else "Internal error occurred while processing request",
    )
    failed.__cause__ = error
    return failed
