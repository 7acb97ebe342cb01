"""What the store can do: writing, searching and cold starts, without the engine.

Passages are words of `bench.texts`; vectors lie in clusters. Everything is durable when it counts (`appendfsync
always`). The last rows measure a cold start of the directory that the first rows filled.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import trio

from bench import peers, report
from bench.report import Rows, Times
from bench.texts import FILTERS, WORDS, draw_words, query
from zapomni.config import Settings
from zapomni.models import EmbeddingModel, Filters, NewChunk, NewMemory
from zapomni.store.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

    from numpy.typing import NDArray

MODEL = EmbeddingModel("bench", 256)
LENGTH = 110  # words of a passage
COMMON = WORDS[4]  # which many passages have
CASES = {**FILTERS, ", a filter that leaves 0.5 %": Filters(tags=("rare3",))}
BATCH = 100
NUMBERS = itertools.count()  # of the memories, whose tags go by them: so each filter leaves the share that it is to
RNG = np.random.default_rng(1)
CENTRES = RNG.normal(size=(200, MODEL.dimension)).astype(np.float32)


def passages(count: int) -> tuple[str, list[NewChunk]]:
    """Return a text and its chunks, with words, vectors and all."""
    texts, chunks, position = [], [], 0
    for _ in range(count):
        words = draw_words(LENGTH)
        text = " ".join(words) + ". "
        texts.append(text)
        chunks.append(NewChunk(position, position + len(text), Counter(words), LENGTH, draw_vector()))
        position += len(text)
    return "".join(texts), chunks


def draw_vector() -> NDArray[np.float32]:
    """Return a vector near one of the centres."""
    centre: NDArray[np.float32] = CENTRES[RNG.integers(len(CENTRES))]
    return centre + RNG.normal(size=MODEL.dimension).astype(np.float32) * np.float32(0.8)


def memory(text: str, number: int) -> NewMemory:
    return NewMemory(
        id=str(uuid.uuid4()),
        text=text,
        created_at=datetime.now(UTC),
        tags=("all", f"tenth{number % 10}", f"rare{number % 200}"),
        source=f"source{number % 50}",
        model=MODEL,
    )


def watch(socket: str, answers: Connection) -> None:
    """Read all the time in a process of its own; tell, when asked, how long the longest read took."""
    from redis import Redis

    client, longest = Redis(unix_socket_path=socket), 0.0
    while True:
        begin = time.perf_counter()
        client.get("{zapomni:default}:hidden")
        longest = max(longest, time.perf_counter() - begin)
        if answers.poll(0.001):
            answers.recv()
            answers.send(longest)
            longest = 0.0


class Watcher:
    """Another client of the same server."""

    def __init__(self, directory: Path) -> None:
        context = get_context("spawn")
        self._answers, theirs = context.Pipe()
        self._process = context.Process(
            target=watch, args=(str(directory / "store" / "server.sock"), theirs), daemon=True
        )
        self._process.start()
        self.longest()

    def longest(self) -> float:
        """Return how many milliseconds its longest read took since it was asked last."""
        self._answers.send(None)
        return 1e3 * float(self._answers.recv())

    def end(self) -> None:
        self._process.kill()
        self._process.join()


async def longest_command(store: Store) -> float:
    """Return how many milliseconds the longest transaction took, as the server measures it."""
    events = {name: longest for name, _, _, longest, *_ in await store.connection.read("LATENCY", "LATEST")}
    await store.connection.write("LATENCY", "RESET")
    return float(events.get(b"command", 0))


async def processor_time(store: Store) -> float:
    """Return the seconds that the server's main thread has worked, which no neighbour on the machine can stretch."""
    lines = (await store.connection.read("INFO", "cpu")).decode().split()
    figures = dict(line.split(":") for line in lines if ":" in line)
    return float(figures["used_cpu_user_main_thread"]) + float(figures["used_cpu_sys_main_thread"])


async def waits(store: Store, watcher: Watcher) -> dict[str, float]:
    """Return how long others waited since this was asked last."""
    return {"longest read ms": watcher.longest(), "longest write ms": await longest_command(store)}


async def add(store: Store, batches: Sequence[tuple[str, list[NewChunk]]]) -> float:
    """Add memories; return how many chunks a second were written."""
    space, begin = store.workspace("default"), time.perf_counter()
    for text, chunks in batches:
        await space.add(memory(text, next(NUMBERS)), chunks)
    return sum(len(chunks) for _, chunks in batches) / (time.perf_counter() - begin)


async def fill(rows: Rows, store: Store, watcher: Watcher, total: int) -> None:
    space = store.workspace("default")
    ready = [passages(BATCH) for _ in range(20)]
    watcher.longest()
    await trio.sleep(3)
    rows.note("nothing is written", **{"longest read ms": watcher.longest()})
    await store.connection.write("CONFIG", "SET", "latency-monitor-threshold", 1)
    rate = await add(store, ready)
    rows.note(f"ingest, memories of {BATCH} chunks", **{"chunks/s": rate}, **await waits(store, watcher))
    ready = [passages(2000)]
    watcher.longest()
    rate = await add(store, ready)
    rows.note("ingest, one memory of 2,000 chunks", **{"chunks/s": rate}, **await waits(store, watcher))
    await flush(rows, store)
    await waits(store, watcher)  # from here on
    while (held := (await space.info()).chunks) < total:
        await add(store, [passages(min(BATCH, total - held))])
    ready = [passages(BATCH) for _ in range(10)]
    used, rate = await processor_time(store), await add(store, ready)
    busy = (await processor_time(store) - used) / len(ready) / 2
    rows.note(f"ingest at {held:,} chunks", **{"chunks/s": rate}, **await waits(store, watcher))
    rows.note("processor time of a transaction of 50 chunks", **{"p50 ms": 1e3 * busy})


async def flush(rows: Rows, store: Store) -> None:
    """Add with and without a wait for the disk, in turns."""
    space = store.workspace("default")
    for size in (1, 50):
        ways = {"": ("always", Times()), ", flushed once a second": ("everysec", Times())}
        for _ in range(100):
            for policy, times in ways.values():
                await store.connection.write("CONFIG", "SET", "appendfsync", policy)
                text, chunks = passages(size)
                with times.one():
                    await space.add(memory(text, next(NUMBERS)), chunks)
        for name, (_, times) in ways.items():
            rows.note(f"add, chunks: {size}{name}", **times.figures())
        await store.connection.write("CONFIG", "SET", "appendfsync", "always")


async def search(rows: Rows, store: Store) -> None:
    space = store.workspace("default")
    for name, filters in CASES.items():
        words, vectors = Times(), Times()
        for _ in range(100):
            terms, vector = dict.fromkeys(query().split(), 1.0), draw_vector()
            with words.one():
                await space.search_words(terms, count=200, filters=filters)
            with vectors.one():
                await space.search_vectors(vector, MODEL, count=100, filters=filters)
        rows.note(f"search by words{name}", **words.figures())
        rows.note(f"search by vectors{name}", **vectors.figures())


async def start_cold(rows: Rows, settings: Settings) -> None:
    begin = time.perf_counter()

    def note(what: str) -> None:
        rows.note(f"cold start to the first {what}", **{"p50 ms": 1e3 * (time.perf_counter() - begin)})

    async with open_store(settings) as store:
        space = store.workspace("default")
        assert len((await space.search_words({COMMON: 1.0}, count=10)).numbers) == 10
        note("search by words")
        found = await space.search_vectors(CENTRES[0], MODEL, count=10)
        assert len(await space.passages(found.numbers)) == 10
        note("search by vectors, with its passages")
        text, chunks = passages(1)
        await space.add(memory(text, 0), chunks)
        note("durable add")


async def measure(rows: Rows, total: int) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        settings = Settings(data_dir=directory, store_linger=0.0)
        async with open_store(settings) as store:
            await store.workspace("default").info()
            watcher = Watcher(directory)
            await fill(rows, store, watcher, total)
            await search(rows, store)
            watcher.end()
            figures = await store.workspace("default").statistics()
            rows.note("memory of the whole server", **{"bytes a chunk": figures.bytes_in_memory / figures.total_chunks})
            rows.note("disk", **{"bytes a chunk": figures.bytes_on_disk / figures.total_chunks})
        await trio.to_thread.run_sync(peers.wait_for_the_store_to_end, directory)
        await start_cold(rows, settings)
        await trio.to_thread.run_sync(peers.wait_for_the_store_to_end, directory)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench store", description=__doc__)
    parser.add_argument("chunks", type=int, nargs="?", default=5000, help="how many the store is filled with")
    options = parser.parse_args(arguments)
    total, name = options.chunks, report.name_of(parser, options)
    rows = Rows()
    trio.run(measure, rows, total)
    report.show(f"The store by itself, at least {total:,} chunks", rows)
    report.save(name, rows, chunks=total)
    bars = {row["what"]: row["p50 ms"] for row in rows if "p50 ms" in row}
    report.plot_bars(name, f"The store by itself, at least {total:,} chunks, p50", bars, "ms")
