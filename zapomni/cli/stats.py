"""``zapomni stats``: what is stored, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.cli import EXIT_OK
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.text import columns, counted, printable, size

if TYPE_CHECKING:
    import argparse

    from zapomni.cli.output import Console
    from zapomni.engine import MemoryEngine
    from zapomni.models import Statistics


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "stats",
        help="show how much is remembered",
        description="Show how much a workspace holds, and how much room the whole store takes.",
        examples=(
            "zapomni stats",
            "zapomni stats --workspace garden --json",
        ),
    )
    add_data_flags(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Count."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        found = await engine.get_stats()
        if console.json:
            console.data(found)
        else:
            rows = [(console.paint(name, "cyan"), value) for name, value in _facts(found, console).items()]
            console.lines(columns(rows))
        return EXIT_OK

    return run_with_engine(options, work)


def _facts(found: Statistics, console: Console) -> dict[str, str]:
    own = next((space for space in found.workspaces if space.name == found.workspace), None)
    memories = counted(found.total_memories, "memory", "memories")
    facts = {
        "workspace": found.workspace,
        "holds": f"{memories} in {counted(found.total_chunks, 'passage')}",
        "first": console.when(found.oldest) if found.oldest else "",
        "last": console.when(found.newest) if found.newest else "",
        "deleted": f"{own.trashed:,}, which can be restored" if own and own.trashed else "",
        "without vector": counted(own.pending, "passage") if own and own.pending else "",
        "model": f"{printable(found.embedding_model)}, {found.embedding_dimension} dimensions"
        if found.embedding_model
        else "",
        "other workspaces": ", ".join(
            f"{space.name} ({space.memories:,})" for space in found.workspaces if space.name != found.workspace
        ),
        "store": f"{size(found.bytes_on_disk)} on disk, {size(found.bytes_in_memory)} in memory",
    }
    return {name: value for name, value in facts.items() if value}
