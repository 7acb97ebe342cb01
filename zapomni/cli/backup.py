"""``zapomni backup`` and ``zapomni restore``: all workspaces in one file, and back."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from zapomni.cli import EXIT_OK
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run
from zapomni.cli.text import size
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from zapomni.cli.output import Console
    from zapomni.config import Settings


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    backing_up = add_command(
        commands,
        "backup",
        help="write all workspaces into one file",
        description=(
            "Write all workspaces into one file, vectors and history included, while servers go on working. The file "
            "appears only when it is whole, carries a checksum, and can be read by you alone."
        ),
        examples=(
            "zapomni backup memories.zapomni",
            "zapomni backup --force /media/disk/memories.zapomni",
        ),
    )
    backing_up.add_argument("file", type=Path, metavar="FILE", help="the file to write")
    backing_up.add_argument("--force", action="store_true", help="replace a file that is there")
    backing_up.set_defaults(run=run_backup)

    restoring = add_command(
        commands,
        "restore",
        help="bring the workspaces of a backup back",
        description=(
            "Bring back the workspaces of a backup. The file is checked first; a workspace that has memories here is "
            "not touched: delete it first, or restore into another --data-dir."
        ),
        examples=(
            "zapomni restore memories.zapomni",
            "zapomni restore memories.zapomni --data-dir /tmp/look",
        ),
    )
    restoring.add_argument("file", type=Path, metavar="FILE", help="a file that 'zapomni backup' wrote")
    restoring.set_defaults(run=run_restore)

    for parser in (backing_up, restoring):
        add_data_flags(parser, workspace=False)


def run_backup(options: argparse.Namespace) -> int:
    """Write the file."""
    path: Path = options.file
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; name a file")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no file, and a backup takes the place of nothing else")
    if path.exists() and not options.force:
        raise ConfigError(f"{path} is there already; --force replaces it")
    real = Path(os.path.realpath(path))  # what a link names is replaced, not the link
    _refuse_what_fails(real.parent, os.W_OK | os.X_OK, f"the backup {path} cannot be written")

    async def work(settings: Settings, console: Console) -> int:
        import trio

        from zapomni.store.store import open_store

        async with open_store(settings) as store:
            await store.back_up(real)
        count = (await trio.Path(path).stat()).st_size
        if console.json:
            console.data({"file": str(path), "bytes": count})
        else:
            console.line(f"All workspaces are in {path} ({size(count)}).")
        return EXIT_OK

    return run(options, work)


def run_restore(options: argparse.Namespace) -> int:
    """Read the file."""
    _refuse_what_fails(options.file, os.R_OK, f"the backup {options.file} cannot be read")

    async def work(settings: Settings, console: Console) -> int:
        from zapomni.store.store import open_store

        async with open_store(settings) as store:
            names = await store.restore(options.file)
        if console.json:
            console.data({"workspaces": names})
        else:
            console.line(f"Restored: {', '.join(names)}.")
        return EXIT_OK

    return run(options, work)


def _refuse_what_fails(path: Path, mode: int, lead: str) -> None:
    """Raise `ConfigError` while no store is started, and nothing has a name that only we know."""
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"{lead}: {error.strerror or error}") from error
    if is_folder != bool(mode & os.X_OK):
        raise ConfigError(f"{lead}: {path} is {'a' if is_folder else 'no'} folder")
    if not os.access(path, mode):
        raise ConfigError(f"{lead}: {os.strerror(errno.EACCES)}")
