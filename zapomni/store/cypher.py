"""Rendering queries and reading replies.

Whatever a user gave travels as a parameter, rendered here and nowhere else. FalkorDB's parser knows the backslash and
the quote, decodes no ``\\u`` escape, and takes every other character raw, with one exception: a NUL ends the query.
So a NUL is written as two characters and read back as one; a text comes back as it went in.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from zapomni.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Sequence

type Value = bool | int | float | str | Sequence["Value"] | None

LEAST, MOST = -(2**63) + 1, 2**63 - 1  # FalkorDB clamps what is outside, without a word
_ESCAPED = re.compile("\x1a[01]")


def render(query: str, /, **parameters: Value) -> str:
    """Return a query with its parameters in front, as the server wants them."""
    if not parameters:
        return query
    return f"CYPHER {' '.join(f'{name}={literal(value)}' for name, value in parameters.items())} {query}"


def literal(value: Value) -> str:
    """Render one value; raises `ValidationError` for what the database cannot keep."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            if not LEAST <= value <= MOST:
                raise ValidationError(f"a number is too large to be stored: {value}")
            return str(value)
        case float():
            if not math.isfinite(value):
                raise ValidationError(f"a number cannot be stored: {value}")
            return repr(value)
        case str():
            return _quote(value)
        case _:
            return f"[{','.join(map(literal, value))}]"


def rows(reply: Sequence[Any]) -> list[list[Any]]:
    """Return the rows of a reply; a query that only writes has none."""
    return reply[1] if len(reply) > 1 else []


def decode(cell: bytes | None) -> str | None:
    """Return a string as it was given to `literal`."""
    return None if cell is None else decode_text(cell)


def decode_text(cell: bytes) -> str:
    text = cell.decode()
    return _ESCAPED.sub(_unescape, text) if "\x1a" in text else text


def _quote(text: str) -> str:
    if "\x00" in text or "\x1a" in text:
        text = text.replace("\x1a", "\x1a1").replace("\x00", "\x1a0")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unescape(match: re.Match[str]) -> str:
    return "\x00" if match[0] == "\x1a0" else "\x1a"
