"""A real server process for tests: the real run loop, with tools that misbehave and an engine without a store.

Run as ``python -m tests.server_process [--option value ...]``, where an option is a setting.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from typing import Any

import trio

from tests.fakes import FakeEngine, SlowTool, SomeTool
from zapomni import config, log
from zapomni.server import MCPServer


class PrintingTool(SomeTool):
    """Writes to where the protocol used to be, and lets a child do so, too."""

    name = "printing_tool"

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        print("a stray print", flush=True)
        sys.stdout.write("another\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(lambda: subprocess.run(["echo", "from a child"], check=True))
        read = await trio.to_thread.run_sync(
            lambda: subprocess.run(["cat"], check=True, capture_output=True).stdout.decode()
        )
        return {"content": [{"type": "text", "text": f"child read {read!r}"}], "isError": False}


class BlockingTool(SomeTool):
    """Holds the whole process up, as nothing should."""

    name = "blocking_tool"

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        print("about to block", file=sys.stderr, flush=True)
        time.sleep(arguments["seconds"])  # noqa: ASYNC251  # that is what it is for
        return await super().execute(arguments)


def main() -> None:
    flags = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in zip(sys.argv[1::2], sys.argv[2::2], strict=True)
    }
    settings = config.load(flags).settings
    log.configure(settings.log_level)
    server = MCPServer(FakeEngine(), settings)  # type: ignore[arg-type]
    server.register_all_tools()
    for tool in (SlowTool(), PrintingTool(), BlockingTool()):
        server.register_tool(tool)
    trio.run(server.run)
    gc.freeze()


if __name__ == "__main__":
    main()
