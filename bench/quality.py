"""How good the answers are: recall and ranking on public question sets, against grep, plain BM25 and vectors alone.

The data's folder holds folders with ``corpus.jsonl`` (_id, text, metadata), ``queries.jsonl`` (_id, text, perhaps
category) and ``qrels.tsv``; a folder of numbered folders is searched one by one and reported as one set. The ranking
is the engine's own over arrays in memory (``bench/steps.py``). With ``--engine`` the whole engine is asked as well, on
a store of its own, which takes some minutes; with ``--steps`` the ranking is compared with what it would be without
each of its steps.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio

from bench import peers, report
from bench.report import Rows, Times
from bench.steps import BOTH, Library
from zapomni.config import Settings, load
from zapomni.embed import Embedder, open_embedder
from zapomni.engine import MemoryEngine, open_engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench.steps import Search

SHOWN = 20  # hits that the engine is asked for, and that count in every way


@attrs.frozen
class Question:
    id: str
    text: str
    category: str
    answers: frozenset[str]


@attrs.frozen
class Collection:
    """A corpus and its questions."""

    name: str
    memories: Sequence[Mapping[str, Any]]
    questions: Sequence[Question]

    @classmethod
    def read(cls, folder: Path) -> Collection:
        memories = list(_rows(folder / "corpus.jsonl"))
        held = {memory["_id"] for memory in memories}
        answers: dict[str, set[str]] = defaultdict(set)
        for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            question, memory, grade = line.split("\t")
            if int(grade) > 0 and memory in held:  # nothing can find what is not there
                answers[question].add(memory)
        questions = [
            Question(row["_id"], row["text"], str(row.get("category", "")), frozenset(answers[row["_id"]]))
            for row in _rows(folder / "queries.jsonl")
            if answers[row["_id"]]
        ]
        return cls(folder.name, memories, questions)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


class Shelf:
    """A collection in a workspace of the engine, on the real store."""

    def __init__(self, engine: MemoryEngine, workspace: str) -> None:
        self.engine = engine
        self.workspace = workspace
        self._names: dict[str, str] = {}

    async def fill(self, collection: Collection) -> None:
        await self.engine.create_workspace(self.workspace)
        for memory in collection.memories:
            name = memory["_id"]  # as a key, so that equal texts stay two memories
            metadata = memory.get("metadata") or {}
            receipt = await self.engine.add_memory(memory["text"], metadata, workspace=self.workspace, key=name)
            self._names[receipt.memory_id] = name

    async def search(self, query: str) -> list[str]:
        result = await self.engine.search_memory(query, limit=SHOWN, workspace=self.workspace)
        return [self._names[hit.memory_id] for hit in result.hits]


def measure(found: Sequence[str], answers: frozenset[str]) -> dict[str, float]:
    """Return the measures of one question's ranking."""
    ranks = [rank for rank, memory in enumerate(found) if memory in answers]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(answers))))
    return {
        **{f"R@{depth}": sum(rank < depth for rank in ranks) / len(answers) for depth in (5, 10, 20)},
        "MRR": 1 / (ranks[0] + 1) if ranks else 0.0,
        "nDCG@10": sum(1 / math.log2(rank + 2) for rank in ranks if rank < 10) / ideal,
    }


def sets_in(data: Path) -> Iterator[tuple[str, list[Path]]]:
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        parts = [folder] if (folder / "corpus.jsonl").exists() else sorted(folder.glob("*/"))
        if parts and all((part / "corpus.jsonl").exists() for part in parts):
            yield folder.name, parts


@attrs.frozen
class Asked:
    """One question, asked in one way."""

    way: str
    category: str
    figures: Mapping[str, float]
    milliseconds: float


def by_way(asked: Iterable[Asked], *, categories: bool = True) -> dict[tuple[str, str], list[Asked]]:
    """Sort what was asked by way and category; under the category "all" is everything."""
    found: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    for one in asked:
        found[one.way, "all"].append(one)
        if categories and one.category:
            found[one.way, one.category].append(one)
    ways = list(dict.fromkeys(way for way, _ in found))
    order = sorted(found, key=lambda key: (ways.index(key[0]), key[1] != "all", key[1]))
    return {key: found[key] for key in order}


def means(asked: Sequence[Asked]) -> dict[str, float]:
    return {name: round(statistics.fmean(one.figures[name] for one in asked), 4) for name in asked[0].figures}


def difference(asked: Sequence[Asked], whole: Sequence[Asked], figure: str) -> tuple[float, float]:
    """Return how far a measure is above that of the whole ranking, and half of the 95 % interval of that.

    Both were asked the same questions in the same order, so it is the differences that have a mean and an error.
    """
    pairs = zip(asked, whole, strict=True)
    apart = [one.figures[figure] - other.figures[figure] for one, other in pairs]
    error = statistics.stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    return statistics.fmean(apart), 1.96 * error


async def ask(ways: Mapping[str, Search], questions: Iterable[Question]) -> list[Asked]:
    """Ask every question in every way, in turns."""
    asked = []
    for question in questions:
        for way, search in ways.items():
            times = Times()
            with times.one():
                found = await search(question.text)
            asked.append(Asked(way, question.category, measure(found[:SHOWN], question.answers), times[0]))
    return asked


@attrs.frozen
class Bench:
    """What every set is asked with."""

    settings: Settings
    embedder: Embedder
    engine: MemoryEngine | None
    """None, where only the ranking in memory is asked."""
    steps: bool

    async def ask_set(self, name: str, parts: Sequence[Path]) -> list[Asked]:
        asked = []
        for part in parts:
            collection = Collection.read(part)
            library = Library(collection.memories, self.embedder, self.settings)
            ways = library.steps if self.steps else library.ways
            if self.engine is not None:
                shelf = Shelf(self.engine, f"{name}-{part.name}")
                await shelf.fill(collection)
                ways["engine"] = shelf.search
            asked += await ask(ways, collection.questions)
        return asked


def rows_of_ways(name: str, asked: Iterable[Asked]) -> Iterator[dict[str, Any]]:
    """Tell what every way reaches, and how long a query takes."""
    for (way, category), part in by_way(asked).items():
        median = statistics.median(one.milliseconds for one in part)
        row = {"set": name, "way": way, "category": category, "questions": len(part)}
        yield row | means(part) | {"p50 ms": median}


def rows_of_steps(name: str, asked: Iterable[Asked]) -> Iterator[dict[str, Any]]:
    """Tell how far the ranking by other steps is above or below the whole one."""
    found = by_way(asked, categories=False)
    for (way, _), part in found.items():
        row = {"set": name, "way": way, "questions": len(part), **means(part)}
        for figure in ("R@10", "nDCG@10"):
            apart, error = difference(part, found[BOTH, "all"], figure)
            row[f"{figure} against both"] = f"{apart:+.3f} ± {error:.3f}" if way != BOTH else ""
        yield row


async def measure_all(rows: Rows, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        flags = {name: getattr(options, name) for name in ("embedder", "embedding_model", "chunk_tokens")}
        settings = load({**flags, "data_dir": directory, "store_linger": 0}).settings
        async with open_embedder(settings) as embedder, open_engine(settings) as engine:
            bench = Bench(settings, embedder, engine if options.engine else None, options.steps)
            for name, parts in sets_in(options.data):
                if options.sets is None or name in options.sets:
                    asked = await bench.ask_set(name, parts)
                    for row in (rows_of_steps if options.steps else rows_of_ways)(name, asked):
                        rows.add(row)
        await trio.to_thread.run_sync(peers.wait_for_the_store_to_end, Path(directory))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of question sets")
    parser.add_argument("--sets", nargs="+", help="only these of its folders")
    parser.add_argument("--embedder", default="bundled", help="what turns text into vectors")
    parser.add_argument("--model", dest="embedding_model", help="the embedder's model, or its folder for onnx")
    parser.add_argument("--chunk-tokens", type=int, help="how long passages are")
    parser.add_argument("--engine", action="store_true", help="ask the whole engine on the real store, too")
    parser.add_argument("--steps", action="store_true", help="measure what each step of the ranking is worth, instead")
    options = parser.parse_args(arguments)
    rows = Rows()
    trio.run(measure_all, rows, options)
    if not rows:
        parser.error(f"no question sets in {options.data}")
    title = "What each step is worth" if options.steps else "The quality of answers"
    name = report.name_of(parser, options)
    report.show(title, rows)
    report.save(name, rows, **{key: str(value) for key, value in vars(options).items() if value not in (None, False)})
    bars = {f"{row['set']}: {row['way']}": row["nDCG@10"] for row in rows if row.get("category", "all") == "all"}
    report.plot_bars(name, title, bars, "nDCG@10")
