"""TOML, edited in place: our table goes to the end of the file, and comes out with the one newline it brought.

`tomllib` gives values but no positions, so a small scan finds where each statement begins and ends. It trusts the
text to be valid, since `tomllib` has read it before.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.clients import hiding
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_BLANK = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*""")
_OPEN = re.compile(r"[ \t]*\[{1,2}")
_CLOSE = re.compile(r"\]{1,2}")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
# The long strings come first, because their quotes begin like the short ones'.
_STRING = (
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
# What a value is made of.
_TOKEN = re.compile(_STRING + r"|#[^\n]*|[\[\]{}\n]|[^\[\]{}\n\"'#]+", re.DOTALL)
# The last part of a table's name counts as a value here: in quotes, it looks like the last item of a list.
_QUOTED = re.compile(rf"#[^\n]*|(?P<quoted>{_STRING})(?P<name>(?=[ \t]*[.=]))?", re.DOTALL)


@attrs.frozen
class _Statement:
    path: tuple[str, ...]
    start: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """Return the values of a settings file. Raises `ConfigError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"it is not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError("it is nested too deeply") from error


def put(text: str, table: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with ``table.name`` set to the entry. Raises `ConfigError`."""
    if _is_inline(text, table):
        raise ConfigError(f'"{table}" is written as an inline table; the entry has to be added to it by hand')
    text = drop(text, table, name)
    eol = "\r\n" if "\r\n" in text else "\n"
    return text + (eol if text else "") + render(table, name, entry).replace("\n", eol)


def drop(text: str, table: str, name: str) -> str:
    """Return the text without ``table.name``. Raises `ConfigError`."""
    if _is_inline(text, table):
        raise ConfigError(f'"{table}" is written as an inline table; the entry has to be taken out of it by hand')
    runs: list[tuple[int, int]] = []
    adjacent = False
    for statement in _statements(text):
        ours = statement.path[:2] == (table, name)
        if ours and adjacent:
            runs[-1] = (runs[-1][0], statement.end)
        elif ours:
            runs.append((statement.start, statement.end))
        adjacent = ours
    for start, end in reversed(runs):
        before, behind = text[:start], text[end:]
        for eol in ("\r\n", "\n"):
            if before.endswith(eol) and (not behind or before.endswith(eol * 2)):
                before = before.removesuffix(eol)
                break
        text = before + behind
    return text


def render(table: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the table as it stands in a file. Raises `ConfigError` for a value that TOML cannot hold."""
    lines = [f"{_key(key)} = {_write(value)}" for key, value in entry.items()]
    return "\n".join([f"[{_key(table)}.{_key(name)}]", *lines, ""])


def hide(text: str, shown: Iterable[str]) -> str:
    """Return the text as it may be shown, with only these of its values."""
    return hiding.hide(text, _QUOTED, set(map(_quote, shown)))


def _write(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quote(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(map(_write, value))}]"
        case dict():
            inner = ", ".join(f"{_key(str(key))} = {_write(item)}" for key, item in value.items())
            return f"{{ {inner} }}" if inner else "{}"
    raise ConfigError(f"its entry has a value that cannot be carried over: {value!r}")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quote(name)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_inline(text: str, table: str) -> bool:
    """Tell whether a table is a value in braces: TOML lets nothing outside of them add to it."""
    parse(text)
    return any(found.path == (table,) and not _OPEN.match(text, found.start) for found in _statements(text))


def _statements(text: str) -> list[_Statement]:
    """Return the statements of a valid text in order, each with its full path and the lines that it takes."""
    found: list[_Statement] = []
    current: tuple[str, ...] = ()
    at = 0
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank is not None:
            at = max(blank.end(), at + 1)
            continue
        start = at
        header = _OPEN.match(text, at)
        path, at = _path(text, header.end() if header else at)
        close = _CLOSE.match(text, at)
        if header:
            current = path
        else:
            path = current + path
        at = _line_end(text, close.end() if header and close else at)
        found.append(_Statement(path, start, at))
    return found


def _path(text: str, at: int) -> tuple[tuple[str, ...], int]:
    parts: list[str] = []
    while True:
        match = _KEY.match(text, at)
        if match is None:
            raise ConfigError("its keys are written in a way that cannot be edited safely")
        parts.extend(tomllib.loads(f"{match[1]} = 0"))
        at = match.end()
        if not text.startswith(".", at):
            return tuple(parts), at
        at += 1


def _line_end(text: str, at: int) -> int:
    """Return where the statement's last line ends, behind its newline."""
    depth = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigError("its values are written in a way that cannot be edited safely")
        at = match.end()
        if match[0] == "\n" and depth == 0:
            return at
        depth += (match[0] in ("[", "{")) - (match[0] in ("]", "}"))
    return at
