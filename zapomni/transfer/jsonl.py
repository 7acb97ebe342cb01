"""Our own format, ``zapomni.jsonl``: lossless, and the same bytes for the same memories.

UTF-8, one JSON object a line, lines ended by a line feed. The first line is the header::

    {"format":"zapomni.jsonl","version":1}

and every other line a memory, its fields in this order, those in brackets only where there is a value::

    [id] [key] [workspace] version [created_at] [updated_at] text metadata [history]

``created_at``, when the memory was first stored, and ``updated_at``, when this version was, are ISO 8601 in UTC to
the microsecond. ``history`` lists the earlier versions, the oldest first, as objects with ``version``, ``text``,
``metadata`` and ``created_at``, which is when that version was stored. Names inside metadata are sorted; characters
are written as themselves, never as escapes beyond those that JSON demands; numbers are kept as they are, whole
ones of any size. So what a reader takes in, it writes out again to the byte.

A line that cannot be read is reported with its number, and the rest comes in. A field that version 1 does not know
makes its line a problem, too: to drop it in silence would be a loss.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from zapomni.transfer.records import Item, Problem, Record, Version, checked, iso, moment_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

NAME = "zapomni.jsonl"
VERSION = 1
HEADER = f'{{"format":"{NAME}","version":{VERSION}}}\n'.encode()

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONGEST = 256 * 1024 * 1024
"""Of a line, in bytes. The longest text takes a sixth of it, and what is longer must not fill the memory."""


def encode(record: Record) -> bytes:
    """Return the record's line. Raises `ValueError` for metadata that JSON cannot hold, such as a NaN."""
    history = [
        _object(version=old.version, text=old.text, metadata=dict(old.metadata), created_at=_moment(old.created_at))
        for old in record.history
    ]
    line = _object(
        id=record.id,
        key=record.key,
        workspace=record.workspace,
        version=record.version,
        created_at=_moment(record.created_at),
        updated_at=_moment(record.updated_at),
        text=record.text,
        metadata=dict(record.metadata),
    )
    if history:
        line = f'{line[:-1]},"history":[{",".join(history)}]}}'
    return line.encode() + b"\n"


def read(file: BinaryIO) -> Iterator[Item]:
    """Read a file from its header on, a line at a time; what is wrong with one line is yielded, not raised."""
    lines = _lines(file)
    first = next(lines, (1, b""))[1]
    try:
        header = _loads((first or b"").removeprefix(b"\xef\xbb\xbf"))
        if not isinstance(header, dict) or header.get("format") != NAME:
            raise ValueError(f"the file does not begin with the header of {NAME}")
        if header.get("version") != VERSION:
            raise ValueError(f"the file has version {header.get('version')!r}; this program reads version {VERSION}")
    except (ValueError, RecursionError) as error:
        yield Problem("line 1", _reason(error))
        return
    for number, line in lines:
        where = f"line {number}"
        if line is None:
            yield Problem(where, f"it is longer than {_LONGEST:,} bytes")
        elif line.strip():
            try:
                yield checked(_record(_loads(line), where))
            except (ValueError, RecursionError) as error:
                yield Problem(where, _reason(error))


def is_header(value: object) -> bool:
    """Tell whether a file's first value marks it as ours."""
    return isinstance(value, dict) and value.get("format") == NAME


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield each line with its number; None stands for one that is too long to be held."""
    number = 0
    while line := file.readline(_LONGEST):
        number += 1
        whole = line.endswith(b"\n") or len(line) < _LONGEST
        yield number, line if whole else None
        while not whole:
            rest = file.readline(1024 * 1024)
            whole = not rest or rest.endswith(b"\n")


def _loads(line: bytes) -> object:
    value = json.loads(line.decode(), parse_constant=_refuse)
    if _SURROGATE.search(line):  # an escape may be half of a pair, which no UTF-8 can hold
        _dumps(value).encode()
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _reason(error: Exception) -> str:
    match error:
        case json.JSONDecodeError():
            return f"it is not valid JSON: {error.msg} at character {error.pos + 1}"
        case UnicodeDecodeError():
            return f"it is not UTF-8: byte {error.start + 1} cannot be read"
        case UnicodeEncodeError():
            return "it has half of a surrogate pair"
        case RecursionError():
            return "it is nested too deeply"
    return str(error)


def _object(**fields: Any) -> str:
    """Render an object in the order given; everything inside it is sorted by name."""
    parts = (f'"{name}":{_dumps(value)}' for name, value in fields.items() if value is not None)
    return "{" + ",".join(parts) + "}"


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)


def _record(fields: object, where: str) -> Record:
    own = _fields(
        fields, {"id": _text, "key": _text, "workspace": _text, "updated_at": _stored, "history": _history, **_EITHER}
    )
    return Record(**own, where=where)


def _history(value: object) -> tuple[Version, ...]:
    if not isinstance(value, list):
        raise ValueError("history is not a list")
    return tuple(Version(**{"version": 1, **_fields(item, _EITHER)}) for item in value)


def _fields(value: object, known: Mapping[str, Callable[[object], object]]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    unknown = value.keys() - known.keys()
    if unknown:
        raise ValueError(f"it has a field that is not known: {', '.join(sorted(unknown))}")
    if "text" not in value:
        raise ValueError("it has no text")
    return {name: _take(name, item, known[name]) for name, item in value.items() if item is not None}


def _take(name: str, item: object, check: Callable[[object], object]) -> object:
    try:
        return check(item)
    except TypeError as error:
        raise ValueError(f"{name} is not {error}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TypeError("a number from 1 on")
    return value


def _metadata(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object")
    return value


def _stored(value: object) -> datetime:
    moment = moment_of(value) if isinstance(value, str) else None
    if moment is None:
        raise TypeError("a moment in ISO 8601")
    return moment


_EITHER: dict[str, Callable[[object], object]] = {
    "version": _number,
    "text": _text,
    "metadata": _metadata,
    "created_at": _stored,
}
