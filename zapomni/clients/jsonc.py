"""JSON with comments, edited in place: everything outside our own entry keeps every byte.

A client's settings belong to the person who wrote them, comments, order, indentation and all, so a file is never
printed anew. It is parsed with positions, and text is put in or cut out at one of them.

Cutting must give back what was there before putting, so the layout remembers the case:

- a table that has entries gets ours after the last one, a comma in front or, where the file ends its lists with
  a comma, behind;
- an empty table that was there gets ours directly after its brace, with no space between;
- a table that was not there comes on lines of its own, so an only entry on its own line means that the table is
  ours to take away as well.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.clients import hiding
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*(?:[^*]|\*(?!/))*\*/")
_QUOTED = re.compile(rf'{_COMMENT.pattern}|(?P<quoted>"(?:[^"\\]|\\.)*")(?P<name>(?=(?>{_TRIVIA.pattern}):))?')
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?[0-9][0-9eE+.-]*|true|false|null')


@attrs.frozen
class _Member:
    key: str
    start: int
    node: _Node
    comma: int | None
    """Where the comma behind it stands, if there is one."""


@attrs.frozen
class _Node:
    start: int
    end: int
    value: Any
    members: tuple[_Member, ...] | None = None
    """Of an object; None for everything else."""


def parse(text: str) -> dict[str, Any]:
    """Return the values of a settings file; a blank one is an empty object. Raises `ConfigError`."""
    root = _root(text)
    return {} if root is None else root.value


def put(text: str, table: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with ``table.name`` set to the entry. Raises `ConfigError`."""
    root = _root(text)
    if root is None:
        return text + ("" if text[-1:] in ("", "\n") else _eol(text)) + render(table, name, entry)
    at = _find(root, table)
    if at is None:
        return _add(text, root, root, table, {name: entry}, own_lines=True)
    if at.node.members is None:
        raise ConfigError(f'"{table}" is not an object')
    old = _find(at.node, name)
    if old is None:
        return _add(text, root, at.node, name, entry)
    indent = _indent_at(text, old.start) if "\n" in text[old.node.start : old.node.end] else None
    return text[: old.node.start] + _write(entry, indent, _unit(text, root), _eol(text)) + text[old.node.end :]


def drop(text: str, table: str, name: str) -> str:
    """Return the text without ``table.name``. Raises `ConfigError`."""
    root = _root(text)
    at = None if root is None else _find(root, table)
    old = None if at is None or at.node.members is None else _find(at.node, name)
    if root is None or at is None or old is None:
        return text
    before = text[at.node.start + 1 : old.start]
    behind = text[old.node.end : at.node.end - 1]
    ours = before.isspace() and "\n" in before and behind.isspace() and "\n" in behind
    return _cut(text, root, at) if ours else _cut(text, at.node, old)


def render(table: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return a whole file that holds this entry and nothing else."""
    return json.dumps({table: {name: entry}}, indent=2, ensure_ascii=False) + "\n"


def hide(text: str, shown: Iterable[str]) -> str:
    """Return the text as it may be shown, with only these of its values."""
    return hiding.hide(text, _QUOTED, {json.dumps(value, ensure_ascii=False) for value in shown})


def _root(text: str) -> _Node | None:
    start = _skip(text, 0)
    if start == len(text):
        return None
    try:
        root = _value(text, start)
    except RecursionError as error:
        raise ConfigError("it is nested too deeply") from error
    end = _skip(text, root.end)
    if end != len(text):
        raise _wrong(text, end, "the end of the file")
    if root.members is None:
        raise ConfigError("it is not a JSON object")
    return root


def _value(text: str, at: int) -> _Node:
    if text.startswith("{", at):
        return _object(text, at)
    if text.startswith("[", at):
        return _array(text, at)
    match = _SCALAR.match(text, at)
    if match is None:
        raise _wrong(text, at, "a value")
    try:
        return _Node(at, match.end(), json.loads(match[0]))
    except ValueError as error:
        raise _wrong(text, at, "a value") from error


def _object(text: str, start: int) -> _Node:
    members: list[_Member] = []
    at = _skip(text, start + 1)
    while not text.startswith("}", at):
        if members and members[-1].comma is None:
            raise _wrong(text, at, "a comma or a closing brace")
        key = _value(text, at)
        if not isinstance(key.value, str):
            raise _wrong(text, at, "a name in double quotes")
        colon = _skip(text, key.end)
        if not text.startswith(":", colon):
            raise _wrong(text, colon, "a colon")
        node = _value(text, _skip(text, colon + 1))
        at = _skip(text, node.end)
        comma = at if text.startswith(",", at) else None
        members.append(_Member(key.value, key.start, node, comma))
        if comma is not None:
            at = _skip(text, comma + 1)
    return _Node(start, at + 1, {member.key: member.node.value for member in members}, tuple(members))


def _array(text: str, start: int) -> _Node:
    items: list[Any] = []
    comma = True
    at = _skip(text, start + 1)
    while not text.startswith("]", at):
        if not comma:
            raise _wrong(text, at, "a comma or a closing bracket")
        item = _value(text, at)
        items.append(item.value)
        at = _skip(text, item.end)
        comma = text.startswith(",", at)
        at = _skip(text, at + 1) if comma else at
    return _Node(start, at + 1, items)


def _skip(text: str, at: int) -> int:
    match = _TRIVIA.match(text, at)
    return match.end() if match else at


def _wrong(text: str, at: int, wanted: str) -> ConfigError:
    line = text.count("\n", 0, at) + 1
    return ConfigError(f"it is not valid JSON: line {line} should have {wanted}")


def _find(node: _Node, key: str) -> _Member | None:
    found = [member for member in node.members or () if member.key == key]
    if len(found) > 1:
        raise ConfigError(f'it has "{key}" more than once')
    return found[0] if found else None


def _add(
    text: str, root: _Node, container: _Node, key: str, value: Mapping[str, Any], *, own_lines: bool = False
) -> str:
    unit, eol = _unit(text, root), _eol(text)
    outer = _indent_at(text, container.start)
    if not container.members:
        at = container.start + 1
        if not own_lines:
            return text[:at] + _member(key, value, None, unit, eol) + text[at:]
        body = _member(key, value, outer + unit, unit, eol)
        empty = container.end == at + 1
        body = f"{eol}{outer}{unit}{body}{eol}{outer}" if empty else f" {body}"
        return text[:at] + body + text[at:]
    last = container.members[-1]
    before = _space_before(text, last.start)
    start = last.node.end if last.comma is None else last.comma + 1
    comments = list(_COMMENT.finditer(text, start, container.end - 1))
    own_lines = own_lines or "\n" in before or any(comment[0].startswith("//") for comment in comments)
    indent = before.rpartition("\n")[2] if "\n" in before else outer + unit
    lead = eol + indent if own_lines else " "
    body = lead + _member(key, value, indent if own_lines else None, unit, eol)
    at = comments[-1].end() if comments else start
    if last.comma is None:
        return text[:start] + "," + text[start:at] + body + text[at:]
    return text[:at] + body + "," + text[at:]


def _cut(text: str, container: _Node, member: _Member) -> str:
    members = container.members or ()
    before = _space_before(text, member.start)
    start, end = member.start - len(before), member.node.end
    if member.comma is not None:
        return text[:start] + text[member.comma + 1 :]
    if len(members) > 1:
        comma = members[-2].comma or start  # the last but one has a comma, or it would not be valid
        return text[:comma] + text[comma + 1 : start] + text[end:]
    behind = text[end : container.end - 1]
    if start == container.start + 1 and "\n" in before and not behind.strip():
        end += len(behind)
    return text[:start] + text[end:]


def _member(key: str, value: Mapping[str, Any], indent: str | None, unit: str, eol: str) -> str:
    return f"{json.dumps(key)}: {_write(value, indent, unit, eol)}"


def _write(value: Mapping[str, Any], indent: str | None, unit: str, eol: str) -> str:
    """Render a value on one line, or on several of which the later ones are indented."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", eol + indent)


def _unit(text: str, root: _Node) -> str:
    before = _space_before(text, root.members[0].start) if root.members else ""
    return (before.rpartition("\n")[2] if "\n" in before else "") or "  "


def _eol(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _space_before(text: str, at: int) -> str:
    start = at
    while start > 0 and text[start - 1] in " \t\r\n":
        start -= 1
    return text[start:at]


def _indent_at(text: str, at: int) -> str:
    line = text.rfind("\n", 0, at) + 1
    match = re.compile(r"[ \t]*").match(text, line, at)
    return match[0] if match else ""
