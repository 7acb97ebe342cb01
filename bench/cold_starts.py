"""How long both sides of ``bench/indices.py`` take from a start to their first and to their whole answers."""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from redis import Redis, exceptions

from bench import peers
from bench.report import Times
from bench.sides import (
    ADD_TEXTS,
    BY_WORDS,
    GRAPH,
    NEAREST,
    OURS,
    THEIRS,
    WANTED,
    FalkorDB,
    Table,
    Zapomni,
    outcome,
    whole,
)
from bench.store import CENTRES, COMMON
from zapomni.store.binaries import find_binaries
from zapomni.store.connection import open_connection
from zapomni.store.cypher import render
from zapomni.store.cypher import rows as rows_of
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings


def start_plainly(directory: Path, words: str) -> tuple[float, float]:
    """Start FalkorDB so that it indexes as it does by default.

    Return the seconds to its first answer, and until it finds everything.
    """
    binaries, path = find_binaries(), directory / "plain.sock"
    options = {
        "port": "0",
        "dir": str(directory),
        "unixsocket": str(path),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "always",  # as both are launched elsewhere
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    begin = time.perf_counter()
    with subprocess.Popen(
        [binaries.server, *arguments, "--loadmodule", binaries.module], stdout=subprocess.DEVNULL
    ) as process:
        try:
            client: Any = Redis(unix_socket_path=str(path), socket_timeout=None)  # not all of it has types
            while not peers.answers(client):
                time.sleep(0.02)
            first = time.perf_counter() - begin
            for query in (
                render(f"{NEAREST} RETURN node.number", asked=WANTED, vector=whole(CENTRES[0])),
                render(BY_WORDS, words=words, asked=WANTED),
            ):
                while not finds_all(client, query):
                    time.sleep(0.02)
            return first, time.perf_counter() - begin
        finally:
            process.kill()


def finds_all(client: Any, query: str) -> bool:
    try:
        return len(rows_of(client.execute_command("GRAPH.RO_QUERY", GRAPH, query))) == WANTED
    except exceptions.ResponseError:  # now and then an index is not there yet when the server first answers
        return False


async def start_cold(table: Table, folder: Path, settings: dict[str, Settings]) -> None:
    """Start both anew, FalkorDB in both of its ways, and time their first answers."""
    shutil.copytree(folder / THEIRS / "store", folder / "plain")
    first, all_found = await trio.to_thread.run_sync(start_plainly, folder / "plain", COMMON)
    begin = time.perf_counter()
    async with open_store(settings[OURS]) as store:
        await store.ready()
        ours = [time.perf_counter() - begin]
        side = Zapomni(store)
        assert len(await side.nearest(CENTRES[0])) == len(await side.by_words({COMMON: 1.0})) == WANTED
        ours.append(time.perf_counter() - begin)
    table.note("cold start to the first answer, s", first, ours[0])
    table.note("cold start to whole answers, s", all_found, ours[1])
    begin = time.perf_counter()
    async with open_connection(settings[THEIRS]) as connection:
        theirs = FalkorDB(connection)
        await connection.ready()
        table.note("DELAY_INDEXING: to the first answer, s", time.perf_counter() - begin)
        for what, work in {
            "by vectors": partial(theirs.nearest, CENTRES[0]),
            "by words": partial(theirs.by_words, COMMON),
        }.items():
            table.note(f"DELAY_INDEXING: a search {what} at once", await outcome(work))
        times = Times()
        with times.one():
            await theirs.write(render(ADD_TEXTS, first=0, texts=["another"]))
        table.note("DELAY_INDEXING: a write at once, s", times[0] / 1e3)
        await theirs.wait_until_indexed()
        assert len(await theirs.nearest(CENTRES[0])) == len(await theirs.by_words(COMMON)) == WANTED
        table.note("DELAY_INDEXING: to whole answers, s", time.perf_counter() - begin)
