"""From bytes to messages and back: pure, no I/O.

One message is one line of JSON. What arrives is not to be trusted: a line may be longer than memory, no JSON, JSON
that is no message, or a message that the SDK would drop in silence. Every line that asks for an answer gets one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import mcp_types as types
from mcp.shared.message import SessionMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import ValidationError

TOO_LONG = None
"""Stands for a line over the limit, which is not kept."""

_HALF_A_PAIR = "a text holds half of a surrogate pair, as one that was cut inside an emoji does"
_HINTS = {"hex escape": _HALF_A_PAIR, "code point": _HALF_A_PAIR, "recursion": "it is nested too deep"}
"""What to mend in JSON that Python reads and the SDK does not, by words of the SDK's parser."""


class LineSplitter:
    """Cuts a stream of bytes into lines and never holds more than the longest line allowed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._scanned = 0
        self._discarding = False

    def feed(self, data: bytes | bytearray) -> Iterator[bytes | None]:
        """Yield each line that the data completes, and `TOO_LONG` once for each line over the limit."""
        self._buffer += data
        while (end := self._buffer.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._scanned = 0
            if self._discarding:
                self._discarding = False
            else:
                yield line if len(line) <= self._limit else TOO_LONG
        if len(self._buffer) > self._limit and not self._discarding:
            self._discarding = True
            yield TOO_LONG
        if self._discarding:
            self._buffer.clear()
        self._scanned = len(self._buffer)

    def close(self) -> bytes:
        """Return what stood after the last line break; a peer may leave the last one out."""
        return b"" if self._discarding else bytes(self._buffer)


def error_line(code: int, message: str, request_id: str | int | None = None) -> bytes:
    """Return an error response, ready to be sent."""
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode() + b"\n"


def too_long_line(limit: int) -> bytes:
    """Return the answer to a line over the limit; its id is unknown, since nothing of it was kept."""
    return error_line(types.INVALID_REQUEST, f"Invalid Request: the message is longer than {limit} bytes")


def decode(line: bytes) -> SessionMessage | bytes:
    """Return the message that a line holds, or the error response that it deserves."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as error:
        return _refusal(line, error)  # type: ignore[arg-type]  # pydantic's error is the only ValueError here
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
        # An id of null, true or 1.5 is no id, and the SDK would take the request for a notification.
        return error_line(types.INVALID_REQUEST, "Invalid Request: id must be a string or an integer")
    return SessionMessage(message)


def _refusal(line: bytes, error: ValidationError) -> bytes:
    details = error.errors(include_url=False, include_input=False)[0]
    request_id = _id_in(line)
    if details["type"] != "json_invalid":
        return error_line(types.INVALID_REQUEST, "Invalid Request", request_id)
    if request_id is None:
        return error_line(types.PARSE_ERROR, "Parse error")
    # Whoever waits for this id would wait for ever. JavaScript, for one, writes half a surrogate pair as an escape.
    reason = details["ctx"]["error"]
    hint = next((hint for words, hint in _HINTS.items() if words in reason), "it is no JSON that can be read")
    return error_line(types.INVALID_REQUEST, f"Invalid Request: {hint} ({reason})", request_id)


def _id_in(line: bytes) -> str | int | None:
    try:
        request_id = json.loads(line)["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return request_id if isinstance(request_id, str | int) and not isinstance(request_id, bool) else None


def encode(message: types.JSONRPCMessage) -> bytes:
    """Return a message as a line; a result that cannot be written costs one error answer and nothing else."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:  # lone surrogates, from file names perhaps
        if isinstance(message, types.JSONRPCResponse):
            return error_line(types.INTERNAL_ERROR, "Internal error: the result cannot be written as JSON", message.id)
        return b""
