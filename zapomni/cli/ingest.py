"""``zapomni ingest``: remember what is in files and folders, and go on where the last time stopped.

A file's key is made of its path, and its digest is kept beside its memory, so the store itself knows what is done:
there is no other record that could be lost or wrong. Every file that is told as remembered is safe on disk, and to
run the command again costs a look at each file.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.given import positive
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.text import counted, printable, size
from zapomni.errors import NotFoundError, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zapomni.cli.files import Document
    from zapomni.cli.output import Console, Progress
    from zapomni.cli.walk import Found, Skipped
    from zapomni.engine import MemoryEngine

PAGE = 500
JOBS = 4
BAR = 24
PLAIN_SECONDS = 5.0  # between two lines of progress, where they do not replace each other
SHOWN = 5  # paths that are named before the rest is counted


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "ingest",
        help="remember what is in files and folders",
        description=(
            "Remember text files: a memory for each file, or for each line of a .jsonl file. Folders are searched\n"
            "as git would: what .gitignore excludes is left out, and so are hidden files, links and binaries.\n"
            "A file that has changed replaces its memory, and one that has not is skipped. Ctrl-C stops at once;\n"
            "to run the same again goes on where it stopped."
        ),
        epilog=(
            "examples:\n"
            "  zapomni ingest notes/ README.md\n"
            "  zapomni ingest --dry-run .\n"
            "  zapomni ingest --timeout 600 --jobs 2 ~/Documents\n"
            "  zapomni ingest --prune notes/      (also forgets what is not among the files any more)"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file or a folder")
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help="stop after so long; go on next time")
    parser.add_argument(
        "--jobs", type=positive, default=JOBS, metavar="N", help="files at the same time (default %(default)s)"
    )
    parser.add_argument("--hidden", action="store_true", help="take hidden files, too")
    parser.add_argument("--prune", action="store_true", help="delete the memories of files that are gone")
    parser.add_argument("--dry-run", action="store_true", help="tell what would be done, and do nothing")
    add_data_flags(parser, more=("embedder", "defer_embedding"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Take in all files, or as many as there is time for."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        import trio

        report = Report()
        try:
            with trio.move_on_after(options.timeout or float("inf")):
                await _ingest(engine, options, console, report)
        except trio.Cancelled:
            _show(report, options, console)
            raise
        _show(report, options, console)
        return EXIT_OK if report.complete and not any(item.unread for item in report.skipped) else EXIT_FAILED

    return run_with_engine(options, work)


@attrs.define
class Report:
    """What has been done so far."""

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


@attrs.frozen
class Known:
    """A memory that was made of a file."""

    memory_id: str
    path: str
    digest: str | None


async def _ingest(engine: MemoryEngine, options: argparse.Namespace, console: Console, report: Report) -> None:
    import trio

    from zapomni.cli.walk import Found, Skipped, walk
    from zapomni.engine.team import open_team

    with console.progress() as line:
        line.show("Looking for files …")
        items = await trio.to_thread.run_sync(
            lambda: list(walk(options.paths, hidden=options.hidden)), abandon_on_cancel=True
        )
        report.skipped += [item for item in items if isinstance(item, Skipped)]
        found = [item for item in items if isinstance(item, Found)]
        report.total_files, report.total_bytes = len(found), sum(item.size for item in found)
        known = await _known(engine, options.paths)
        intake = Intake(engine, report, known, Meter(line, report), dry_run=options.dry_run)
        queue = iter(found)
        async with open_team() as team:
            for _ in range(min(options.jobs, len(found))):
                team.start_soon(intake.work, queue)
        gone = {key: memory for key, memory in known.items() if key not in intake.seen and not _unread(memory, report)}
        report.gone = sorted({memory.path for memory in gone.values()})
        if options.prune and not options.dry_run:
            for memory in gone.values():
                await _forget(engine, memory, report)
    report.complete = True


@attrs.frozen
class Intake:
    """Takes files in, several at a time."""

    engine: MemoryEngine
    report: Report
    known: dict[str, Known]
    meter: Meter
    dry_run: bool
    seen: set[str] = attrs.field(factory=set)

    async def work(self, queue: Iterator[Found]) -> None:
        """Take files from the queue until there is none."""
        import trio

        from zapomni.cli.files import documents
        from zapomni.cli.walk import Skipped

        for found in queue:
            with closing(documents(found)) as items:
                while (item := await trio.to_thread.run_sync(next, items, None)) is not None:
                    if isinstance(item, Skipped):
                        self.report.skipped.append(item)
                    else:
                        await self._take(item, found)
            self.report.files += 1
            self.report.bytes += found.size
            self.meter.show()

    async def _take(self, document: Document, found: Found) -> None:
        report, known = self.report, self.known.get(document.key)
        again = document.key in self.seen
        self.seen.add(document.key)
        if again or (known is not None and known.digest == document.digest):
            report.unchanged += 1
            return
        if self.dry_run:
            report.added, report.changed = report.added + (known is None), report.changed + (known is not None)
            return
        stored = 0

        def count(passages: int) -> None:
            nonlocal stored
            report.passages, stored = report.passages + passages - stored, passages
            self.meter.show()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            count(int(done))

        try:
            receipt = await self.engine.add_memory(
                document.text, document.metadata, key=document.key, progress=progress
            )
        except ValidationError as error:
            report.skipped.append(_refused(found, error))
            return
        count(0 if receipt.duplicate else receipt.chunks_created)
        if receipt.duplicate:
            report.unchanged += 1
        else:
            report.added, report.changed = report.added + (not receipt.replaced), report.changed + receipt.replaced


@attrs.define
class Meter:
    """Tells how far things are: in one line that changes, or in a line now and then."""

    line: Progress
    report: Report
    _last: float = attrs.field(factory=time.monotonic, init=False)

    def show(self) -> None:
        if self.line.shown:
            self.line.show(f"{_bar(self.report)} {_progress(self.report)}")
        elif time.monotonic() - self._last >= PLAIN_SECONDS:
            self._last = time.monotonic()
            print(_progress(self.report), file=sys.stderr, flush=True)


def _bar(report: Report) -> str:
    full = round(BAR * report.bytes / report.total_bytes) if report.total_bytes else BAR
    return "█" * full + "░" * (BAR - full)


def _progress(report: Report) -> str:
    done = (
        f"{report.files:,} of {counted(report.total_files, 'file')}, {size(report.bytes)} of {size(report.total_bytes)}"
    )
    rate = f"{report.passages / max(report.seconds, 0.1):,.0f} passages/s"
    left = report.seconds * (report.total_bytes - report.bytes) / report.bytes if report.bytes else None
    return f"{done}, {rate}" + ("" if left is None else f", {_duration(left)} left")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


async def _known(engine: MemoryEngine, roots: list[Path]) -> dict[str, Known]:
    """Return, by key, the memories that were made of files below the roots: all in one go, however many files."""
    from zapomni.cli.files import MARK, digest_of, path_of, shown
    from zapomni.models import Filters

    below = [shown(root.resolve()) for root in roots]
    known: dict[str, Known] = {}
    cursor: str | None = None
    while True:
        page = await engine.list_memories(filters=Filters(metadata={MARK: True}), limit=PAGE, cursor=cursor)
        for memory in page.memories:
            about: dict[str, Any] = dict(memory.metadata)
            path = path_of(about)
            if memory.key is not None and path is not None and any(_is_below(path, root) for root in below):
                known[memory.key] = Known(memory.id, path, digest_of(about))
        if page.cursor is None:
            return known
        cursor = page.cursor


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _unread(memory: Known, report: Report) -> bool:
    """Tell whether a file may be there although it was not seen."""
    from zapomni.cli.files import shown

    return any(item.unread and _is_below(memory.path, shown(item.path)) for item in report.skipped)


async def _forget(engine: MemoryEngine, memory: Known, report: Report) -> None:
    try:
        await engine.delete_memory(memory.memory_id)
    except NotFoundError:  # somebody was quicker
        return
    report.pruned += 1


def _refused(found: Found, error: ValidationError) -> Skipped:
    from zapomni.cli.walk import Skipped

    return Skipped(found.path, f"cannot be remembered: {error}")


def _show(report: Report, options: argparse.Namespace, console: Console) -> None:
    from zapomni.cli.files import shown

    if console.json:
        counts = ("files", "bytes", "passages", "added", "changed", "unchanged", "gone", "pruned", "complete")
        skipped = [{"path": shown(item.path), "reason": item.reason} for item in report.skipped]
        console.data(
            {**{name: getattr(report, name) for name in counts}, "skipped": skipped, "dry_run": options.dry_run}
        )
        return
    verb = "Would remember" if options.dry_run else "Remembered"
    paint = console.paint(verb, "green", "bold") if report.complete else console.paint(verb, "yellow", "bold")
    passages = "" if options.dry_run else f", {counted(report.passages, 'passage')} in {_duration(report.seconds)}"
    console.line(f"{paint} {report.added:,} new, {report.changed:,} changed; {report.unchanged:,} unchanged{passages}")
    for reason, count in Counter(item.reason for item in report.skipped).most_common():
        paths = [shown(item.path) for item in report.skipped if item.reason == reason]
        console.line(printable(f"Skipped {count:,}, {reason}: {_some(paths)}"))
    if report.gone:
        done = f"; forgot {report.pruned:,}" if options.prune and not options.dry_run else "; --prune forgets them"
        console.line(printable(f"No longer there {len(report.gone):,}: {_some(report.gone)}{done}"))
    if not report.complete:
        console.note(
            f"Stopped after {report.files:,} of {counted(report.total_files, 'file')}; run the same again to go on."
        )


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


def _seconds(text: str) -> float:
    """Read a flag's number, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds greater than 0")
    return number
