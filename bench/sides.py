"""The two sides of ``bench/indices.py``: a graph with FalkorDB's own indices, and a workspace of Zapomni's store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import trio

from bench import report
from bench.store import MODEL, memory
from zapomni.errors import DatabaseError
from zapomni.models import Filters, NewChunk
from zapomni.store.cypher import render
from zapomni.store.cypher import rows as rows_of
from zapomni.store.names import Keys
from zapomni.store.writing import BATCH
from zapomni.terms import K1, B, indexed_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bench.report import Rows, Times
    from zapomni.store.connection import Connection
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

THEIRS, OURS = "FalkorDB", "Zapomni"
GRAPH = "passages"
FIRST = 1  # the number that Zapomni gives to the first passage of a workspace
WANTED = 10
SCALE = 10_000  # whole numbers are read faster, and a cosine knows no scale
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


async def outcome(work: Callable[[], Any]) -> str:
    """Tell what comes of a search: how many rows, or an error."""
    try:
        return f"{len(await work())} found"
    except DatabaseError:
        return "an error"
