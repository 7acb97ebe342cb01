"""``zapomni update``, ``zapomni delete`` and ``zapomni undelete``: change memories, and change one's mind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.given import add_metadata_flags, metadata_from, text_in, text_of
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.text import on_one_line
from zapomni.errors import BlockedError, ValidationError
from zapomni.models import preview_of

if TYPE_CHECKING:
    import argparse

    from zapomni.cli.output import Console
    from zapomni.engine import MemoryEngine

ID = "0b62a1ee-95b5-4b0c-9d0e-6d5e1c9e3f10"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    updating = add_command(
        commands,
        "update",
        help="change a memory",
        description=(
            "Give a memory a new text, or other metadata, or both. What it was stays readable, by zapomni get ID "
            "--history. --metadata takes the place of all fields; the other flags change the ones that they name."
        ),
        examples=(
            f'zapomni update {ID} "The spare key is with Omar now"',
            f"zapomni update {ID} --tag keys --tag home",
            f"zapomni update {ID} --file note.md",
        ),
    )
    updating.add_argument("id", metavar="ID", help="the memory's id")
    updating.add_argument("text", nargs="*", metavar="TEXT", help="the new text; - reads it from standard input")
    updating.add_argument("-f", "--file", type=Path, metavar="FILE", help="a text file that holds the new text")
    add_metadata_flags(updating)
    add_data_flags(updating)
    updating.set_defaults(run=run_update)

    deleting = add_command(
        commands,
        "delete",
        help="forget a memory",
        description=(
            "Take a memory out of every search and list. 'zapomni undelete ID' brings it back, for as many days as the "
            "setting retention_days says; then it is gone for good."
        ),
        examples=(
            f"zapomni delete {ID}",
            f"zapomni delete {ID} --yes",
        ),
    )
    deleting.add_argument("id", metavar="ID", help="the memory's id")
    deleting.add_argument("-y", "--yes", action="store_true", help="do not ask; needed where there is no terminal")
    add_data_flags(deleting)
    deleting.set_defaults(run=run_delete)

    undeleting = add_command(
        commands,
        "undelete",
        help="bring a deleted memory back",
        description="Bring a deleted memory back, with its id, its key and its history.",
        examples=(f"zapomni undelete {ID}",),
    )
    undeleting.add_argument("id", metavar="ID", help="the deleted memory's id")
    add_data_flags(undeleting)
    undeleting.set_defaults(run=run_undelete)


def run_update(options: argparse.Namespace) -> int:
    """Change what the arguments name and leave the rest."""
    if options.file and options.text:
        raise ValidationError("give a text or a file, not both")
    text = text_in(options.file) if options.file else text_of(options.text) if options.text else None
    if text is None and metadata_from(options, {}) is None:
        raise ValidationError("nothing to change: give a new text, --file, or metadata")

    async def work(engine: MemoryEngine, console: Console) -> int:
        memory = await engine.get_memory(options.id)
        receipt = await engine.update_memory(options.id, text=text, metadata=metadata_from(options, memory.metadata))
        if console.json:
            console.data(receipt)
        elif console.pretty:
            done = "Nothing to change" if receipt.duplicate else "Changed"
            console.line(f"{console.paint(done, 'green', 'bold')}: {on_one_line(receipt.text_preview)}")
        else:
            console.line(receipt.memory_id)
        return EXIT_OK

    return run_with_engine(options, work)


def run_delete(options: argparse.Namespace) -> int:
    """Delete when the person agrees."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        try:
            question = f"Delete “{on_one_line(preview_of((await engine.get_memory(options.id)).text))}”?"
        except BlockedError as error:
            question = f"Delete it, though {error}?"
        if not await console.agreed(question, yes=options.yes):
            return EXIT_FAILED
        memory = await engine.delete_memory(options.id)
        assert memory.deleted_at is not None
        until = memory.deleted_at + timedelta(days=engine.settings.retention_days)
        if console.json:
            console.data({"memory_id": memory.id, "deleted_at": memory.deleted_at, "restorable_until": until})
        elif console.pretty:
            console.line(f"{console.paint('Deleted', 'green', 'bold')}; until {console.when(until)} it comes back with")
            console.line(f"  zapomni undelete {memory.id}")
        else:
            console.line(memory.id)
        return EXIT_OK

    return run_with_engine(options, work)


def run_undelete(options: argparse.Namespace) -> int:
    """Bring a memory back."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        memory = await engine.restore_memory(options.id)
        if console.json:
            console.data(memory)
        elif console.pretty:
            console.line(f"{console.paint('Back again', 'green', 'bold')}: {on_one_line(preview_of(memory.text))}")
        else:
            console.line(memory.id)
        return EXIT_OK

    return run_with_engine(options, work)
