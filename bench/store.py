"""What the store can do, as one table: ``python -m bench.store [chunks]``.

Passages are random words with a natural distribution; vectors lie in clusters. Everything is durable when it counts
(`appendfsync always`). The last rows measure a cold start of the directory that the first rows filled.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import trio

from zapomni.config import Settings
from zapomni.models import EmbeddingModel, Filters, NewChunk, NewMemory
from zapomni.store import reaper
from zapomni.store.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from multiprocessing.connection import Connection

MODEL = EmbeddingModel("bench", 256)
WORDS = 110
VOCABULARY = 50_000
BATCH = 100
RNG = np.random.default_rng(1)
CENTRES = RNG.normal(size=(200, MODEL.dimension)).astype(np.float32)


def passages(count: int) -> tuple[str, list[NewChunk]]:
    """Return a text and its chunks, with words, vectors and all."""
    ranks = np.minimum(RNG.zipf(1.3, size=(count, WORDS)), VOCABULARY)
    vectors = CENTRES[RNG.integers(0, len(CENTRES), count)] + RNG.normal(size=(count, MODEL.dimension)) * 0.8
    texts, chunks, position = [], [], 0
    for row, vector in zip(ranks.tolist(), vectors.astype(np.float32), strict=True):
        words = [f"w{rank}" for rank in row]
        text = " ".join(words) + ". "
        terms: dict[str, int] = {}
        for word in words:
            terms[word] = terms.get(word, 0) + 1
        texts.append(text)
        chunks.append(NewChunk(position, position + len(text), terms, WORDS, vector))
        position += len(text)
    return "".join(texts), chunks


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

    def longest(self) -> str:
        self._answers.send(None)
        return f"{1e3 * self._answers.recv():.0f} ms"

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def row(name: str, value: str) -> None:
    print(f"| {name:<62} | {value:>24} |", flush=True)


def percentiles(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{1e3 * ordered[len(ordered) // 2]:.1f} / {1e3 * ordered[int(len(ordered) * 0.95)]:.1f} ms"


async def timed(times: list[float], call: Awaitable[object]) -> None:
    begin = time.perf_counter()
    await call
    times.append(time.perf_counter() - begin)


async def longest_command(store: Store) -> str:
    events = {name: longest for name, _, _, longest, *_ in await store.connection.read("LATENCY", "LATEST")}
    await store.connection.write("LATENCY", "RESET")
    return f"{events.get(b'command', 0)} ms"


async def processor_time(store: Store) -> float:
    """Return the seconds that the server's main thread has worked, which no neighbour on the machine can stretch."""
    lines = (await store.connection.read("INFO", "cpu")).decode().split()
    figures = dict(line.split(":") for line in lines if ":" in line)
    return float(figures["used_cpu_user_main_thread"]) + float(figures["used_cpu_sys_main_thread"])


async def fill(store: Store, watcher: Watcher, total: int) -> None:
    space = store.workspace("default")
    ready = [passages(BATCH) for _ in range(20)]
    watcher.longest()
    await trio.sleep(3)
    row("longest read of another client while nothing is written", watcher.longest())
    await store.connection.write("CONFIG", "SET", "latency-monitor-threshold", 1)
    begin = time.perf_counter()
    for number, (text, chunks) in enumerate(ready):
        await space.add(memory(text, number), chunks)
    rate = BATCH * len(ready) / (time.perf_counter() - begin)
    row(f"ingest, memories of {BATCH} chunks, one after the other", f"{rate:.0f} chunks/s")
    row("  longest read of another client meanwhile", watcher.longest())
    row("  longest transaction, as the server measures it", await longest_command(store))
    text, chunks = passages(2000)
    watcher.longest()
    begin = time.perf_counter()
    await space.add(memory(text, 0), chunks)
    row("ingest, one memory of 2,000 chunks", f"{2000 / (time.perf_counter() - begin):.0f} chunks/s")
    row("  longest read of another client meanwhile", watcher.longest())
    row("  longest transaction, as the server measures it", await longest_command(store))
    times: list[float] = []
    for number in range(200):
        text, chunks = passages(1)
        await timed(times, space.add(memory(text, number), chunks))
    row("add of one chunk, p50 / p95", percentiles(times))
    watcher.longest()
    while (held := (await space.info()).chunks) < total:
        text, chunks = passages(min(BATCH, total - held))
        await space.add(memory(text, held), chunks)
    ready = [passages(BATCH) for _ in range(10)]
    used, begin = await processor_time(store), time.perf_counter()
    for number, (text, chunks) in enumerate(ready):
        await space.add(memory(text, number), chunks)
    rate = BATCH * len(ready) / (time.perf_counter() - begin)
    busy = (await processor_time(store) - used) / len(ready) / 2
    row(f"ingest at {total:,} chunks", f"{rate:.0f} chunks/s")
    row("  processor time of a transaction of 50 chunks in the server", f"{1e3 * busy:.0f} ms")
    row(f"  longest read of another client, up to {total:,} chunks", watcher.longest())
    row("  longest transaction, as the server measures it", await longest_command(store))


async def search(store: Store) -> None:
    space = store.workspace("default")
    cases = {
        "": Filters(),
        ", a filter that leaves 10 %": Filters(tags=("tenth3",)),
        ", 0.5 %": Filters(tags=("rare3",)),
    }
    for name, filters in cases.items():
        words: list[float] = []
        vectors: list[float] = []
        for _ in range(100):
            terms = {f"w{rank}": 1.0 for rank in np.minimum(RNG.zipf(1.3, size=6) + 3, VOCABULARY).tolist()}
            await timed(words, space.search_words(terms, count=200, filters=filters))
            vector = (CENTRES[RNG.integers(0, 200)] + RNG.normal(size=MODEL.dimension) * 0.8).astype(np.float32)
            await timed(vectors, space.search_vectors(vector, MODEL, count=100, filters=filters))
        row(f"search by words{name}, p50 / p95", percentiles(words))
        row(f"search by vectors{name}, p50 / p95", percentiles(vectors))


async def wait_for_the_end(directory: Path) -> None:
    """Wait until the server has compacted its log and is gone."""
    lock = reaper.open_lock(directory / "store", reaper.SERVER)
    while not reaper.try_lock(lock, fcntl.LOCK_EX):  # noqa: ASYNC110 - it is another process that is waited for
        await trio.sleep(0.05)
    os.close(lock)


async def main(total: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        settings = Settings(data_dir=directory, store_linger=0.0)
        print(f"| {'store of ' + format(total, ',') + ' chunks':<62} | {'':>24} |\n|{'-' * 64}|{'-' * 26}|")
        async with open_store(settings) as store:
            await store.workspace("default").info()
            watcher = Watcher(directory)
            await fill(store, watcher, total)
            await search(store)
            watcher.end()
            figures = await store.workspace("default").statistics()
            sizes = f"{figures.bytes_in_memory / total / 1e3:.1f} / {figures.bytes_on_disk / total / 1e3:.1f} kB"
            row("memory / disk, per chunk", sizes)
        await wait_for_the_end(directory)
        begin = time.perf_counter()
        async with open_store(settings) as store:
            space = store.workspace("default")
            assert len((await space.search_words({"w5": 1.0}, count=10)).numbers) == 10
            row("cold start to the first search by words", f"{time.perf_counter() - begin:.2f} s")
            found = await space.search_vectors(CENTRES[0], MODEL, count=10)
            assert len(await space.passages(found.numbers)) == 10
            row("cold start to the first search by vectors, with its passages", f"{time.perf_counter() - begin:.2f} s")
            text, chunks = passages(1)
            await space.add(memory(text, 0), chunks)
            row("cold start to the first durable add", f"{time.perf_counter() - begin:.2f} s")
        await wait_for_the_end(directory)


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
