"""What a person gives to a command: a text, where it may stand, and what memories it is about.

Whatever cannot be meant is a `ValidationError` in words, which ends the command with the exit code for wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from zapomni.errors import ValidationError
from zapomni.models import MAX_TEXT_LENGTH, Filters
from zapomni.moments import read_moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

MOST_BYTES = 4 * MAX_TEXT_LENGTH  # what is longer holds too many characters in any case


def positive(text: str) -> int:
    """Read a flag's number, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number greater than 0")
    return int(text)


def text_of(words: Sequence[str]) -> str:
    """Return the text that stands in the arguments, or with "-" alone on stdin, verbatim."""
    if list(words) != ["-"]:
        return " ".join(words)
    if sys.stdin is None:
        raise ValidationError("there is no standard input to read the text from")
    if sys.stdin.isatty():
        print("Type the text, and Ctrl-D on a line of its own at its end.", file=sys.stderr)
    return _decoded(sys.stdin.buffer.read(MOST_BYTES + 1), "the input")


def text_in(path: Path) -> str:
    """Return what a text file holds, verbatim."""
    try:
        with path.open("rb") as file:
            return _decoded(file.read(MOST_BYTES + 1), str(path))
    except OSError as error:
        raise ValidationError(f"{path} cannot be read: {error.strerror or error}") from error


def _decoded(content: bytes, where: str) -> str:
    if len(content) > MOST_BYTES:
        raise ValidationError(f"{where} exceeds the longest text of {MAX_TEXT_LENGTH:,} characters")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValidationError(f"{where} is not UTF-8 text: byte {error.start} belongs to no character") from error


def add_metadata_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say more about a memory than its text."""
    group = parser.add_argument_group("metadata")
    group.add_argument("--tag", action="append", metavar="TAG", help="a tag; can be repeated")
    group.add_argument("--source", metavar="TEXT", help="where it comes from")
    group.add_argument("--timestamp", metavar="WHEN", help="when it happened: an ISO 8601 date or time")
    group.add_argument(
        "--meta", action="append", metavar="NAME=VALUE", help="any other field; a VALUE that is JSON counts as JSON"
    )
    group.add_argument("--metadata", metavar="JSON", help="all fields at once, as a JSON object")


def metadata_from(options: argparse.Namespace, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the metadata with what the flags change, or None where they change nothing."""
    changed = dict(given) if options.metadata is None else _object(options.metadata)
    changed |= pairs_of(options.meta)
    if options.tag:
        changed["tags"] = options.tag
    if options.source is not None:
        changed["source"] = options.source
    if options.timestamp is not None:
        changed["timestamp"] = _with_zone("--timestamp", options.timestamp)
    asked = (options.metadata, options.meta, options.tag, options.source, options.timestamp)
    return None if all(flag is None for flag in asked) else changed


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"--metadata is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValidationError('--metadata must be a JSON object, such as \'{"project": "garden"}\'')
    return value


def pairs_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE flags."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not name or not separator:
            raise ValidationError(f"--meta takes NAME=VALUE, not {pair!r}")
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def add_filter_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which memories are meant."""
    group = parser.add_argument_group("filters")
    group.add_argument("--tag", action="append", metavar="TAG", help="with this tag, or any of several")
    group.add_argument("--all-tags", action="store_true", help="with all of the tags, not any")
    group.add_argument("--source", metavar="TEXT", help="from this source")
    group.add_argument("--since", metavar="WHEN", help="from this date or time on; also 'today', 'yesterday', '7d'")
    group.add_argument("--until", metavar="WHEN", help="up to this date (that whole day) or time")
    group.add_argument("--meta", action="append", metavar="NAME=VALUE", help="with this value in the metadata")


def filters_from(options: argparse.Namespace, now: datetime, zone: tzinfo | None = None) -> Filters:
    """Read the filters; what is written without a zone is in this machine's, unless another one is given."""
    tags = tuple(options.tag or ())
    start = None if options.since is None else _moment("--since", options.since, now, zone)
    end = None if options.until is None else _moment("--until", options.until, now, zone, end=True)
    if start is not None and end is not None and start >= end:
        raise ValidationError("--since must be before --until")
    return Filters(
        tags=() if options.all_tags else tags,
        all_tags=tags if options.all_tags else (),
        source=options.source,
        date_from=start,
        date_to=end,
        metadata=pairs_of(options.meta),
    )


def _with_zone(flag: str, text: str) -> str:
    """Write a moment out with its offset: without one the engine takes it for UTC, and --since for another day."""
    moment = _moment(flag, text, datetime.now(), None)
    with contextlib.suppress(ValueError, OverflowError):  # the first and the last hours of the calendar
        moment = moment.astimezone()
    return moment.isoformat()


def _moment(flag: str, text: str, now: datetime, zone: tzinfo | None, *, end: bool = False) -> datetime:
    try:
        return read_moment(_written_out(text, now), zone, end=end)
    except (ValueError, OverflowError):
        raise ValidationError(
            f"{flag} must be a date or time such as 2026-05-01 or 2026-05-01T09:30, today, yesterday, or days such "
            f"as 7d; it is {text!r}"
        ) from None


def _written_out(text: str, now: datetime) -> str:
    """Return the date of a day that is counted from now, and anything else as it is."""
    named = {"today": 0, "yesterday": 1}
    if text.lower() in named:
        return str(now.date() - timedelta(days=named[text.lower()]))
    if text.endswith("d") and text[:-1].isdigit():
        return str(now.date() - timedelta(days=int(text[:-1])))
    return text
