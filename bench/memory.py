"""Remembering and finding through real server processes: sizes of texts, sizes of stores, filters, many clients.

Every figure is taken at the client's end of the pipe. The two sides of a search, words and vectors, are also asked of
the store alone, beside what one would do without an index: compare every vector, and read every text, in one process
that has them all in memory. At the end stands how each grows: the exponent of the power of the size that fits best,
where 1 is in step with the size and 0 not at all, and that of the last step alone, which tells whether it bends.

The disk is told twice: as it was, with whatever the append-only file had not been rid of yet, and compacted.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import trio

from bench import peers, report
from bench.report import Rows, Times
from bench.texts import FILTERS, PER_MEMORY, RNG, fill, query, text_of
from zapomni.config import Settings
from zapomni.embed import open_embedder
from zapomni.engine import MemoryEngine, open_engine
from zapomni.models import EmbeddingModel, Filters, Statistics
from zapomni.store.store import Store, open_store
from zapomni.terms import K1, B, query_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zapomni.embed import Embedder
    from zapomni.store.workspace import Workspace

TEXTS = {"short": 80, "1 KB": 1_000, "100 KB": 100_000, "10 MB": 10_000_000}
SMALL = 1_000  # characters; larger texts would change the size that is measured
BOOK = 1_000_000
ADDS = 100  # of a text, at the most
LONG = 10_000_000  # characters from which an add reports its progress
DRAWN = ("search", "words alone", "vectors alone")


@attrs.frozen
class Plan:
    """What is to be measured."""

    sizes: Sequence[int]
    clients: Sequence[int]
    rounds: int
    largest_text: int


def measure_adds(rows: Rows, chunks: int, server: peers.Peer, plan: Plan, longest: int) -> None:
    for name, characters in TEXTS.items():
        if characters > longest:
            continue
        times = Times()
        reports: list[dict[str, Any]] | None = [] if characters >= LONG else None
        for _ in range(max(1, min(plan.rounds, ADDS, 1_000_000 // characters))):
            text = text_of(characters)
            with times.one():
                server.call("add_memory", {"text": text}, reports)
        cells = {} if reports is None else {"reports": len(reports)}
        rows.note(f"add, {name}", chunks=chunks, clients=1, calls=len(times), **times.figures(), **cells)


def measure_searches(rows: Rows, chunks: int, servers: Sequence[peers.Peer], plan: Plan) -> None:
    """Search through all servers at once, each driven by a thread that only waits for its pipe."""

    def work(server: peers.Peer, questions: Sequence[str], filters: Filters) -> Times:
        times = Times()
        tags = {"tags": filters.tags} if filters.tags else {}
        for question in questions:
            with times.one():
                server.call("search_memory", {"query": question, **tags})
        return times

    for name, filters in FILTERS.items():
        questions = [[query() for _ in range(plan.rounds)] for _ in servers]
        with ThreadPoolExecutor(len(servers)) as threads:
            begin = time.perf_counter()
            found = list(threads.map(work, servers, questions, [filters] * len(servers)))
            passed = time.perf_counter() - begin
        times = Times(duration for part in found for duration in part)
        cells = {**times.figures(), "calls/s": len(times) / passed}
        rows.note(f"search{name}", chunks=chunks, clients=len(servers), calls=len(times), **cells)


async def measure_sides(rows: Rows, chunks: int, space: Workspace, embedder: Embedder, plan: Plan) -> None:
    """Ask the store by itself for what a search needs of words and of vectors."""
    model = EmbeddingModel(embedder.name, embedder.dimension)
    for name, filters in FILTERS.items():
        words, vectors = Times(), Times()
        for _ in range(plan.rounds):
            text = query()
            terms, vector = query_terms(text), await embedder.embed_query(text)
            with words.one():
                await space.search_words(terms, count=200, filters=filters, k1=K1, b=B)
            with vectors.one():
                await space.search_vectors(vector, model, count=200, filters=filters)
        rows.note(f"words alone{name}", chunks=chunks, calls=len(words), **words.figures())
        rows.note(f"vectors alone{name}", chunks=chunks, calls=len(vectors), **vectors.figures())


def measure_scans(rows: Rows, chunks: int, dimension: int, plan: Plan) -> None:
    """Do without the store: compare every vector with a query's, and count its words in every text."""
    vectors = RNG.standard_normal((chunks, dimension), np.float32)
    texts = [text_of(PER_MEMORY // 7) for _ in range(chunks)]  # about as long as the store's passages
    comparing, reading = Times(), Times()
    for _ in range(min(plan.rounds, 20)):
        vector, words = RNG.standard_normal(dimension, np.float32), query().split()
        with comparing.one():
            scores = vectors @ vector
            np.argpartition(-scores, min(200, chunks - 1))
        with reading.one():
            heapq.nlargest(200, (sum(word in text for word in words) for text in texts))
    rows.note("instead: every vector compared", chunks=chunks, calls=len(comparing), **comparing.figures())
    rows.note("instead: every text read", chunks=chunks, calls=len(reading), **reading.figures())


def start_servers(data: Path, count: int) -> list[peers.Peer]:
    """Start servers and let each search a few times, because the first searches wait for the model and its pages."""
    servers = [peers.Peer.start(peers.ours(data)) for _ in range(count)]
    for server in servers:
        server.initialize()
        for _ in range(10):
            server.call("search_memory", {"query": query()})
    return servers


def measure_clients(rows: Rows, chunks: int, data: Path, plan: Plan) -> None:
    for count in plan.clients:
        servers = start_servers(data, count)
        measure_searches(rows, chunks, servers, plan)
        for server in servers:
            server.end()


def measure_writer(rows: Rows, chunks: int, data: Path, plan: Plan) -> None:
    """Measure what changes the store; the large texts would change its size, and come at the end."""
    (server,) = start_servers(data, 1)
    measure_adds(rows, chunks, server, plan, min(plan.largest_text, SMALL))
    server.end()


def measure_large_texts(rows: Rows, chunks: int, data: Path, plan: Plan) -> None:
    (server,) = start_servers(data, 1)
    measure_adds(rows, chunks, server, plan, plan.largest_text)
    server.call("create_workspace", {"name": "book"})
    characters = min(BOOK, plan.largest_text)
    server.call("add_memory", {"text": text_of(characters), "workspace": "book"})
    times = Times()
    for _ in range(min(plan.rounds, 20)):
        with times.one():
            server.call("search_memory", {"query": query(), "workspace": "book"})
    rows.note(f"search, one memory of {characters:,} characters", clients=1, calls=len(times), **times.figures())
    server.end()


async def measure(rows: Rows, data: Path, plan: Plan) -> None:
    settings = Settings(data_dir=data, store_linger=0.0)
    async with open_engine(settings) as engine, open_store(settings) as store, open_embedder(settings) as embedder:
        await embedder.ready()
        empty = await engine.get_stats()
        chunks = 0
        for size in plan.sizes:
            await fill(engine, size)
            chunks = (await engine.get_stats()).total_chunks  # whole memories are added, so a few more than asked for
            await trio.to_thread.run_sync(measure_clients, rows, chunks, data, plan)
            await measure_sides(rows, chunks, store.workspace("default"), embedder, plan)
            await trio.to_thread.run_sync(measure_scans, rows, chunks, embedder.dimension, plan)
            await measure_room(rows, empty, engine, store)
            if size != plan.sizes[-1]:
                await trio.to_thread.run_sync(measure_writer, rows, chunks, data, plan)
        await trio.to_thread.run_sync(measure_large_texts, rows, chunks, data, plan)


async def measure_room(rows: Rows, empty: Statistics, engine: MemoryEngine, store: Store) -> None:
    """Note what the chunks take, without what an empty store takes."""
    held = await engine.get_stats()
    await compact(store)
    compacted = await engine.get_stats()
    taken = {
        "memory": held.bytes_in_memory - empty.bytes_in_memory,
        "disk, as it was": held.bytes_on_disk - empty.bytes_on_disk,
        "disk, compacted": compacted.bytes_on_disk - empty.bytes_on_disk,
    }
    for name, size in taken.items():
        rows.note(name, chunks=held.total_chunks, **{"MB": size / 1e6, "bytes a chunk": size / held.total_chunks})


async def compact(store: Store) -> None:
    """Rewrite the append-only file; raises `RuntimeError` if the server could not."""
    await rewritten(store)  # one may be going on by itself, and there can be no second
    await store.connection.write("BGREWRITEAOF")
    if b"aof_last_bgrewrite_status:ok" not in await rewritten(store):
        raise RuntimeError("the append-only file could not be rewritten")


async def rewritten(store: Store) -> bytes:
    """Wait until no rewriting is going on or about to; return what the server then says of its files."""
    while True:
        state: bytes = await store.connection.read("INFO", "persistence")
        if b"aof_rewrite_in_progress:0" in state and b"aof_rewrite_scheduled:0" in state:
            return state
        await trio.sleep(0.05)


def growths(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[float, float]]:
    """Return, for everything that was measured at several sizes with one client, its figure at each."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        if "chunks" in row and row.get("clients", 1) == 1 and (value := row.get("p50 ms", row.get("MB", 0))) > 0:
            found.setdefault(row["what"], {})[row["chunks"]] = value
    return {what: line for what, line in found.items() if len(line) > 1}


def exponents(line: Mapping[float, float]) -> dict[str, float]:
    """Return how something grows over all of its sizes, and over the last two."""
    parts = {"exponent": list(line.items()), "last step": sorted(line.items())[-2:]}
    return {name: round(report.exponent(*zip(*points, strict=True)), 3) for name, points in parts.items()}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench memory", description=__doc__)
    parser.add_argument("--chunks", type=int, nargs="+", default=[1_000, 10_000], help="sizes of the store")
    parser.add_argument("--huge", action="store_true", help="also 100,000 chunks, which takes minutes")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8], help="processes that search at once")
    parser.add_argument("--rounds", type=int, default=200, help="searches that each figure is taken from, per client")
    parser.add_argument("--largest-text", type=int, default=10_000_000, help="leave out texts of more characters")
    options = parser.parse_args(arguments)
    sizes = sorted({*options.chunks, *([100_000] if options.huge else [])})
    plan = Plan(sizes, options.clients, options.rounds, options.largest_text)
    rows = Rows()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        trio.run(measure, rows, Path(directory), plan)
        peers.wait_for_the_store_to_end(Path(directory))
    lines = growths(rows)
    for what, line in lines.items():
        rows.note(f"growth of {what}", **exponents(line))
    name = report.name_of(parser, options)
    report.show("Memories through server processes; growth is the exponent of the size", rows)
    report.save(name, rows, **attrs.asdict(plan))
    drawn = {what: line for what, line in lines.items() if what.startswith(DRAWN)}
    if drawn:
        report.plot_lines(name, "Search by size, one client, p50", drawn, across="chunks", unit="ms")
