"""How quick the engine is, as one table: ``python -m bench.engine [passages ...] [--large CHARACTERS]``.

Texts are made of invented words with a natural distribution. Everything is durable when it counts. What the engine
adds to a search is measured in the same run: the store is asked the same two questions by itself.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import trio

from zapomni.config import Settings
from zapomni.embed import open_embedder
from zapomni.engine import MemoryEngine, open_engine
from zapomni.models import EmbeddingModel, Filters
from zapomni.store.store import open_store
from zapomni.terms import K1, B, query_terms

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from zapomni.embed import Embedder
    from zapomni.store.workspace import Workspace

VOCABULARY = 30_000
PER_MEMORY = 40_000  # characters of the memories that fill a workspace; about fifty passages
ROUNDS = 60
RNG = np.random.default_rng(7)


def _word(number: int) -> str:
    syllables = ("ka", "ro", "mi", "sel", "dan", "pu", "tor", "ve", "lin", "gu", "sha", "ber", "no", "fi", "zam", "ho")
    return syllables[number % 16] + syllables[number // 16 % 16] + (_word(number // 256 - 1) if number >= 256 else "")


WORDS = [_word(number) for number in range(VOCABULARY)]


def text_of(characters: int) -> str:
    """Return sentences and paragraphs of about so many characters."""
    ranks = np.minimum(RNG.zipf(1.25, size=characters // 5), VOCABULARY) - 1
    words = [WORDS[rank] for rank in ranks.tolist()]
    sentences = [" ".join(words[start : start + 14]).capitalize() + "." for start in range(0, len(words), 14)]
    paragraphs = [" ".join(sentences[start : start + 6]) for start in range(0, len(sentences), 6)]
    return "\n\n".join(paragraphs)[:characters]


def query() -> str:
    return " ".join(WORDS[rank] for rank in np.minimum(RNG.zipf(1.25, size=6) + 20, VOCABULARY - 1).tolist())


class Times(list[float]):
    """Durations in seconds."""

    @contextmanager
    def one(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.append(time.perf_counter() - begin)

    def at(self, share: float) -> float:
        return sorted(self)[min(int(len(self) * share), len(self) - 1)] * 1000

    def __str__(self) -> str:
        return f"{self.at(0.5):.1f} / {self.at(0.95):.1f} ms"


def row(name: str, value: object) -> None:
    print(f"| {name:<58} | {value!s:>24} |", flush=True)


async def fill(engine: MemoryEngine, passages: int) -> None:
    number = 0
    while (await engine.get_stats()).total_chunks < passages:
        number += 1
        metadata = {"tags": ["all", f"tenth{number % 10}"], "source": f"source{number % 50}"}
        await engine.add_memory(text_of(PER_MEMORY), metadata)


async def measure_adds(engine: MemoryEngine) -> None:
    times, replacing = Times(), Times()
    for number in range(ROUNDS):
        with times.one():
            await engine.add_memory(text_of(1000), {"source": f"source{number % 50}", "tags": ["small"]})
    row("add 1 KB, durable, p50 / p95", times)
    for _ in range(ROUNDS // 2):
        with replacing.one():
            await engine.add_memory(text_of(1000), key="same")
    row("replace 1 KB by its key, p50 / p95", replacing)


async def measure_searches(engine: MemoryEngine, space: Workspace, embedder: Embedder) -> None:
    model = EmbeddingModel(embedder.name, embedder.dimension)
    for name, filters in (("", Filters()), (", a filter that leaves 10 %", Filters(tags=("tenth3",)))):
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
            row("embed a query, p50 / p95", embedding)
        row(f"search{name}, p50 / p95", whole)
        row("  the store's own part, asked alone, p50 / p95", alone)
        row("  what the engine adds, p50", f"{whole.at(0.5) - alone.at(0.5):.1f} ms")


async def _words(space: Workspace, terms: dict[str, float], filters: Filters) -> None:
    await space.search_words(terms, count=200, filters=filters, k1=K1, b=B)


async def measure_large(engine: MemoryEngine, characters: int) -> None:
    """Add one large text, and call other operations all the time meanwhile."""
    text = text_of(characters)
    gaps, last = Times(), time.perf_counter()
    answers: dict[str, Times] = {"search": Times(), "add 1 KB": Times(), "list": Times()}

    async def progress(done: float, total: float | None, message: str | None) -> None:
        nonlocal last
        now = time.perf_counter()
        gaps.append(now - last)
        last = now

    async def call(times: Times, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            with times.one():
                await ask()
            await trio.sleep(0.1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, answers["search"], lambda: engine.search_memory(query()))
        nursery.start_soon(call, answers["add 1 KB"], lambda: engine.add_memory(text_of(1000)))
        nursery.start_soon(call, answers["list"], lambda: engine.list_memories(limit=10))
        begin = last = time.perf_counter()
        receipt = await engine.add_memory(text, progress=progress)
        whole = time.perf_counter() - begin
        nursery.cancel_scope.cancel()
    row(f"add {characters:,} characters, {receipt.chunks_created:,} passages", f"{whole:.1f} s")
    row("  longest time without a report of progress", f"{gaps.at(1):.0f} ms")
    for name, times in answers.items():
        row(f"  {name} meanwhile, p50 / p95", times)
        row(f"  {name} meanwhile, longest", f"{times.at(1):.0f} ms")


async def main(sizes: Sequence[int], large: int) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        settings = Settings(data_dir=Path(directory), store_linger=0.0)
        print(f"| {'engine':<58} | {'':>24} |\n|{'-' * 60}|{'-' * 26}|")
        async with open_engine(settings) as engine, open_store(settings) as store, open_embedder(settings) as embedder:
            with (started := Times()).one():
                await engine.ready()
            row("ready: the store started, the model loaded", f"{started.at(0):.0f} ms")
            await embedder.ready()
            for size in sizes:
                await fill(engine, size)
                row(f"{size:,} passages", "")
                await measure_adds(engine)
                await measure_searches(engine, store.workspace("default"), embedder)
            if large:
                await measure_large(engine, large)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure how quick the engine is.")
    parser.add_argument("passages", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--large", type=int, default=10_000_000, help="characters of one large text; 0 leaves it out")
    options = parser.parse_args()
    trio.run(main, options.passages, min(options.large, math.floor(1e7)))
