"""Running a command's work: settings, log, signals, the engine, and one error instead of a group of them.

Commands may run beside live servers on the same data. Ctrl-C and SIGTERM cancel the work, which unwinds cleanly; one
that comes when that has taken a while does not wait for it any more.
"""

from __future__ import annotations

import argparse
import gc
import signal
from typing import TYPE_CHECKING

from zapomni.cli import EXIT_SIGNALLED
from zapomni.cli.options import add_setting_flags, load_settings
from zapomni.cli.output import Console, add_json_flag

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import trio

    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine

GRACE_SECONDS = 2.0  # to unwind in: an interrupted release of a lock would make others wait until it runs out
LOG_LEVEL = "warning"  # the lines are for whoever looks into a server; a person at a terminal is told in words
TOLD = {
    "workspace": "the workspace, which must exist (default: the one of the settings)",
    "log_level": f"the least that is logged, to standard error (default {LOG_LEVEL})",
}


def add_data_flags(parser: argparse.ArgumentParser, *, workspace: bool = True, more: Iterable[str] = ()) -> None:
    """Add what every command on memories takes: --json, --workspace, --data-dir, --log-level and --config."""
    add_json_flag(parser)
    names = ("workspace",) if workspace else ()
    add_setting_flags(parser, (*names, "data_dir", *more, "log_level"), TOLD)


def run(options: argparse.Namespace, work: Callable[[Settings, Console], Awaitable[int]]) -> int:
    """Run work that opens what it needs by itself, and return its exit code."""
    settings = load_settings(argparse.Namespace(**{**vars(options), "workspace": None, "log_level": None})).settings
    import trio

    from zapomni import log

    log.configure(getattr(options, "log_level", None) or LOG_LEVEL)
    try:
        return trio.run(_until_signalled, lambda: work(settings, Console.of(options)))
    finally:
        gc.freeze()  # the collection at the exit would take a sixth of the time of a search


def run_with_engine(options: argparse.Namespace, work: Callable[[MemoryEngine, Console], Awaitable[int]]) -> int:
    """Run work on memories; the engine's current workspace is the one that --workspace names, which must exist.

    A workspace named by a flag is not made by looking into it: a slip of the pen would look like an empty memory.
    """

    async def work_on(settings: Settings, console: Console) -> int:
        from zapomni.engine import open_engine

        async with open_engine(settings) as engine:
            if (name := getattr(options, "workspace", None)) is not None:
                await engine.use_workspace(name)
            return await work(engine, console)

    return run(options, work_on)


async def _until_signalled(work: Callable[[], Awaitable[int]]) -> int:
    import trio

    from zapomni.team import open_team

    code = 0
    async with open_team() as team:
        scope = trio.CancelScope()
        signalled = await team.start(_cancel_on_signal, scope)
        with scope:
            code = await work()
        team.cancel_scope.cancel()
    return EXIT_SIGNALLED + signalled[0] if signalled else code


async def _cancel_on_signal(scope: trio.CancelScope, *, task_status: trio.TaskStatus[list[int]]) -> None:
    """Cancel at the first signal, which is told in the list that was handed out; leave a late one to the default."""
    import trio

    seen: list[int] = []
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started(seen)
        async for number in signals:
            seen.append(number)
            scope.cancel()
            break
        with trio.move_on_after(GRACE_SECONDS):
            async for _ in signals:  # said twice at once, as wrappers and fingers do, it means no more than once
                pass
