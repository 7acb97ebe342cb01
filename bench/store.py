"""What the store can do, as one table: ``python -m bench.store [chunks]``.

Passages are random words with a natural distribution; vectors lie in clusters. Everything is durable when it counts
(`appendfsync always`). The last rows measure a cold start of the directory that the first rows filled.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import trio

from zapomni.config import Settings
from zapomni.models import EmbeddingModel, Filters, NewChunk, NewMemory
from zapomni.store.store import Store, open_store

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


async def watch(store: Store, pauses: list[float]) -> None:
    """Read all the time, and note how long each read took."""
    while True:
        begin = time.perf_counter()
        await store.connection.read("GET", "{zapomni:default}:hidden")
        pauses.append(time.perf_counter() - begin)
        await trio.sleep(0.002)


def row(name: str, value: str) -> None:
    print(f"| {name:<62} | {value:>24} |", flush=True)


def percentiles(times: list[float]) -> str:
    ordered = sorted(times)
    return f"{1e3 * ordered[len(ordered) // 2]:.1f} / {1e3 * ordered[int(len(ordered) * 0.95)]:.1f} ms"


async def timed(times: list[float], call: object) -> None:
    begin = time.perf_counter()
    await call  # type: ignore[misc]
    times.append(time.perf_counter() - begin)


async def fill(store: Store, reader: Store, total: int) -> None:
    space, pauses = store.workspace("default"), list[float]()
    await space.info()
    ready = [passages(BATCH) for _ in range(10)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, reader, pauses)
        begin = time.perf_counter()
        for number, (text, chunks) in enumerate(ready):
            await space.add(memory(text, number), chunks)
        row(
            f"ingest, one memory of {BATCH} chunks after the other",
            f"{BATCH * 10 / (time.perf_counter() - begin):.0f} chunks/s",
        )
        row("  longest wait of another client's read", f"{1e3 * max(pauses):.0f} ms")
        pauses.clear()
        text, chunks = passages(2000)
        begin = time.perf_counter()
        await space.add(memory(text, 0), chunks)
        row("ingest, one memory of 2,000 chunks", f"{2000 / (time.perf_counter() - begin):.0f} chunks/s")
        row("  longest wait of another client's read", f"{1e3 * max(pauses):.0f} ms")
        times: list[float] = []
        for number in range(200):
            text, chunks = passages(1)
            await timed(times, space.add(memory(text, number), chunks))
        row("add of one chunk, p50 / p95", percentiles(times))
        pauses.clear()
        while (held := (await space.info()).chunks) < total:
            text, chunks = passages(min(BATCH, total - held))
            await space.add(memory(text, held), chunks)
        row(f"  longest wait of another client's read, up to {total:,} chunks", f"{1e3 * max(pauses):.0f} ms")
        nursery.cancel_scope.cancel()


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


async def main(total: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(data_dir=Path(directory), store_linger=0.0)
        print(f"| {'store of ' + format(total, ',') + ' chunks':<62} | {'':>24} |\n|{'-' * 64}|{'-' * 26}|")
        async with open_store(settings) as store, open_store(settings) as reader:
            await fill(store, reader, total)
            await search(store)
            figures = await store.workspace("default").statistics()
            row(
                "memory / disk, per chunk",
                f"{figures.bytes_in_memory / total / 1e3:.1f} / {figures.bytes_on_disk / total / 1e3:.1f} kB",
            )
        await trio.sleep(3)  # the server compacts its log and ends
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


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
