"""``zapomni get`` and ``zapomni list``: read memories."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zapomni.cli import EXIT_OK
from zapomni.cli.card import heading, row
from zapomni.cli.given import add_filter_flags, filters_from, positive
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.text import clip, on_one_line, printable, width_of
from zapomni.errors import ValidationError
from zapomni.models import MemoryPage

if TYPE_CHECKING:
    import argparse

    from zapomni.cli.output import Console
    from zapomni.engine import MemoryEngine
    from zapomni.models import Memory, MemorySummary

SHOWN = 20
PAGE = 100
EVERY = 1_000_000_000  # of a trash that is emptied every month


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    getting = add_command(
        commands,
        "get",
        help="show one memory, whole",
        description="Show one memory with everything that is known of it.",
        examples=(
            "zapomni get 0b62a1ee-95b5-4b0c-9d0e-6d5e1c9e3f10",
            "zapomni get 0b62a1ee-95b5-4b0c-9d0e-6d5e1c9e3f10 --text > note.md",
            "zapomni get 0b62a1ee-95b5-4b0c-9d0e-6d5e1c9e3f10 --history",
        ),
    )
    getting.add_argument("id", metavar="ID", help="the memory's id, as search and list show it")
    form = getting.add_mutually_exclusive_group()
    form.add_argument("--text", action="store_true", help="print the text alone, to the byte as it was given")
    form.add_argument("--history", action="store_true", help="also show what it was before it was changed")
    add_data_flags(getting)
    getting.set_defaults(run=run_get)

    listing = add_command(
        commands,
        "list",
        help="list memories, last stored first",
        description=(
            "List memories, last stored first. Piped, each one is a line of id, date and text with tabs between."
        ),
        examples=(
            "zapomni list",
            "zapomni list --tag garden --since 2026-03-01",
            "zapomni list --all | wc -l",
            "zapomni list --deleted",
        ),
    )
    # The default is not said here, so that a limit that was given beside --all is known from one that was not.
    listing.add_argument("-n", "--limit", type=positive, help=f"how many memories (default {SHOWN})")
    listing.add_argument("--all", action="store_true", help="every memory, however many")
    listing.add_argument("--deleted", action="store_true", help="the deleted ones instead, which undelete brings back")
    listing.add_argument("--cursor", metavar="CURSOR", help="go on where an earlier list stopped, which told it")
    add_filter_flags(listing)
    add_data_flags(listing)
    listing.set_defaults(run=run_list)


def run_get(options: argparse.Namespace) -> int:
    """Show a memory, or write its text as it is."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        memory = await engine.get_memory(options.id)
        versions = (memory, *(await engine.history(options.id))) if options.history else (memory,)
        if console.json:
            console.data({"memory": memory, "history": versions[1:]} if options.history else memory)
        elif options.text:
            _write(memory.text, console)
        else:
            for version in versions:
                _show(version, console, numbered=options.history)
        return EXIT_OK

    return run_with_engine(options, work)


def _show(memory: Memory, console: Console, *, numbered: bool) -> None:
    """Print a memory; among its versions the first is one, too, which its heading leaves out."""
    first = [f"{console.paint('version:', 'cyan')} 1"] if numbered and memory.version == 1 else []
    console.lines([*heading(memory, console), *first, "", *console.wrap(memory.text), ""])


def _write(text: str, console: Console) -> None:
    if console.pretty:
        sys.stdout.write(printable(text) + "\n")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())


def run_list(options: argparse.Namespace) -> int:
    """Show a page, or all of them one after the other."""
    if options.all and options.limit is not None:
        raise ValidationError("give --limit or --all, not both")
    most = options.limit or SHOWN

    async def work(engine: MemoryEngine, console: Console) -> int:
        filters = filters_from(options, console.now)
        if options.deleted and (filters or options.cursor):
            raise ValidationError("--deleted lists all deleted memories; it takes no filter and no cursor")
        cursor, count = options.cursor, 0
        found: list[MemorySummary] = []
        while True:
            limit = PAGE if options.all else min(PAGE, most - count)
            if options.deleted:
                page = MemoryPage(await engine.trashed(limit=EVERY if options.all else most))
            else:
                page = await engine.list_memories(filters=filters, limit=limit, cursor=cursor)
            cursor, count = page.cursor, count + len(page.memories)
            if console.json:
                found += page.memories
            else:
                console.lines([_line(memory, console) for memory in page.memories])
            if cursor is None or (count >= most and not options.all):
                break
        if console.json:
            console.data({"memories": found, "cursor": cursor})
        elif cursor is not None:
            console.note(f"There are more: --all, or --cursor {cursor}")
        elif console.pretty and not count:
            console.line("No memories.")
        return EXIT_OK

    return run_with_engine(options, work)


def _line(memory: MemorySummary, console: Console) -> str:
    moment = memory.deleted_at or memory.timestamp or memory.created_at
    if not console.pretty:
        return row(memory.id, moment, memory.preview, console)
    when = console.when(moment).ljust(16)
    room = console.width - len(memory.id) - width_of(when) - 4
    text = clip(on_one_line(memory.preview), max(20, room))
    return f"{console.paint(memory.id, 'dim')}  {console.paint(when, 'cyan')}  {text}"
