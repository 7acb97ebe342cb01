"""A client that writes to the embedded store and prints the id of each write that was acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from zapomni import log
from zapomni.config import Settings
from zapomni.errors import DatabaseError
from zapomni.store.connection import open_connection

GRAPH, VECTORS = "{zapomni:crash}:graph", "{zapomni:crash}:vectors"


async def main(directory: str, name: str, count: int) -> None:
    log.configure("error")
    async with open_connection(Settings(data_dir=Path(directory), store_linger=0.3)) as connection:
        for number in range(count):
            identity = f"{name}-{number}"
            query = ("GRAPH.QUERY", GRAPH, f"CREATE (:Memory {{id: '{identity}'}})")
            vector = ("VADD", VECTORS, "VALUES", 3, number, 1, 2, identity)
            try:
                replies = await connection.transaction([query, vector])
            except DatabaseError:  # it may or may not be there; nobody was told that it is
                continue
            assert replies[1] == 1, "the write was repeated"
            sys.stdout.write(identity + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
