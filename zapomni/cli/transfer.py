"""``zapomni export`` and ``zapomni import``: memories into files, and out of files of many kinds."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections import Counter
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.text import counted, printable
from zapomni.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from zapomni.cli.output import Console, Progress
    from zapomni.engine import MemoryEngine
    from zapomni.transfer import Format, Problem, Record

STREAM = "-"
JSONL, MARKDOWN = "jsonl", "markdown"
BLOCK = 64 * 1024
SHOWN = 20  # problems that are told one by one


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    exporting = commands.add_parser(
        "export",
        help="write memories to a file",
        description=(
            "Write all memories, or those of one workspace, with ids, keys, dates, metadata and history. Deleted ones\n"
            "are left out. The JSON Lines that this writes come back to the byte; Markdown is a folder for people,\n"
            "without history. What is written can be read by its owner alone, and appears only when it is whole. A\n"
            "file that is there is replaced only with --force, and a folder with something in it never."
        ),
        epilog=(
            "examples:\n"
            "  zapomni export memories.jsonl\n"
            "  zapomni export --force ~/backup/memories.jsonl\n"
            "  zapomni export --workspace work --format markdown work-notes/\n"
            "  zapomni export - | ssh other-machine zapomni import -"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    exporting.add_argument("path", metavar="FILE", help="the file, or the folder for Markdown; - is standard output")
    exporting.add_argument("--format", choices=(JSONL, MARKDOWN), default=JSONL, help="default %(default)s")
    exporting.add_argument("--force", action="store_true", help="replace a file that is there")
    add_data_flags(exporting)
    exporting.set_defaults(run=run_export)

    importing = commands.add_parser(
        "import",
        help="bring memories in from a file",
        description=(
            "Bring memories in. What a file is, is told by what is in it: an export of Zapomni, of the official MCP\n"
            "memory server, of mcp-memory-service, of mem0 and OpenMemory, a folder of basic-memory, or conversations\n"
            "with ChatGPT or Claude, in their archive or out of it. To import the same again changes nothing, and\n"
            "what was changed here stays as it is here. A part that cannot be read is told, and the rest comes in."
        ),
        epilog=(
            "examples:\n"
            "  zapomni import --dry-run memory.jsonl\n"
            "  zapomni import --workspace chats conversations.zip\n"
            "  zapomni import ~/basic-memory"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    importing.add_argument("path", metavar="FILE", help="a file, an archive or a folder; - is standard input")
    importing.add_argument("--dry-run", action="store_true", help="count what would come in, and write nothing")
    add_data_flags(importing)
    importing.set_defaults(run=run_import)


def run_export(options: argparse.Namespace) -> int:
    """Write all memories; a file that they replace stays as it is until the last is written."""
    from zapomni.cli import target

    streamed = options.path == STREAM or target.is_stdout(options.path)
    if streamed and (options.format == MARKDOWN or options.json):
        raise ValidationError("standard output takes JSON Lines, and nothing beside them")

    async def work(engine: MemoryEngine, console: Console) -> int:
        names = [info.name for info in await engine.list_workspaces()]
        if options.workspace is not None:
            names = [engine.current_workspace]
        written: Counter[str] = Counter()
        with console.progress() as line:

            async def records() -> AsyncGenerator[Record]:
                for name in names:
                    async with aclosing(engine.export_memories(workspace=name)) as found:
                        async for record in found:
                            yield record
                            written[name] += 1
                            line.show(f"{written.total():,} memories written")

            async with aclosing(records()) as exported:
                if streamed:
                    await target.write_stream(exported)
                elif options.format == JSONL:
                    await target.write_file(exported, Path(options.path), replace=options.force)
                else:
                    await target.write_folder(exported, Path(options.path))
        told = f"Wrote {counted(written.total(), 'memory', 'memories')} of {counted(len(written), 'workspace')}"
        if console.json:
            console.data({"path": options.path, "format": options.format, "memories": written})
        elif streamed:
            console.note(told)
        else:
            console.line(printable(f"{told} to {options.path}"))
        return EXIT_OK

    return run_with_engine(options, work)


def run_import(options: argparse.Namespace) -> int:
    """Bring in what is new, and tell what was not and why."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        import trio

        with _source(options.path) as (path, fill):
            await trio.to_thread.run_sync(fill, abandon_on_cancel=True)
            intake = Intake(engine, await trio.to_thread.run_sync(_format, path, options.path), options)
            try:
                with console.progress() as line:
                    await intake.take_all(path, line)
            except trio.Cancelled:
                _show(intake, options, console)
                raise
        _show(intake, options, console)
        return EXIT_FAILED if any(problem.lost for problem in intake.problems) else EXIT_OK

    return run_with_engine(options, work)


@attrs.define
class Intake:
    """Brings a file in, and knows what has come of it so far."""

    engine: MemoryEngine
    format: Format
    options: argparse.Namespace
    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    problems: list[Problem] = attrs.field(factory=list, init=False)
    complete: bool = attrs.field(default=False, init=False)
    _made: set[str] = attrs.field(factory=set, init=False)
    _seen: set[bytes] = attrs.field(factory=set, init=False)

    async def take_all(self, path: Path, line: Progress) -> None:
        """Read a file to its end. Raises `ConfigError` when it cannot be read."""
        import trio

        from zapomni.transfer import Problem, read

        items = read(path, self.format)
        while (item := await trio.to_thread.run_sync(next, items, None)) is not None:
            if isinstance(item, Problem):
                self.problems.append(item)
            else:
                await self._take(item)
            line.show(f"{self.counts.total():,} memories read from {self.format.title}")
        self.complete = True

    async def _take(self, record: Record) -> None:
        from zapomni.transfer import Problem

        workspace = self.options.workspace or record.workspace or self.engine.current_workspace
        try:
            if self.options.dry_run:
                if self._is_repeated(workspace, record):
                    self.counts["unchanged"] += 1
                    return
            elif workspace not in self._made:
                await self.engine.create_workspace(workspace)
                self._made.add(workspace)
            imported = await self.engine.import_memory(record, workspace=workspace, dry_run=self.options.dry_run)
        except ValidationError as error:
            self.problems.append(Problem(record.where, str(error)))
            return
        self.counts[imported.outcome] += 1
        if imported.reason:
            self.problems.append(Problem(record.where, imported.reason))

    def _is_repeated(self, workspace: str, record: Record) -> bool:
        """Tell whether the file itself has brought it before, which nothing else tells while nothing is written."""
        name = f"{workspace}\0{record.id or record.key or record.text}"
        # A text may be long, and a file may hold a million of them.
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        seen = digest in self._seen
        self._seen.add(digest)
        return seen


@contextmanager
def _source(name: str) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield a path, and what has to be called before it can be read."""
    if name != STREAM:
        yield Path(name), lambda: None
        return
    with tempfile.TemporaryDirectory(prefix="zapomni-") as folder:
        path = Path(folder, "stdin")
        yield path, lambda: _spool(path)


def _spool(path: Path) -> None:
    if sys.stdin is None:
        raise ValidationError("there is no standard input to read memories from")
    # Past the buffers of Python: a thread that waits in one of those would crash the interpreter's exit.
    with path.open("xb") as file:
        while block := os.read(sys.stdin.fileno(), BLOCK):
            file.write(block)


def _format(path: Path, name: str) -> Format:
    from zapomni.transfer import FORMATS, sniff

    if (format := sniff(path)) is None:
        raise ValidationError(f"{name} is in none of the formats that can be imported: {', '.join(FORMATS)}")
    return format


def _show(intake: Intake, options: argparse.Namespace, console: Console) -> None:
    outcomes = ("added", "updated", "unchanged", "refused")
    counts = {name: intake.counts[name] for name in outcomes}
    if console.json:
        about = {"format": intake.format.name, **counts, "complete": intake.complete, "dry_run": options.dry_run}
        console.data({**about, "problems": intake.problems})
        return
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "added")
    lead = f"Would import from {intake.format.title}" if options.dry_run else f"Imported from {intake.format.title}"
    console.line(f"{console.paint(lead, 'green' if intake.complete else 'yellow', 'bold')}: {told}")
    for problem in intake.problems[:SHOWN]:
        console.line(printable(f"  {problem.where}: {problem.reason}"))
    if len(intake.problems) > SHOWN:
        console.line(f"  and {len(intake.problems) - SHOWN:,} more; --json tells all")
    if not intake.complete:
        console.note("Stopped before the end; run the same again to go on.")
