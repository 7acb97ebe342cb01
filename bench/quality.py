"""How good the answers are: recall and ranking on public question sets, against grep, plain BM25 and vectors alone.

The data's folder holds folders with ``corpus.jsonl`` (_id, text, metadata), ``queries.jsonl`` (_id, text, perhaps
category) and ``qrels.tsv``; a folder of numbered folders is searched one by one and reported as one set. Everything
that ranks is the engine's own: passages, terms, vectors and fusion. Only the store is left out, by scoring arrays in
memory; with ``--engine`` the whole engine is asked as well, on a store of its own, which takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import trio

from bench import peers, report
from bench.report import Rows, Times
from zapomni.chunking import chunk
from zapomni.config import load
from zapomni.embed import Embedder, open_embedder
from zapomni.engine import MemoryEngine, open_engine
from zapomni.fusion import Candidate, fuse, vector_weight
from zapomni.models import Passage
from zapomni.terms import K1, B, document_terms, hints, importance, indexed_terms, query_terms, title_of, words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

CANDIDATES = 200
DEPTH = 100
SHOWN = 20  # hits that the engine is asked for
NOW = datetime(2026, 1, 1, tzinfo=UTC)


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
        answers: dict[str, set[str]] = defaultdict(set)
        for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
            question, memory, grade = line.split("\t")
            if int(grade) > 0:
                answers[question].add(memory)
        questions = [
            Question(row["_id"], row["text"], str(row.get("category", "")), frozenset(answers[row["_id"]]))
            for row in _rows(folder / "queries.jsonl")
            if answers[row["_id"]]
        ]
        return cls(folder.name, list(_rows(folder / "corpus.jsonl")), questions)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


class WordIndex:
    """BM25 over bags of terms, as the store's postings compute it."""

    def __init__(self, bags: Iterable[tuple[Mapping[str, int], int]], k1: float, b: float) -> None:
        postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = []
        for number, (bag, length) in enumerate(bags):
            lengths.append(length)
            for term, count in bag.items():
                postings[term].append((number, count))
        self.passages = len(lengths)
        self._lists = {term: np.array(pairs, np.int64).T for term, pairs in postings.items()}
        relative = np.array(lengths, np.float32) / max(float(np.mean(lengths)), 1.0)
        self._norms = k1 * (1 - b + b * relative)

    def frequency(self, term: str) -> int:
        return self._lists[term].shape[1] if term in self._lists else 0

    def scores(self, terms: Mapping[str, float]) -> np.ndarray[Any, np.dtype[np.float32]]:
        scores = np.zeros(self.passages, np.float32)
        for term, weight in terms.items():
            if (held := self.frequency(term)) == 0:
                continue
            numbers, counts = self._lists[term]
            rarity = math.log1p((self.passages - held + 0.5) / (held + 0.5))
            scores[numbers] += weight * rarity * counts / (counts + self._norms[numbers])
        return scores


class Library:
    """A collection as passages with terms and vectors, and four ways to search it."""

    def __init__(self, collection: Collection, embedder: Embedder) -> None:
        self.embedder = embedder
        self.passages: list[Passage] = []
        indexed = []
        last: dict[str, str] = {}
        for memory in collection.memories:
            metadata = memory.get("metadata") or {}
            stamp = metadata.get("timestamp")
            source = metadata.get("source")
            moment = datetime.fromisoformat(stamp).replace(tzinfo=UTC) if stamp else None
            context = last.get(source, "") if source else ""
            for piece in chunk(memory["text"]):
                self.passages.append(
                    Passage(
                        number=len(self.passages),
                        memory_id=memory["_id"],
                        index=piece.index,
                        start=piece.start,
                        end=piece.end,
                        text=piece.text,
                        metadata=metadata,
                        created_at=NOW,
                        timestamp=moment,
                        source=source,
                    )
                )
                title = title_of(memory["text"]) if piece.index > 1 else ""
                indexed.append(
                    indexed_terms(piece.text, context=context, title=title, timestamp=moment, metadata=metadata)
                )
                context = piece.text
            if source:
                last[source] = context
        self.words = WordIndex(((terms.counts, terms.length) for terms in indexed), K1, B)
        texts = [memory["text"] for memory in collection.memories]
        lengths = [sum(len(word.primary) for word in words(text)) for text in texts]
        self.plain = WordIndex(zip(map(document_terms, texts), lengths, strict=True), 0.9, 0.4)
        self._lines = [text.casefold() for text in texts]
        self.memory_ids = [memory["_id"] for memory in collection.memories]
        self.vectors = np.empty((0, 0), np.float32)

    async def embed(self) -> None:
        self.vectors = await self.embedder.embed_documents([passage.text for passage in self.passages])

    async def by_grep(self, query: str) -> list[str]:
        """What looking for each word as letters gives: most words first, then the order of the files."""
        wanted = {word.strip(".,;:!?\"'()").casefold() for word in query.split()} - {""}
        held = np.array([sum(word in line for word in wanted) for line in self._lines], np.float32)
        return [self.memory_ids[number] for number in _best(held, DEPTH)]

    async def by_plain_words(self, query: str) -> list[str]:
        """Plain BM25 over whole memories: nothing but their own words."""
        return [self.memory_ids[number] for number in _best(self.plain.scores(query_terms(query)), DEPTH)]

    async def by_vectors(self, query: str) -> list[str]:
        vector = await self.embedder.embed_query(query, importance=self.importance(query))
        found = (self.passages[number].memory_id for number in _best(self.vectors @ vector, DEPTH * 2))
        return list(dict.fromkeys(found))

    async def by_both(self, query: str) -> list[str]:
        """What the engine does."""
        by_words = self.words.scores(query_terms(query))
        vector = await self.embedder.embed_query(query, importance=self.importance(query))
        cosines = self.vectors @ vector
        numbers = sorted({*_best(by_words, CANDIDATES), *_best(cosines, CANDIDATES)})
        chosen = [self.passages[number] for number in numbers]
        candidates = [
            Candidate(
                number=passage.number,
                memory_id=passage.memory_id,
                moment=passage.timestamp or passage.created_at,
                words=float(by_words[passage.number]),
                cosine=float(cosines[passage.number]),
                hint=hint,
            )
            for passage, hint in zip(chosen, hints(query, chosen), strict=True)
        ]
        weight = vector_weight(self.embedder.weight, query, multilingual=self.embedder.multilingual)
        return [ranked.best.memory_id for ranked in fuse(candidates, weight=weight)]

    def importance(self, query: str) -> dict[str, float]:
        return importance({term: self.words.frequency(term) for term in query_terms(query)}, self.words.passages)


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


def _best(scores: np.ndarray[Any, np.dtype[np.float32]], count: int) -> list[int]:
    order = np.argsort(-scores, kind="stable")[:count]
    return [int(number) for number in order if scores[number] > 0]


def measure(found: Sequence[str], answers: frozenset[str]) -> dict[str, float]:
    """Return the measures of one question's ranking."""
    ranks = [rank for rank, memory in enumerate(found) if memory in answers]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(answers))))
    return {
        **{f"R@{depth}": sum(rank < depth for rank in ranks) / len(answers) for depth in (5, 10, 20)},
        "MRR": 1 / (ranks[0] + 1) if ranks else 0.0,
        "nDCG@10": sum(1 / math.log2(rank + 2) for rank in ranks if rank < 10) / ideal,
    }


def mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def sets_in(data: Path) -> Iterator[tuple[str, list[Path]]]:
    for folder in sorted(path for path in data.iterdir() if path.is_dir()):
        parts = [folder] if (folder / "corpus.jsonl").exists() else sorted(folder.glob("*/"))
        if parts and all((part / "corpus.jsonl").exists() for part in parts):
            yield folder.name, parts


async def measure_set(
    rows: Rows, name: str, parts: Sequence[Path], embedder: Embedder, engine: MemoryEngine | None
) -> None:
    """Ask every question of a set in every way."""
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    times: dict[str, Times] = defaultdict(Times)
    for part in parts:
        collection = Collection.read(part)
        library = Library(collection, embedder)
        await library.embed()
        ways: dict[str, Callable[[str], Awaitable[list[str]]]] = {
            "grep": library.by_grep,
            "plain BM25": library.by_plain_words,
            "vectors": library.by_vectors,
            "both": library.by_both,
        }
        if engine is not None:
            shelf = Shelf(engine, f"{name}-{part.name}")
            await shelf.fill(collection)
            ways["engine"] = shelf.search
        for question in collection.questions:
            for way, search in ways.items():
                with times[way].one():
                    ranking = await search(question.text)
                measured = measure(ranking, question.answers)
                found[way].append(measured)
                if question.category and way in ("both", "engine"):
                    found[f"{way}, category {question.category}"].append(measured)
    for way in sorted(found, key=lambda way: (way.startswith("engine"), way.startswith("both"), way)):
        figures = {figure: round(value, 4) for figure, value in mean(found[way]).items()}
        row = {"set": name, "way": way, "questions": len(found[way]), **figures}
        rows.add(row | ({"p50 ms": statistics.median(times[way])} if way in times else {}))


async def measure_all(rows: Rows, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        flags = {"embedder": options.embedder, "embedding_model": options.model, "data_dir": directory}
        settings = load({**flags, "store_linger": 0}).settings
        async with open_embedder(settings) as embedder, open_engine(settings) as engine:
            for name, parts in sets_in(options.data):
                if options.sets is None or name in options.sets:
                    await measure_set(rows, name, parts, embedder, engine if options.engine else None)
        await trio.to_thread.run_sync(peers.wait_for_the_store_to_end, Path(directory))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of question sets")
    parser.add_argument("--sets", nargs="+", help="only these of its folders")
    parser.add_argument("--embedder", default="bundled", help="what turns text into vectors")
    parser.add_argument("--model", help="the embedder's model, or its folder for onnx")
    parser.add_argument("--engine", action="store_true", help="ask the whole engine on the real store, too")
    options = parser.parse_args(arguments)
    rows = Rows()
    trio.run(measure_all, rows, options)
    if not rows:
        parser.error(f"no question sets in {options.data}")
    report.show("The quality of answers", rows)
    report.save("quality", rows, embedder=options.embedder, model=options.model)
    bars = {f"{row['set']}: {row['way']}": row["nDCG@10"] for row in rows if "category" not in row["way"]}
    report.plot_bars("quality", "The quality of answers", bars, "nDCG@10")


if __name__ == "__main__":
    main(sys.argv[1:])
