"""A client of the embedded store in a process of its own, which can be killed.

Each line on stdin names a data directory. It is opened, the server's run id is printed, and the next line closes it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from zapomni import log
from zapomni.config import Settings
from zapomni.store.connection import open_connection

LINGER = 0.3


async def main() -> None:
    log.configure("error")
    print("up", flush=True)
    while line := await trio.to_thread.run_sync(sys.stdin.readline):
        settings = Settings(data_dir=Path(line.strip()), store_linger=LINGER)
        async with open_connection(settings) as connection:
            information = (await connection.read("INFO", "server")).decode().split()
            print(next(word for word in information if word.startswith("run_id:")), flush=True)
            await trio.to_thread.run_sync(sys.stdin.readline)
        print("closed", flush=True)


if __name__ == "__main__":
    trio.run(main)
