"""What an ingestion has come to, told while it runs and at its end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import attrs

from zapomni.cli.files import shown
from zapomni.cli.text import counted, printable, size

if TYPE_CHECKING:
    from zapomni.cli.output import Console, Progress
    from zapomni.cli.walk import Skipped

BAR = 24
PLAIN_SECONDS = 5.0  # between two lines of progress, where they do not replace each other
SHOWN = 5  # paths that are named before the rest is counted
REASONS = 20  # reasons that are told before the rest is counted


@attrs.define
class Tally:
    """What has been done so far."""

    dry_run: bool = False

    files: int = 0
    total_files: int = 0
    bytes: int = 0
    total_bytes: int = 0
    passages: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: list[Skipped] = attrs.field(factory=list)
    gone: list[str] = attrs.field(factory=list)
    pruned: int = 0
    complete: bool = False
    began: float = attrs.field(factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@attrs.define
class Meter:
    """Tells how far things are: in one line that changes, or in a line now and then."""

    line: Progress
    tally: Tally
    _last: float = attrs.field(factory=time.monotonic, init=False)

    def show(self) -> None:
        if self.line.shown:
            self.line.show(f"{_bar(self.tally)} {_progress(self.tally)}")
        elif time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            print(_progress(self.tally), file=sys.stderr, flush=True)


def _bar(tally: Tally) -> str:
    full = round(BAR * tally.bytes / tally.total_bytes) if tally.total_bytes else BAR
    return "█" * full + "░" * (BAR - full)


def _progress(tally: Tally) -> str:
    done = f"{tally.files:,} of {counted(tally.total_files, 'file')}, {size(tally.bytes)} of {size(tally.total_bytes)}"
    rate = f"{tally.passages / max(tally.seconds, 0.1):,.0f} passages/s"
    left = tally.seconds * (tally.total_bytes - tally.bytes) / tally.bytes if tally.bytes else None
    return f"{done}, {rate}" + ("" if left is None else f", {_duration(left)} left")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def show(tally: Tally, console: Console, *, prune: bool) -> None:
    passed_over = sorted(tally.skipped, key=lambda item: item.path)  # files end in any order, being several at a time
    if console.json:
        counts = ("files", "bytes", "passages", "added", "changed", "unchanged", "gone", "pruned", "complete")
        skipped = [{"path": shown(item.path), "reason": item.reason} for item in passed_over]
        console.data({**{name: getattr(tally, name) for name in counts}, "skipped": skipped, "dry_run": tally.dry_run})
        return
    verb = "Would remember" if tally.dry_run else "Remembered"
    paint = console.paint(verb, "green", "bold") if tally.complete else console.paint(verb, "yellow", "bold")
    passages = "" if tally.dry_run else f", {counted(tally.passages, 'passage')} in {_duration(tally.seconds)}"
    console.line(f"{paint} {tally.added:,} new, {tally.changed:,} changed; {tally.unchanged:,} unchanged{passages}")
    reasons = Counter(item.reason for item in passed_over).most_common()
    for reason, count in reasons[:REASONS]:
        paths = [shown(item.path) for item in passed_over if item.reason == reason]
        console.line(printable(f"Skipped {count:,}, {reason}: {_some(paths)}"))
    if len(reasons) > REASONS:  # the lines of one file may be any number
        console.line(f"and {sum(count for _, count in reasons[REASONS:]):,} more; --json tells all")
    if tally.gone:
        console.line(printable(f"No longer there {len(tally.gone):,}: {_some(tally.gone)}; {_fate(tally, prune)}"))
    if not tally.complete:
        console.note(
            f"Stopped after {tally.files:,} of {counted(tally.total_files, 'file')}; run the same again to go on."
        )


def _fate(tally: Tally, prune: bool) -> str:
    if not prune:
        return "--prune forgets them"
    return "would be forgotten" if tally.dry_run else f"forgot {tally.pruned:,}"


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more
