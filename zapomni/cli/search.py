"""``zapomni search``: find memories by meaning and by words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.cli import EXIT_NOT_FOUND, EXIT_OK
from zapomni.cli.card import caption, row
from zapomni.cli.given import add_filter_flags, filters_from, positive
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.errors import ValidationError

if TYPE_CHECKING:
    import argparse

    from zapomni.cli.output import Console
    from zapomni.engine import MemoryEngine
    from zapomni.models import SearchHit


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "search",
        help="find memories by meaning and by words",
        description=(
            "Find the memories that answer a question best, in any language. Piped, each one is a line of id, date and "
            "text with tabs between. The exit code is 3 when nothing was found."
        ),
        examples=(
            "zapomni search where is the spare key",
            "zapomni search --since 7d --tag garden pear tree",
            "zapomni search --limit 3 --json 'wifi password'",
        ),
    )
    parser.add_argument("query", nargs="+", metavar="QUERY", help="words or a question")
    parser.add_argument("-n", "--limit", type=positive, default=5, help="how many memories (default %(default)s)")
    add_filter_flags(parser)
    add_data_flags(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Search, and show each memory with its best passage."""
    query = " ".join(options.query)
    if not query.strip():
        raise ValidationError("nothing to look for: the query is empty")

    async def work(engine: MemoryEngine, console: Console) -> int:
        found = await engine.search_memory(query, limit=options.limit, filters=filters_from(options, console.now))
        if console.json:
            console.data(found)
        else:
            if found.notice:
                console.note(found.notice)
            for hit in found.hits:
                _show(hit, console)
            if not found.hits and console.pretty:
                console.line("Nothing found.")
        return EXIT_OK if found.hits else EXIT_NOT_FOUND

    return run_with_engine(options, work)


def _show(hit: SearchHit, console: Console) -> None:
    moment = hit.timestamp or hit.created_at
    if not console.pretty:
        console.line(row(hit.memory_id, moment, hit.text, console))
        return
    console.lines(console.wrap(hit.text.strip()))
    part = f"1 of {hit.chunks} passages" if hit.chunks > 1 else ""
    console.lines([*caption(hit.memory_id, moment, hit.metadata, console, part), ""])
