"""``zapomni ingest``: remember what is in files and folders, and go on where the last time stopped.

A file's key is made of its path, and its digest is kept beside its memory, so the store itself knows what is done:
there is no other record that could be lost or wrong. Every file that is told as remembered is safe on disk, and to
run the command again costs a look at each file.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.files import MARK, Document, digest_of, documents, passed_over, path_of, shown
from zapomni.cli.given import positive
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.tally import Meter, Tally, show
from zapomni.cli.walk import Found, Skipped, walk
from zapomni.errors import ConfigError, NotFoundError, ValidationError
from zapomni.models import Filters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zapomni.cli.output import Console
    from zapomni.engine import MemoryEngine

PAGE = 500
JOBS = 4


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "ingest",
        help="remember what is in files and folders",
        description=(
            "Remember text files: a memory for each file, or for each line of a .jsonl file. Folders are searched\n"
            "as git would: what .gitignore excludes is left out, and so are hidden files, links and binaries.\n"
            "A file that has changed replaces its memory, and one that has not is skipped. What cannot be read is\n"
            "told, and makes the exit code 1. Ctrl-C stops at once; to run the same again goes on where it stopped."
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

        tally = Tally(dry_run=options.dry_run)
        try:
            with trio.move_on_after(options.timeout or float("inf")):
                await _ingest(engine, options, console, tally)
        except trio.Cancelled:
            show(tally, console, prune=options.prune)
            raise
        show(tally, console, prune=options.prune)
        return EXIT_OK if tally.complete and not any(item.unread for item in tally.skipped) else EXIT_FAILED

    return run_with_engine(options, work)


@attrs.frozen
class Known:
    """A memory that was made of a file."""

    memory_id: str
    path: str
    digest: str | None


async def _ingest(engine: MemoryEngine, options: argparse.Namespace, console: Console, tally: Tally) -> None:
    import trio

    from zapomni.team import open_team

    with console.progress() as line:
        line.show("Looking for files …")
        items = await trio.to_thread.run_sync(
            lambda: list(walk(options.paths, hidden=options.hidden)), abandon_on_cancel=True
        )
        tally.skipped += [item for item in items if isinstance(item, Skipped)]
        found = [item for item in items if isinstance(item, Found)]
        tally.total_files, tally.total_bytes = len(found), sum(item.size for item in found)
        known = await _known(engine, options.paths)
        intake = Intake(engine, tally, known, Meter(line, tally))
        queue = iter(found)
        async with open_team() as team:
            for _ in range(min(options.jobs, len(found))):
                team.start_soon(intake.work, queue)
        unread = {shown(item.path) for item in tally.skipped if item.unread}
        gone = {key: memory for key, memory in known.items() if key not in intake.seen and not _in_any(memory, unread)}
        tally.gone = sorted({memory.path for memory in gone.values()})
        if options.prune and not options.dry_run:
            if gone and not found:  # more often a disk that is not mounted than a folder that was emptied
                raise ConfigError("no file at all is there; nothing is forgotten, in case a disk is missing")
            for memory in gone.values():
                await _forget(engine, memory, tally)
    tally.complete = True


@attrs.frozen
class Intake:
    """Takes files in, several at a time."""

    engine: MemoryEngine
    tally: Tally
    known: dict[str, Known]
    meter: Meter
    seen: set[str] = attrs.field(factory=set)

    async def work(self, queue: Iterator[Found]) -> None:
        """Take files from the queue until there is none."""
        import trio

        for found in queue:
            with closing(documents(found)) as items:
                while (item := await trio.to_thread.run_sync(next, items, None)) is not None:
                    if isinstance(item, Skipped):
                        self.tally.skipped.append(item)
                    else:
                        await self._take(item, found)
            self.tally.files += 1
            self.tally.bytes += found.size
            self.meter.show()

    async def _take(self, document: Document, found: Found) -> None:
        tally, known = self.tally, self.known.get(document.key)
        again = document.key in self.seen
        self.seen.add(document.key)
        if again or (known is not None and known.digest == document.digest):
            tally.unchanged += 1
            return
        if self.tally.dry_run:
            tally.added, tally.changed = tally.added + (known is None), tally.changed + (known is not None)
            return
        stored = 0

        def count(passages: int) -> None:
            nonlocal stored
            tally.passages, stored = tally.passages + passages - stored, passages
            self.meter.show()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            count(int(done))

        try:
            receipt = await self.engine.add_memory(
                document.text, document.metadata, key=document.key, progress=progress
            )
        except ValidationError as error:
            tally.skipped.append(_refused(found, document, error))
            return
        count(0 if receipt.duplicate else receipt.chunks_created)
        if receipt.duplicate:
            tally.unchanged += 1
        else:
            tally.added, tally.changed = tally.added + (not receipt.replaced), tally.changed + receipt.replaced


async def _known(engine: MemoryEngine, roots: list[Path]) -> dict[str, Known]:
    """Return, by key, the memories that were made of files below the roots: all in one go, however many files."""
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


def _in_any(memory: Known, unread: set[str]) -> bool:
    """Tell whether a file may be there although it was not seen."""
    return any(_is_below(memory.path, path) for path in unread)


async def _forget(engine: MemoryEngine, memory: Known, tally: Tally) -> None:
    try:
        await engine.delete_memory(memory.memory_id)
    except NotFoundError:  # somebody was quicker
        return
    tally.pruned += 1


def _refused(found: Found, document: Document, error: ValidationError) -> Skipped:
    if document.line is not None:
        return passed_over(found.path, document.line, str(error))
    return Skipped(found.path, f"cannot be remembered: {error}", unread=True)


def _seconds(text: str) -> float:
    """Read a flag's number, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not number > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds greater than 0")
    return number
