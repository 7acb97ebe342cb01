"""The `zapomni` command.

Each command is a module with `add_parser(commands)` and `run(options)`, which is imported only when it is asked for:
nobody who searches should wait for what serving needs.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from zapomni import __version__
from zapomni.cli.options import Help, unrecognized
from zapomni.errors import NotFoundError, ValidationError, ZapomniError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_SIGNALLED = 128  # with the signal's number added, as shells do
EXIT_INTERRUPTED = EXIT_SIGNALLED + signal.SIGINT
EXIT_BROKEN_PIPE = EXIT_SIGNALLED + 13
EXIT_TERMINATED = EXIT_SIGNALLED + signal.SIGTERM

EXITS = {
    EXIT_OK: "done",
    EXIT_FAILED: "it could not be done; one line on standard error says why",
    EXIT_USAGE: (
        "what was asked makes no sense: an unknown flag, a wrong value, an empty text, "
        "a name that no workspace can have"
    ),
    EXIT_NOT_FOUND: "the memory or workspace that was named does not exist, or a search found nothing",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C",
    EXIT_BROKEN_PIPE: "whoever read the output went away, as head does",
    EXIT_TERMINATED: "ended by SIGTERM",
}
"""What every exit code means; the help and the documentation say it in these words."""

COMMANDS = {
    "serve": "serve",
    "demo": "demo",
    "add": "add",
    "search": "search",
    "get": "memories",
    "list": "memories",
    "update": "changes",
    "delete": "changes",
    "undelete": "changes",
    "stats": "stats",
    "workspace": "workspaces",
    "ingest": "ingest",
    "import": "transfer",
    "export": "transfer",
    "install": "install",
    "uninstall": "install",
    "reembed": "reembed",
    "backup": "backup",
    "restore": "backup",
    "config": "settings",
    "doctor": "doctor",
    "completion": "completion",
}
"""Each command's module, in the order of the help."""

CHOOSING = ("workspace", "config", "completion")
"""The commands that go on with one of a few words: argparse repeats what is none of them, as it refuses it."""


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line, or the part of it that one command needs."""
    parser = argparse.ArgumentParser(
        prog="zapomni",
        description="Long-term memory for AI agents, on your own machine.",
        formatter_class=Help,
        epilog="\n".join(
            [
                "An MCP client starts 'zapomni serve'. 'zapomni COMMAND --help' explains a command.",
                "",
                "exit codes:",
                *(f"  {code:<5}{told}" for code, told in EXITS.items()),
            ]
        ),
    )
    parser.add_argument("--version", action="version", version=f"zapomni {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    wanted = [COMMANDS[only]] if only in COMMANDS else COMMANDS.values()
    for module in dict.fromkeys(wanted):  # one module may bring several commands
        import_module(f"zapomni.cli.{module}").add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Without a command, a terminal gets the help, and a client that only knows the program gets the server.
    """
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (ZapomniError, OSError) as error:
        if isinstance(error, OSError):
            _drop_output()
        return _explain(error)
    return code


def _drop_output() -> None:
    """Let go of what stdout still holds, if it cannot be written: it would fail again at the exit, and loudly."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(given: list[str]) -> int:
    if not given and sys.stdin is not None and not sys.stdin.isatty():
        given = ["serve"]
    if given[:1] == ["--"]:  # as wrappers put it before what they pass on
        given = given[1:]
    parser = build_parser(given[0] if given else None)
    # What follows an unknown option is perhaps its value and no command, so it is not looked at.
    choice = given[1] if len(given) > 1 and given[0] in CHOOSING else ""
    if choice.startswith("-") and choice != "-h" and not "--help".startswith(choice):
        parser.error(unrecognized([choice]))
    options, unknown = parser.parse_known_args(given[:1] if given and given[0].startswith("-") else given)
    if unknown:
        parser.error(unrecognized(unknown))
    if options.command is None:
        parser.print_help()
        return EXIT_USAGE
    return int(options.run(options))


def _explain(error: ZapomniError | OSError) -> int:
    from zapomni.cli.text import printable

    told = str(error)
    if isinstance(error, OSError) and error.strerror:
        told = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    print(f"zapomni: {printable(told)}", file=sys.stderr)
    if isinstance(error, NotFoundError):
        return EXIT_NOT_FOUND
    return EXIT_USAGE if isinstance(error, ValidationError) else EXIT_FAILED
