"""``zapomni doctor``: see that everything works, and say what to do where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags
from zapomni.cli.session import run as run_session
from zapomni.cli.text import printable, size
from zapomni.errors import BlockedError

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

    from zapomni.cli.checkup import Finding
    from zapomni.cli.output import Console, Paint
    from zapomni.config import Settings

PAGE = 200  # memories that are listed at once
SIGNS: dict[str, tuple[str, Paint]] = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "red")}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "doctor",
        help="check that everything works",
        description=(
            "Check the installation, the data directory, the store, the embedding model and the clients' settings, and "
            "add, find and delete a memory in a workspace that is removed again. Every line says ok or what to do. The "
            "exit code is 1 when a check failed."
        ),
        examples=("zapomni doctor", "zapomni doctor --repair", "zapomni doctor --salvage", "zapomni doctor --json"),
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="first make vectors and search words of all workspaces anew from the texts",
    )
    parser.add_argument(
        "--salvage",
        action="store_true",
        help="first keep of a damaged data file what can be read, after copying it, and check every text",
    )
    add_data_flags(parser, workspace=False, more=("falkordb_url", "embedder"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Mend what is asked for, then check."""

    async def work(settings: Settings, console: Console) -> int:
        whole = await _salvage(settings, console) if options.salvage else True
        if options.repair:
            await _repair(settings, console)
        code = await _examine(settings, console)
        return code if whole else EXIT_FAILED

    return run_session(options, work)


async def _examine(settings: Settings, console: Console) -> int:
    from zapomni.cli.checkup import examine

    findings: list[Finding] = []

    def report(finding: Finding) -> None:
        findings.append(finding)
        if not console.json:
            _show(finding, console)

    healthy = await examine(settings, report)
    if console.json:
        console.data({"healthy": healthy, "checks": findings})
    return EXIT_OK if healthy else EXIT_FAILED


async def _salvage(settings: Settings, console: Console) -> bool:
    """Keep what can be kept; return whether every text of it is what was stored."""
    from zapomni.store.salvage import salvage

    saved = await salvage(settings)
    told = [f"{size(saved.lost_bytes)} behind the damage were cut off"] if saved.lost_bytes else []
    if saved.doubtful_bytes:
        told.append(f"{size(saved.doubtful_bytes)} are not what they were, and were kept")
    if saved.copy is None:
        console.note("nothing is damaged, and nothing was changed")
    else:
        told = told or ["nothing was cut off"]
        console.note(f"{'; '.join(told)}; the files as they were are in {saved.copy}")
    whole = True
    async for workspace, memory_id in _damaged_memories(settings):
        console.note(f"memory {memory_id} of {workspace} is not what was stored; it is in your backups, or in the copy")
        whole = False
    return whole


async def _damaged_memories(settings: Settings) -> AsyncIterator[tuple[str, str]]:
    """Read every memory, and return those that cannot be read or do not fit their checksums."""
    from zapomni.engine import open_engine

    async with open_engine(settings) as engine:
        for info in await engine.list_workspaces():
            cursor: str | None = None
            while True:
                page = await engine.list_memories(workspace=info.name, limit=PAGE, cursor=cursor)
                for summary in page.memories:
                    try:
                        await engine.get_memory(summary.id, workspace=info.name)
                    except (BlockedError, ValueError):  # metadata that is no JSON any more
                        yield info.name, summary.id
                cursor = page.cursor
                if cursor is None:
                    break


async def _repair(settings: Settings, console: Console) -> None:
    from zapomni.engine import open_engine

    async with open_engine(settings) as engine:
        with console.progress() as line:

            async def report(done: float, total: float | None, message: str | None) -> None:
                line.show(f"{info.name}: {message}")

            for info in await engine.list_workspaces():
                await engine.rebuild(workspace=info.name, progress=report)


def _show(finding: Finding, console: Console) -> None:
    sign, paint = SIGNS[finding.state]
    first, *rest = console.wrap(f"{finding.check}: {printable(finding.told)}", indent="      ")
    console.line(console.paint(sign.ljust(5), paint) + first[5:])
    console.lines(rest)
    if finding.advice:
        console.lines(console.wrap(f"-> {finding.advice}", indent="      "))
