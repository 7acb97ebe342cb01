"""The `zapomni` command."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from zapomni import __version__
from zapomni.cli import serve
from zapomni.errors import ZapomniError

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; each command brings its own part."""
    parser = argparse.ArgumentParser(
        prog="zapomni",
        description="Long-term memory for AI agents, on your own machine.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="An MCP client starts 'zapomni serve'. 'zapomni COMMAND --help' explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"zapomni {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    serve.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Without a command, a terminal gets the help, and a client that only knows the program gets the server.
    """
    parser = build_parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given and sys.stdin is not None and not sys.stdin.isatty():
        given = ["serve"]
    options = parser.parse_args(given)
    if options.command is None:
        parser.print_help()
        return EXIT_USAGE
    try:
        return int(options.run(options))
    except ZapomniError as error:
        print(f"zapomni: {error}", file=sys.stderr)
        return EXIT_FAILED
    except ConnectionError as error:
        print(f"zapomni: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
