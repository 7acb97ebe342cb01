"""The rules of ``.gitignore`` files, as git itself reads them.

Names are matched as bytes, which is what git does: a ``?`` is one byte. Nothing here touches the disk.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLASH = ord("/")
_STAR = b"*"
_DEEP = b"(?:.*/)?"  # any number of folders
_REST = b".*"
_NAMED = re.compile(rb"\[:([^\]]*):\]")
_CLASSES = {
    b"alnum": rb"[0-9A-Za-z]",
    b"alpha": rb"[A-Za-z]",
    b"blank": rb"[ \t]",
    b"cntrl": rb"[\x00-\x1f\x7f]",
    b"digit": rb"[0-9]",
    b"graph": rb"[!-~]",
    b"lower": rb"[a-z]",
    b"print": rb"[ -~]",
    b"punct": rb"[!-/:-@\[-`{-~]",
    b"space": rb"[\t-\r ]",
    b"upper": rb"[A-Z]",
    b"xdigit": rb"[0-9A-Fa-f]",
}


@attrs.frozen
class Rule:
    """One line of a file."""

    pattern: re.Pattern[bytes]
    negated: bool = False
    folders_only: bool = False
    by_name: bool = False
    """It is about the last part of a path alone, wherever that stands."""

    def matches(self, path: bytes, *, folder: bool) -> bool:
        if self.folders_only and not folder:
            return False
        return self.pattern.fullmatch(path.rpartition(b"/")[2] if self.by_name else path) is not None


@attrs.frozen
class Rules:
    """One file's rules; paths are relative to its folder."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, content: bytes) -> Rules:
        lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        return cls(tuple(rule for line in lines if (rule := _rule(line.removesuffix(b"\r"))) is not None))

    def ignores(self, path: bytes, *, folder: bool) -> bool | None:
        """Tell whether a path is ignored; None when no rule is about it. The last rule that is decides."""
        for rule in reversed(self.rules):
            if rule.matches(path, folder=folder):
                return not rule.negated
        return None


def _rule(line: bytes) -> Rule | None:
    if line.startswith(b"#"):
        return None
    negated = line.startswith(b"!")
    text = _without_trailing_blanks(line.removeprefix(b"!"))
    folders_only = text.endswith(b"/")
    text = text.removesuffix(b"/")
    if not text:
        return None
    by_name = b"/" not in text
    try:
        pattern = re.compile(_expression(text.removeprefix(b"/")), re.DOTALL)
    except _Unmatchable:
        return None
    return Rule(pattern, negated, folders_only, by_name)


def _without_trailing_blanks(line: bytes) -> bytes:
    """A blank that a backslash stands before is meant."""
    kept = line.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return line[: len(kept) + 1] if backslashes % 2 and len(kept) < len(line) else kept


class _Unmatchable(ValueError):
    """A pattern that git accepts and that matches nothing."""


def _expression(pattern: bytes) -> bytes:
    """Return a pattern as a regular expression.

    In a name, what stands between two stars is looked for once and kept where it is first found: that never misses
    a match, and no pattern can make the search explode.
    """
    out: list[bytes] = []
    inside = False
    parts = list(_parts(pattern))
    for position, part in enumerate(parts):
        if part is _STAR:
            if inside:
                out.append(b")")
            inside = any(other is _STAR for other in _rest_of_name(parts, position))
            out.append(b"(?>[^/]*?" if inside else b"[^/]*")
        else:
            out.append(part)
    return b"".join(out)


def _rest_of_name(parts: list[bytes], position: int) -> Iterator[bytes]:
    for part in parts[position + 1 :]:
        if part in (b"/", _DEEP, _REST):
            return
        yield part


def _parts(pattern: bytes) -> Iterator[bytes]:
    at, end = 0, len(pattern)
    while at < end:
        byte = pattern[at : at + 1]
        if byte == b"*":
            begin = at
            while pattern[at : at + 1] == b"*":
                at += 1
            alone = (begin == 0 or pattern[begin - 1] == _SLASH) and (at == end or pattern[at] == _SLASH)
            if at - begin < 2 or not alone:
                yield _STAR
            elif at == end:
                yield _REST
            else:
                yield _DEEP
                at += 1
        elif byte == b"?":
            yield b"[^/]"
            at += 1
        elif byte == b"[":
            expression, at = _bracket(pattern, at + 1)
            yield expression
        elif byte == b"\\":
            if at + 1 == end:
                raise _Unmatchable
            yield re.escape(pattern[at + 1 : at + 2])
            at += 2
        else:
            yield re.escape(byte)
            at += 1


def _bracket(pattern: bytes, at: int) -> tuple[bytes, int]:
    """Return the expression for a set of bytes, and where the pattern goes on."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    first, last = True, None
    while first or pattern[at : at + 1] != b"]":
        first = False
        if at >= len(pattern):
            raise _Unmatchable
        named = _NAMED.match(pattern, at)
        if named:
            if named[1] not in _CLASSES:
                raise _Unmatchable
            members |= {byte for byte in range(256) if re.fullmatch(_CLASSES[named[1]], bytes([byte]))}
            last, at = None, named.end()
        elif last is not None and pattern[at] == ord("-") and pattern[at + 1 : at + 2] not in (b"", b"]"):
            high, at = _literal(pattern, at + 1)
            members |= set(range(last, high + 1))
            last = None
        else:
            last, at = _literal(pattern, at)
            members.add(last)
    chosen = (set(range(256)) - members if negated else members) - {_SLASH}
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(chosen)) + b"]" if chosen else b"(?!)", at + 1


def _literal(pattern: bytes, at: int) -> tuple[int, int]:
    at += pattern[at : at + 1] == b"\\"
    if at >= len(pattern):
        raise _Unmatchable
    return pattern[at], at + 1
