"""Text for people: safe for a terminal, measured as it is shown, and dates and sizes as they are said.

Pure: whoever calls says what the time is and how wide the terminal.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, tzinfo

# Whoever wrote a memory must not move the cursor, set the title or turn the text round of whoever reads it: controls,
# the overrides of the writing direction, the separators of lines that are no newline, and what no encoding has.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
_ZERO_WIDTH = ("Mn", "Me", "Cf")


def printable(text: str) -> str:
    """Return a text in which everything that a terminal might obey is written out, but for newlines and tabs."""
    return _UNSAFE.sub(_written_out, text)


def on_one_line(text: str) -> str:
    """Return a printable text with every run of blanks and line breaks as one space."""
    return printable(" ".join(text.split()))


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def width_of(text: str) -> int:
    """Return how many columns a terminal needs for a text of one line."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in _ZERO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int) -> str:
    """Return as much of one line as fits, with an ellipsis where some was left out."""
    if width_of(text) <= width:
        return text
    used = 1
    for position, character in enumerate(text):
        used += _columns(character)
        if used > width:
            return text[:position].rstrip() + "…"
    return text


def wrap(text: str, width: int) -> list[str]:
    """Return the lines of a text, none wider than the width; its own line breaks stay."""
    return [line for paragraph in text.expandtabs(4).split("\n") for line in _fill(paragraph, max(2, width))]


def _fill(paragraph: str, width: int) -> Iterator[str]:
    line, used = "", 0
    for word in re.findall(r"\s*\S+", paragraph):
        needed = width_of(word)
        if line and used + needed > width:
            yield line
            line, used, word = "", 0, word.lstrip()
            needed = width_of(word)
        while used + needed > width:  # a word wider than the line, and scripts that have no blanks
            head = _head(word, width)
            yield head
            word = word[len(head) :]
            needed = width_of(word)
        line, used = line + word, used + needed
    yield line


def _head(word: str, width: int) -> str:
    used = 0
    for position, character in enumerate(word):
        used += _columns(character)
        if used > width:
            return word[:position]
    return word


def columns(rows: Sequence[Sequence[str]], *, gap: int = 2) -> list[str]:
    """Return rows with their cells aligned; a column of nothing but numbers stands at the right.

    Cells in colour line up where their whole column is in that colour.
    """
    if not rows:
        return []
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    right = [all(re.fullmatch(r"[\d.,]+", cell) for cell in column[1:] or column) for column in zip(*rows, strict=True)]
    return [(" " * gap).join(_pad(*cell) for cell in zip(row, widths, right, strict=True)).rstrip() for row in rows]


def _pad(cell: str, width: int, right: bool) -> str:
    blanks = " " * (width - width_of(cell))
    return blanks + cell if right else cell + blanks


def ago(moment: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Return a moment as people say it, in this machine's zone unless another one is given."""
    moment, now = moment.astimezone(zone), now.astimezone(zone)
    seconds = (now - moment).total_seconds()
    days = (now.date() - moment.date()).days
    if 0 <= seconds < 60:
        return "just now"
    if 0 <= seconds < 3600:
        return counted(int(seconds // 60), "minute") + " ago"
    if days == 0:
        return f"today {moment:%H:%M}"
    if days == 1:
        return f"yesterday {moment:%H:%M}"
    if 1 < days < 7:
        return f"{moment:%A} {moment:%H:%M}"
    return f"{moment.day} {moment:%b}" + (f" {moment.year}" if moment.year != now.year else "")


def size(count: float) -> str:
    """Return a number of bytes as people say it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as "1 memory" or "2,000 memories"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
