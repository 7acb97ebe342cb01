"""Where a command's answer goes: pretty to a terminal, plain to a pipe, exact as JSON.

Answers go to stdout; everything else that is said (questions, progress, notes) goes to stderr, so that a pipe holds
the answer alone.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import attrs

from zapomni.cli import text as shaped
from zapomni.errors import ConfigError, ValidationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

type Paint = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

WIDEST = 100  # longer lines are hard to read, however wide the terminal
REFRESH_SECONDS = 0.1
_CODES: Mapping[Paint, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that every command with an answer has."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON, exactly as it is stored")


@attrs.frozen
class Console:
    """The streams of a command, and how they are written to."""

    json: bool = False
    pretty: bool = False
    """The reader is a person."""
    colour: bool = False
    width: int = WIDEST
    now: datetime = attrs.field(factory=lambda: datetime.now().astimezone())

    @classmethod
    def of(cls, options: argparse.Namespace) -> Console:
        """Return the console that suits the flags and the streams of this process.

        Raises `ConfigError` where nobody could read the answer: before anything is done that would have one.
        """
        if sys.stdout is None:
            raise ConfigError("there is no standard output to write the answer to")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a terminal of another encoding still shows something
        pretty = _is_terminal(sys.stdout)
        return cls(
            json=getattr(options, "json", False),
            pretty=pretty,
            colour=pretty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
            width=min(WIDEST, shutil.get_terminal_size().columns) if pretty else WIDEST,
        )

    def line(self, text: str = "") -> None:
        """Print one line of the answer; what may hold a memory's words has to be made printable first."""
        print(text)

    def lines(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.line(text)

    def data(self, value: Any) -> None:
        """Print the answer as JSON: attrs objects as objects, moments in ISO 8601."""
        print(as_json(value, encoding=sys.stdout.encoding or "utf-8"))

    def note(self, text: str) -> None:
        """Tell the person something that is no part of the answer."""
        print(shaped.printable(text), file=sys.stderr)

    def paint(self, text: str, *paints: Paint) -> str:
        """Return the text in colour, where there is any."""
        if not self.colour:
            return text
        return f"\x1b[{';'.join(str(_CODES[paint]) for paint in paints)}m{text}\x1b[0m"

    def when(self, moment: datetime) -> str:
        """Return a moment as people say it, and for a program in ISO 8601."""
        return shaped.ago(moment, self.now) if self.pretty else moment.isoformat(timespec="seconds")

    def wrap(self, text: str, *, indent: str = "") -> list[str]:
        """Return a memory's words as printable lines: as wide as the terminal, or as they are for a pipe."""
        safe = shaped.printable(text)
        lines = shaped.wrap(safe, self.width - len(indent)) if self.pretty else safe.split("\n")
        return [(indent + line).rstrip() for line in lines]

    async def agreed(self, question: str, *, yes: bool) -> bool:
        """Ask the person at the terminal, unless --yes was said; silence means no.

        Raises `ValidationError` where there is neither a terminal nor --yes.
        """
        if yes:
            return True
        if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
            raise ValidationError("there is no terminal to ask on; say --yes if it is meant")
        import trio

        print(shaped.printable(question), end=" [y/N] ", file=sys.stderr, flush=True)
        # A thread that waits in a read cannot be stopped, and would crash the interpreter at its exit.
        await trio.lowlevel.wait_readable(sys.stdin)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
        self.note("Nothing was done.")
        return False

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Show one line of progress while the block runs, where stderr is a terminal."""
        line = Progress(_is_terminal(sys.stderr), min(WIDEST, shutil.get_terminal_size().columns))
        try:
            yield line
        finally:
            line.clear()


@attrs.define
class Progress:
    """A line on stderr that is written over and over."""

    shown: bool
    width: int
    _last: float = attrs.field(default=float("-inf"), init=False)

    def show(self, text: str) -> None:
        """Replace the line; what comes too soon after the last is left out."""
        now = time.monotonic()
        if self.shown and now - self._last >= REFRESH_SECONDS:
            self._last = now
            print(
                f"\r\x1b[K{shaped.clip(shaped.on_one_line(text), self.width - 1)}", end="", file=sys.stderr, flush=True
            )

    def clear(self) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def as_json(value: Any, *, encoding: str = "utf-8") -> str:
    """Return a value as JSON that says exactly what it holds and that no terminal obeys."""
    from zapomni.log import escape_controls  # here, since structlog is slow to import

    text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2, default=_plain)
    return escape_controls(text)


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
