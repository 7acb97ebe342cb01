"""``zapomni install`` and ``zapomni uninstall``: the server in clients' settings, and out of them."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.options import add_setting_flags
from zapomni.cli.output import Console, add_json_flag
from zapomni.cli.text import columns, printable
from zapomni.clients import CLIENTS, HIDDEN, Launch, Machine, Status, find, install, snippet, status, uninstall
from zapomni.config import load
from zapomni.errors import ConfigError, ValidationError
from zapomni.store.names import workspace_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from zapomni.clients import Change, Client

SERVER_FLAGS = ("data_dir", "workspace", "read_only", "tools")
WSL = "WSL_DISTRO_NAME"
NAMES = ", ".join(CLIENTS)
UNREADABLE = "unreadable"
WORDS: dict[str, str] = {
    Status.ABSENT: "not installed",
    Status.INSTALLED: "installed",
    Status.DIFFERENT: "installed in another way",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line."""
    parser = commands.add_parser(
        "install",
        help="add the server to an MCP client",
        description=(
            "Add the server to a client's settings; without a client, tell which ones there are. Nothing else in the\n"
            "settings is touched, and a copy of them is kept. The settings below become the server's own.\n\n"
            f"Clients: {NAMES}"
        ),
        epilog=(
            "examples:\n"
            "  zapomni install\n"
            "  zapomni install claude-desktop --dry-run\n"
            "  zapomni install cursor vscode --workspace work\n"
            "  zapomni install codex-cli --print"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_common(parser, "replace an entry of our name that starts something else")
    parser.add_argument("--print", action="store_true", help="print what to write into the settings by hand")
    parser.add_argument("--wsl", action="store_true", help="for a client on Windows: start the server inside this WSL")
    add_setting_flags(parser, SERVER_FLAGS)
    parser.set_defaults(run=run_install)

    parser = commands.add_parser(
        "uninstall",
        help="take the server out of an MCP client",
        description=(
            "Take the server out of a client's settings; memories stay where they are, and so does all else in the\n"
            f"settings, of which a copy is kept.\n\nClients: {NAMES}"
        ),
        epilog="examples:\n  zapomni uninstall cursor\n  zapomni uninstall --all --dry-run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_common(parser, "take out an entry of our name also where it starts something else")
    parser.set_defaults(run=run_uninstall)


def _add_common(parser: argparse.ArgumentParser, replacing: str) -> None:
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help="one or more clients, by name")
    parser.add_argument("--all", action="store_true", help="every client that is found on this machine")
    parser.add_argument("--dry-run", action="store_true", help="show the change, and make none")
    parser.add_argument("--file", type=Path, metavar="FILE", help="another settings file than the client's usual one")
    parser.add_argument("--replace", action="store_true", help=replacing)
    add_json_flag(parser)


def run_install(options: argparse.Namespace) -> int:
    """List the clients, print the entry for some, or add it to their settings."""
    console, machine, launch = Console.of(options), Machine.current(), _launch(options)
    if options.print:
        for client in _chosen(options, machine):
            console.note(f"{client.title}, in {_path(client, options, machine)}:")
            console.line(snippet(client, launch).rstrip("\n"))
        return EXIT_OK
    if not options.clients and not options.all:
        if options.file is not None:
            raise ValidationError(f"--file is the settings of one client; name it: {NAMES}")
        _list(console, machine, launch)
        return EXIT_OK
    code = _change(options, console, lambda client, path: install(client, launch, path, replace=options.replace))
    if vanishing(launch.command):
        console.note(
            f"{launch.command} is in a cache or a temporary folder and may vanish. Install Zapomni for good "
            "('uv tool install zapomni' or 'pipx install zapomni') and run this again from there."
        )
    return code


def run_uninstall(options: argparse.Namespace) -> int:
    """Take our entry out."""
    return _change(options, Console.of(options), lambda client, path: uninstall(client, path, replace=options.replace))


@attrs.frozen
class Changed:
    """What became of one client's settings, or in a dry run would become of them."""

    client: str
    path: str
    dry_run: bool
    changed: bool = False
    backup: str | None = None
    error: str | None = None


def _change(options: argparse.Namespace, console: Console, work_out: Callable[[Client, Path], Change]) -> int:
    machine = Machine.current()
    results = []
    for client in _chosen(options, machine):
        path = _path(client, options, machine)
        try:
            change = work_out(client, path)
            backup = None if options.dry_run else change.apply()
        except ConfigError as error:
            if len(options.clients) == 1 and not options.all:
                raise
            results.append(Changed(client.name, str(path), options.dry_run, error=str(error)))
        else:
            kept = str(backup) if backup else None
            results.append(Changed(client.name, str(path), options.dry_run, bool(change), kept))
            if options.dry_run and not console.json:
                diff = change.diff().rstrip("\n")
                console.line(printable(diff) if change else f"{path} stays as it is.")
                if HIDDEN in diff:
                    console.note(f"Where {HIDDEN} stands, a value is only hidden here.")
    if console.json:
        console.data(results)
    else:
        for result in results:
            if result.error or not options.dry_run:
                console.lines(_told(result, console, adding=options.command == "install"))
    return EXIT_FAILED if any(result.error for result in results) else EXIT_OK


def _told(result: Changed, console: Console, *, adding: bool) -> list[str]:
    title = console.paint(CLIENTS[result.client].title, "bold")
    if result.error:
        return [f"{title}: {console.paint(printable(result.error), 'red')}"]
    if not result.changed:
        return [f"{title}: {'it is there already' if adding else 'it was not there'}, in {result.path}"]
    lines = [f"{title}: {console.paint('added to' if adding else 'taken out of', 'green')} {result.path}"]
    if result.backup:
        lines.append(f"  as it was before: {result.backup}")
    return [*lines, f"  Restart {CLIENTS[result.client].title} to see it."]


@attrs.frozen
class Listed:
    """How a client stands to us."""

    client: str
    found: bool
    status: str
    path: str
    error: str | None = None


def _list(console: Console, machine: Machine, launch: Launch) -> None:
    listed = []
    for client in CLIENTS.values():
        path = client.path(machine)
        state, reason = UNREADABLE, None
        try:
            state = status(client, launch, path).value
        except ConfigError as error:
            reason = str(error)
        listed.append(Listed(client.name, client.present(machine), state, str(path), reason))
    if console.json:
        console.data(listed)
        return
    rows = [[row.client, "yes" if row.found else "no", WORDS.get(row.status, row.status), row.path] for row in listed]
    console.lines([printable(line) for line in columns([["client", "on this machine", "zapomni", "settings"], *rows])])
    for row in listed:
        if row.error:
            console.note(f"{row.client}: {row.error}")
    console.note("\n'zapomni install CLIENT' adds it to one, 'zapomni install --all' to all that are found.")


def _chosen(options: argparse.Namespace, machine: Machine) -> list[Client]:
    chosen = [find(name) for name in dict.fromkeys(options.clients)]
    if options.all:
        chosen += [client for client in CLIENTS.values() if client.present(machine) and client not in chosen]
        if not chosen:
            raise ConfigError("no client is found on this machine; name one")
    if not chosen:
        raise ValidationError(f"name a client: {NAMES}; or --all")
    if options.file is not None and len(chosen) > 1:
        raise ValidationError("--file is the settings of one client; name one")
    return chosen


def _path(client: Client, options: argparse.Namespace, machine: Machine) -> Path:
    return client.path(machine) if options.file is None else Path(options.file).expanduser().absolute()


def _launch(options: argparse.Namespace) -> Launch:
    """Return how the client is to start the server, with the settings that were given."""
    _check(options)
    flags: list[str] = []
    given: dict[str, Any] = {"config": options.config, **{name: getattr(options, name) for name in SERVER_FLAGS}}
    for name, value in given.items():
        if value is None:
            continue
        flags.append("--" + name.replace("_", "-"))
        if value is not True:  # a client starts the server from wherever it is itself
            flags.append(str(Path(value).expanduser().absolute()) if name in ("config", "data_dir") else str(value))
    launch = Launch.of_this_installation(flags)
    if not options.wsl:
        return launch
    distribution = os.environ.get(WSL)
    if not distribution:
        raise ConfigError(f"--wsl is for a shell inside WSL: {WSL} is not set")
    return launch.through_wsl(distribution)


def _check(options: argparse.Namespace) -> None:
    """Raise `ConfigError` or `ValidationError` for what the server would not start with, which nobody sees it do.

    Its environment will be the client's, not this one.
    """
    if options.workspace is not None:
        workspace_name(options.workspace)
    if options.config is None:
        return
    path = options.config.expanduser().absolute()
    named = load(environ={}, file=path).settings.workspace
    try:
        workspace_name(options.workspace or named)
    except ValidationError as error:
        raise ConfigError(f"workspace (file {path}) is {named!r}: {error}") from error


def vanishing(command: str) -> bool:
    """Tell whether a program is where tools run packages from without installing them, or in a temporary folder."""
    path = Path(command)
    cached = ("archive-v", "environments-v", "builds-v")  # folders of uv's cache
    return (
        any(part.startswith(cached) for part in path.parts)
        or {".cache", "pipx"} <= set(path.parts)
        or path.is_relative_to(tempfile.gettempdir())
    )
