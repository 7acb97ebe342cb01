"""``zapomni add``: remember a text, or what is in some files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zapomni.cli import EXIT_OK
from zapomni.cli.given import add_metadata_flags, metadata_from, text_in, text_of
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.text import counted, on_one_line
from zapomni.errors import ValidationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from zapomni.cli.output import Console
    from zapomni.engine import MemoryEngine
    from zapomni.models import MemoryResult


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "add",
        help="remember a text",
        description=(
            "Remember a text, verbatim; it is safe on disk when the command ends. What stands in the arguments is the "
            "text itself; a file is named by --file, and - reads standard input. Piped, the answer is the id alone."
        ),
        examples=(
            'zapomni add "The spare key is with Nadia, third floor"',
            "zapomni add --tag garden --timestamp 2026-05-01 Planted the pear tree",
            "zapomni add --file notes.md todo.md",
            "git log -1 --format=%B | zapomni add -",
            'id=$(zapomni add --key wifi "The wifi password is on the fridge")',
        ),
    )
    parser.add_argument("text", nargs="*", metavar="TEXT", help="the text; - reads it from standard input")
    parser.add_argument(
        "-f",
        "--file",
        nargs="+",
        action="extend",
        type=Path,
        metavar="FILE",
        help="text files, a memory for each; can be repeated",
    )
    parser.add_argument("--key", metavar="KEY", help="a name of your own: adding under it again replaces the memory")
    add_metadata_flags(parser)
    add_data_flags(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read everything first, so that a mistake in the last file stores nothing."""
    metadata = metadata_from(options, {}) or {}
    memories: list[tuple[str, dict[str, Any]]]
    if options.file:
        if options.text:
            raise ValidationError("give a text or files, not both")
        if options.key is not None and len(options.file) > 1:
            raise ValidationError("--key names one memory; give one file")
        memories = [(text_in(path), {"source": str(path.absolute()), **metadata}) for path in options.file]
    else:
        memories = [(_text(options.text), metadata)]

    async def work(engine: MemoryEngine, console: Console) -> int:
        with console.progress() as line:

            async def report(done: float, total: float | None, message: str | None) -> None:
                line.show(message or "")

            receipts = [
                await engine.add_memory(text, about, key=options.key, progress=report) for text, about in memories
            ]
        _show(receipts, console)
        for receipt, (_, about) in zip(receipts, memories, strict=True):
            if receipt.duplicate and about and await _lacks(engine, receipt.memory_id, about):
                console.note(
                    f"The metadata and tags of {receipt.memory_id} are as before, not as they were given now; "
                    f"'zapomni update {receipt.memory_id}' changes them."
                )
        return EXIT_OK

    return run_with_engine(options, work)


async def _lacks(engine: MemoryEngine, memory_id: str, metadata: Mapping[str, Any]) -> bool:
    """Tell whether anything of this metadata is not what the memory has."""
    return not metadata.items() <= (await engine.get_memory(memory_id)).metadata.items()


def _text(words: list[str]) -> str:
    if not words:
        raise ValidationError("nothing to remember: give a text, - for standard input, or --file FILE")
    if len(words) == 1 and words != ["-"] and _is_file(words[0]):
        quoted = shlex.quote(words[0])
        raise ValidationError(
            f"{words[0]} is a file; to add what is in it: zapomni add --file {quoted}; "
            f"to add its name: printf %s {quoted} | zapomni add -"
        )
    return text_of(words)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # a text is soon too long for a path
        return False


def _show(receipts: list[MemoryResult], console: Console) -> None:
    if console.json:
        console.data(receipts[0] if len(receipts) == 1 else receipts)
        return
    for receipt in receipts:
        if not console.pretty:
            console.line(receipt.memory_id)
            continue
        word = "Known already" if receipt.duplicate else "Replaced" if receipt.replaced else "Remembered"
        passages = "" if receipt.duplicate else f" in {counted(receipt.chunks_created, 'passage')}"
        console.line(f"{console.paint(word, 'green', 'bold')}{passages}: {on_one_line(receipt.text_preview)}")
        console.line(console.paint(f"  {receipt.memory_id}", "dim"))
