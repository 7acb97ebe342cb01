"""``zapomni serve``: what an MCP client starts."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

from zapomni.cli.options import add_setting_flags, load_settings
from zapomni.errors import ConfigError, ValidationError

if TYPE_CHECKING:
    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine

SWITCH_SECONDS = 0.001
"""How long a thread may keep the others waiting. Python's 5 ms are long for a search while a large text is being added,
since each of its questions to the store is handed over several times (``python -m bench engine`` compares the two)."""

HANDSHAKE_SECONDS = 0.5
"""For so long the processor is left to the handshake."""

FLAGS = (
    "data_dir",
    "workspace",
    "read_only",
    "tools",
    "request_timeout",
    "max_request_bytes",
    "max_concurrent",
    "shutdown_grace",
    "log_level",
    "falkordb_url",
    "embedder",
    "defer_embedding",
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "serve",
        help="start the MCP server on stdin and stdout",
        description="Serve memories to an MCP client over stdin and stdout. Logs go to stderr, as JSON lines.",
        epilog=(
            "A client is configured with this command, for example:\n"
            '  {"mcpServers": {"zapomni": {"command": "zapomni", "args": ["serve"]}}}\n\n'
            "The server ends when its input ends, at SIGTERM, SIGINT or SIGHUP, and when its parent dies.\n"
            "Calls that are running get --shutdown-grace seconds; a second signal ends it at once."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_setting_flags(parser, FLAGS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until there is nobody to serve."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end_at_once)  # outside the server's own watch, there is nothing to wait for
    settings = _settings(options)
    # The protocol's types take long to import, so whoever only asks for help does not pay for them.
    import trio

    from zapomni import log

    log.configure(settings.log_level)
    sys.setswitchinterval(SWITCH_SECONDS)
    trio.run(_serve, settings)
    gc.freeze()  # a collection at exit would walk all of those types for nothing, and a client waits for the end
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    """Gather the settings. Raises `ConfigError`, also for a workspace that no call could use."""
    from zapomni.store.names import workspace_name

    loaded = load_settings(options)
    try:
        workspace_name(loaded.settings.workspace)
    except ValidationError as error:
        told = f"workspace ({loaded.origins['workspace']}) is {loaded.settings.workspace!r}: {error}"
        raise ConfigError(told) from error
    return loaded.settings


def _end_at_once(*_: object) -> None:
    """End cleanly while the server is not yet serving, or no more: whatever was acknowledged is on disk."""
    os._exit(0)


async def _serve(settings: Settings) -> None:
    import trio

    from zapomni.engine import open_engine
    from zapomni.server import MCPServer

    async with open_engine(settings) as engine, trio.open_nursery() as nursery:
        server = MCPServer(engine, settings)
        server.register_all_tools()
        nursery.start_soon(_warm_up, engine)
        await server.run()
        nursery.cancel_scope.cancel()


async def _warm_up(engine: MemoryEngine) -> None:
    """Start the store and load the model while nobody waits for them; a call that comes sooner does it itself."""
    import trio

    await trio.sleep(HANDSHAKE_SECONDS)
    await engine.ready()
