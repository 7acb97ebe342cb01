"""``zapomni workspace``: keep memories apart."""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.options import add_command
from zapomni.cli.session import add_data_flags, run_with_engine
from zapomni.cli.settings import file_of
from zapomni.cli.text import columns, counted
from zapomni.config import ENV_PREFIX
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from zapomni.cli.output import Console
    from zapomni.clients.change import Change
    from zapomni.engine import MemoryEngine
    from zapomni.models import WorkspaceInfo

_LINE = re.compile(
    r"""^[ \t]*(?:workspace|"workspace"|'workspace')[ \t]*=
    [ \t]*(?:"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'|[^"'\#\r\n]*?)
    (?P<comment>[ \t]*(?:\#[^\r\n]*)?)(?=[\r\n]|\Z)""",
    re.MULTILINE | re.VERBOSE,
)
"""The line that names the workspace, whatever its value is; what stands behind the value is the person's own."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = add_command(
        commands,
        "workspace",
        help="list, make, remove and choose workspaces",
        description=(
            "Workspaces keep memories apart: by project, by person, by topic. Case does not matter in their names, nor "
            "whether words are joined by a space, an underscore or a hyphen."
        ),
        examples=(
            "zapomni workspace create garden",
            "zapomni add --workspace garden Planted the pear tree",
            "zapomni workspace use garden",
        ),
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)

    listing = add_command(
        actions,
        "list",
        help="list them",
        description="List all workspaces and what is in them.",
        examples=(
            "zapomni workspace list",
            "zapomni workspace list --json",
        ),
    )
    listing.set_defaults(run=run_list)

    creating = add_command(
        actions,
        "create",
        help="make one",
        description="Make a workspace.",
        examples=("zapomni workspace create garden",),
    )
    creating.add_argument("name", metavar="NAME", help="its name")
    creating.set_defaults(run=run_create)

    deleting = add_command(
        actions,
        "delete",
        help="remove one for good",
        description="Remove a workspace and every memory in it for good. Nothing brings them back but a backup.",
        examples=(
            "zapomni workspace delete garden",
            "zapomni workspace delete garden --yes",
        ),
    )
    deleting.add_argument("name", metavar="NAME", help="its name")
    deleting.add_argument("-y", "--yes", action="store_true", help="do not ask; needed where there is no terminal")
    deleting.set_defaults(run=run_delete)

    using = add_command(
        actions,
        "use",
        help="make one the default",
        description=(
            "Make a workspace the one that commands and servers use when they name none, by the line 'workspace' of "
            "the settings file. Servers that are running keep the one they have."
        ),
        examples=(
            "zapomni workspace use garden",
            "zapomni workspace use default",
        ),
    )
    using.add_argument("name", metavar="NAME", help="its name")
    using.set_defaults(run=run_use)

    for action in (listing, creating, deleting, using):
        add_data_flags(action, workspace=False)


def run_list(options: argparse.Namespace) -> int:
    """List them, the current one marked."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        found = await engine.list_workspaces()
        if console.json:
            console.data({"current": engine.current_workspace, "workspaces": found})
        elif console.pretty:
            marks = ["*" if info.name == engine.current_workspace else " " for info in found]
            console.lines(columns([(m, info.name, _count(info)) for m, info in zip(marks, found, strict=True)], gap=1))
        else:
            console.lines([f"{info.name}\t{info.memories}" for info in found])
        return EXIT_OK

    return run_with_engine(options, work)


def run_create(options: argparse.Namespace) -> int:
    """Make one, or say that it is there."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        created = await engine.create_workspace(options.name)
        name = (await engine.workspace_info(options.name)).name
        if console.json:
            console.data({"name": name, "created": created})
        else:
            console.line(f"Workspace {name} {'made' if created else 'was there already'}.")
        return EXIT_OK

    return run_with_engine(options, work)


def run_delete(options: argparse.Namespace) -> int:
    """Remove one when the person agrees."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        info = await engine.workspace_info(options.name)
        if not await console.agreed(f"Delete workspace {info.name} with {_count(info)}, for good?", yes=options.yes):
            return EXIT_FAILED
        held = await engine.delete_workspace(info.name)
        if console.json:
            console.data({"name": held.name, "memories_deleted": held.memories})
        else:
            console.line(f"Workspace {held.name} deleted, with {_count(held)}.")
        return EXIT_OK

    return run_with_engine(options, work)


def run_use(options: argparse.Namespace) -> int:
    """Write the choice into the settings file."""

    async def work(engine: MemoryEngine, console: Console) -> int:
        info = await engine.use_workspace(options.name)
        path = file_of(options)
        choice(path, info.name).apply()
        if console.json:
            console.data({"name": info.name, "file": str(path)})
        else:
            console.line(f"{info.name} is the default workspace now ({path}).")
        variable = f"{ENV_PREFIX}WORKSPACE"
        if (os.environ.get(variable) or info.name) != info.name:
            console.note(f"{variable} is set to {os.environ[variable]}, which goes before the settings file.")
        return EXIT_OK

    return run_with_engine(options, work)


def choice(path: Path, name: str) -> Change:
    """Work out how a settings file comes to name a workspace, with everything else in it as it was.

    Raises `ConfigError` for a file in which one line cannot do that.
    """
    from zapomni.clients.change import Change, read

    try:
        before = read(path)
        text = (before or b"").decode()
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    line = f'workspace = "{name}"'  # a workspace's name holds nothing that TOML would have to escape
    after, replaced = _LINE.subn(lambda found: line + found["comment"].rstrip(), text, count=1)
    if not replaced:
        after = f"{line}\n{text}"  # in front, since what follows a table's heading belongs to the table
    try:
        kept = tomllib.loads(after) == {**values, "workspace": name}
    except tomllib.TOMLDecodeError:
        kept = False
    if not kept:
        raise ConfigError(f"{path} is left as it is: please write {line} into it yourself")
    return Change(path, before, after.encode())


def _count(info: WorkspaceInfo) -> str:
    deleted = f" and {info.trashed:,} deleted" if info.trashed else ""
    return counted(info.memories, "memory", "memories") + deleted
