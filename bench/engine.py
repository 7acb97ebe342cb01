"""How quick the engine is without the protocol around it, and what it adds to the store's own time.

Everything is durable when it counts. What the engine adds to a search is measured in the same run: the store is asked
the same two questions by itself.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from bench import peers, report
from bench.report import Rows, Times
from bench.texts import FILTERS, fill, query, text_of
from zapomni.cli.serve import SWITCH_SECONDS
from zapomni.config import Settings
from zapomni.embed import open_embedder
from zapomni.engine import MemoryEngine, open_engine
from zapomni.models import EmbeddingModel, Filters
from zapomni.store.store import open_store
from zapomni.terms import K1, B, query_terms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from zapomni.embed import Embedder
    from zapomni.store.workspace import Workspace

ROUNDS = 60
TURNS = 2  # for large texts


async def measure_adds(rows: Rows, passages: int, engine: MemoryEngine) -> None:
    times, replacing = Times(), Times()
    for number in range(ROUNDS):
        with times.one():
            await engine.add_memory(text_of(1000), {"source": f"source{number % 50}", "tags": ["small"]})
    rows.note("add 1 KB, durable", passages=passages, **times.figures())
    for _ in range(ROUNDS // 2):
        with replacing.one():
            await engine.add_memory(text_of(1000), key="same")
    rows.note("replace 1 KB by its key", passages=passages, **replacing.figures())


async def measure_searches(
    rows: Rows, passages: int, engine: MemoryEngine, space: Workspace, embedder: Embedder
) -> None:
    model = EmbeddingModel(embedder.name, embedder.dimension)
    for name, filters in FILTERS.items():
        whole, alone, embedding = Times(), Times(), Times()
        for _ in range(ROUNDS):
            text = query()
            with embedding.one():
                vector = await embedder.embed_query(text)
            terms = query_terms(text)
            with alone.one():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_words, space, terms, filters)
                    await space.search_vectors(vector, model, count=200, filters=filters)
            with whole.one():
                await engine.search_memory(text, filters=filters)
        if not name:
            rows.note("embed a query", passages=passages, **embedding.figures())
        rows.note(f"search{name}", passages=passages, **whole.figures())
        rows.note(f"the store's part of a search{name}", passages=passages, **alone.figures())


async def _words(space: Workspace, terms: dict[str, float], filters: Filters) -> None:
    await space.search_words(terms, count=200, filters=filters, k1=K1, b=B)


@attrs.define
class Meanwhile:
    """What was measured while large texts were added."""

    whole: Times = attrs.field(factory=Times)
    gaps: Times = attrs.field(factory=Times)
    answers: dict[str, Times] = attrs.field(factory=lambda: {"search": Times(), "add 1 KB": Times(), "list": Times()})

    def note(self, rows: Rows, what: str, passages: int) -> None:
        rows.note(f"add {what}", passages=passages, **{"p50 ms": statistics.median(self.whole)})
        rows.note("  longest time without a report of progress", passages=passages, **{"longest ms": max(self.gaps)})
        for name, times in self.answers.items():
            longest = {"longest ms": max(times)} if times else {}  # a text may be too small for any to be answered
            rows.note(f"  {name} meanwhile", passages=passages, calls=len(times), **times.figures(), **longest)


async def measure_large(rows: Rows, engine: MemoryEngine, characters: int) -> None:
    """Add large texts, with the server's interval for switching threads and with Python's own in turns."""
    intervals = (SWITCH_SECONDS, sys.getswitchinterval())
    found = {interval: Meanwhile() for interval in intervals}
    for _ in range(TURNS):
        for interval in intervals:
            sys.setswitchinterval(interval)
            await add_large(engine, characters, found[interval])
    held = (await engine.get_stats()).total_chunks
    for interval, meanwhile in found.items():
        meanwhile.note(rows, f"{characters:,} characters, threads switch after {interval * 1000:g} ms", held)


async def add_large(engine: MemoryEngine, characters: int, found: Meanwhile) -> None:
    """Add one large text, and call other operations all the time meanwhile."""
    text, last = text_of(characters), time.perf_counter()

    async def progress(done: float, total: float | None, message: str | None) -> None:
        nonlocal last
        now = time.perf_counter()
        found.gaps.append((now - last) * 1000)
        last = now

    async def call(times: Times, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            with times.one():
                await ask()
            await trio.sleep(0.1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, found.answers["search"], lambda: engine.search_memory(query()))
        nursery.start_soon(call, found.answers["add 1 KB"], lambda: engine.add_memory(text_of(1000)))
        nursery.start_soon(call, found.answers["list"], lambda: engine.list_memories(limit=10))
        last = time.perf_counter()
        with found.whole.one():
            await engine.add_memory(text, progress=progress)
        found.gaps.append((time.perf_counter() - last) * 1000)
        nursery.cancel_scope.cancel()


async def measure(rows: Rows, data: Path, sizes: Sequence[int], large: int) -> None:
    settings = Settings(data_dir=data, store_linger=0.0)
    async with open_engine(settings) as engine, open_store(settings) as store, open_embedder(settings) as embedder:
        with (started := Times()).one():
            await engine.ready()
        rows.note("ready: the store started, the model loaded", passages=0, **{"p50 ms": started[0]})
        await embedder.ready()
        for size in sizes:
            await fill(engine, size)
            await measure_adds(rows, size, engine)
            await measure_searches(rows, size, engine, store.workspace("default"), embedder)
        if large:
            await measure_large(rows, engine, large)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench engine", description=__doc__)
    parser.add_argument("passages", type=int, nargs="*", default=[1_000, 10_000], help="sizes to measure at")
    parser.add_argument("--large", type=int, default=5_000_000, help="characters of the large texts; 0 leaves them out")
    options = parser.parse_args(arguments)
    rows = Rows()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        data = Path(directory)
        trio.run(measure, rows, data, options.passages, min(options.large, 10_000_000))
        peers.wait_for_the_store_to_end(data)
    name = report.name_of(parser, options)
    report.show("The engine by itself", rows)
    report.save(name, rows)
    largest = max(options.passages)
    bars = {row["what"]: row["p50 ms"] for row in rows if row["passages"] == largest and "p50 ms" in row}
    report.plot_bars(name, f"The engine at {largest:,} passages, p50", bars, "ms")
