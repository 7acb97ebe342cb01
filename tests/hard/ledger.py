"""What was promised, kept apart from whoever promised it.

Every memory of the suite begins with a word that no other has. The ledger knows by this word what was sent, what of it
was acknowledged, and under which id; at the end it compares every promise with what the store holds.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import numpy as np

from zapomni.errors import DatabaseError, NotFoundError
from zapomni.store.cypher import rows
from zapomni.store.names import Keys

if TYPE_CHECKING:
    from zapomni.engine import MemoryEngine
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace


@attrs.define
class Entry:
    """A memory as its writer knows it. What was sent and not answered may have happened, or not."""

    sent: list[str]
    """Its text, and then the texts of its updates, in the order in which they were sent."""
    memory_id: str | None = None
    """Once it was acknowledged."""
    acknowledged: set[int] = attrs.field(factory=set)
    """Which of the texts were."""
    renamed: str | None = None
    """Another id that was told later."""
    deletions: int = 0
    """How often it was asked for."""
    deleted: bool = False

    def acknowledge(self, memory_id: str, text: str) -> None:
        if self.memory_id not in (None, memory_id):
            self.renamed = memory_id
        self.memory_id = memory_id
        self.acknowledged.add(self.sent.index(text))

    @property
    def is_promised(self) -> bool:
        return self.memory_id is not None and not self.deletions

    @property
    def is_settled(self) -> bool:
        """Whether the text that was sent last was acknowledged, so that there can be no other."""
        return len(self.sent) - 1 in self.acknowledged

    def broken(self, held: dict[str, str]) -> str | None:
        """Return how the promise was broken, given the texts of all copies in the store by their ids."""
        possible = self.sent[max(self.acknowledged, default=0) :]
        if self.renamed is not None:
            return f"was acknowledged under two ids, one of which is {self.renamed}"
        if len(held) > 1:
            return f"is there {len(held)} times"
        if any(text not in possible for text in held.values()):
            return "is not what was written last"
        if self.deleted and held:
            return "was deleted and is still there"
        if self.is_promised and list(held) != [self.memory_id]:
            return f"was acknowledged as {self.memory_id} and is lost"
        return None

    def has_lived(self, versions: list[str]) -> bool:
        """Tell whether these can be all texts that it had: what was acknowledged, in order, and nothing twice."""
        places = [self.sent.index(text) if text in self.sent else -1 for text in versions]
        in_order = all(earlier < later for earlier, later in pairwise(places))
        return places[:1] == [0] and in_order and self.acknowledged <= set(places)


@attrs.define
class Ledger:
    entries: dict[str, Entry] = attrs.field(factory=dict)
    """By their words."""

    def add(self, word: str, text: str) -> Entry:
        self.entries[word] = Entry([text])
        return self.entries[word]

    def promised(self) -> list[str]:
        return [word for word, entry in self.entries.items() if entry.is_promised]

    async def violations(self, engine: MemoryEngine) -> list[str]:
        """Return every broken promise: something lost, half there, there twice, altered, or back from the dead."""
        held: dict[str, dict[str, str]] = {}
        for memory_id, text in (await _everything(engine)).items():
            held.setdefault(text.split()[0], {})[memory_id] = text
        wrong = [f"{word} was never sent: {held[word]}"[:200] for word in held if word not in self.entries]
        for word, entry in self.entries.items():
            if broken := entry.broken(held.get(word, {})):
                wrong.append(f"{word} {broken}")
            for memory_id, text in held.get(word, {}).items():
                versions = [*(memory.text for memory in reversed(await engine.history(memory_id))), text]
                if not entry.has_lived(versions):
                    begun = [version[:60] for version in versions]
                    wrong.append(f"{word} has another history than was written: {begun} of {entry!r:.2000}")
        return wrong

    async def unfindable(self, engine: MemoryEngine) -> list[str]:
        """Return the words of promised memories that a search for the first or the last word does not find."""
        missed = []
        for word in self.promised():
            entry = self.entries[word]
            for asked in (word, *([entry.sent[-1].split()[-1]] if entry.is_settled else [])):
                found = await engine.search_memory(asked, limit=3)
                if entry.memory_id not in {hit.memory_id for hit in found.hits}:
                    missed.append(f"{word} by {asked}")
        return missed


async def halves(workspace: Workspace) -> list[str]:
    """Return the memories that lack one of their passages, or a passage its vector."""
    found: list[str] = []
    model = await workspace.model()
    assert model is not None
    any_vector = np.full(model.dimension, model.dimension**-0.5, np.float32)
    cursor: str | None = None
    while True:
        page = await workspace.list(limit=200, cursor=cursor)
        for summary in page.memories:
            numbers = await workspace.numbers(summary.id)
            passages = await workspace.passages(numbers)
            scores = await workspace.similarities(any_vector, model, list(numbers))
            if not [passage.number for passage in passages] == sorted(scores.numbers) == list(numbers):
                found.append(f"{summary.id} is half there: {len(passages)}, {len(scores.numbers)} of {len(numbers)}")
        cursor = page.cursor
        if cursor is None:
            return found


ORPHANS = {
    "a draft that no sweep removes": "MATCH (d:Draft) RETURN count(d)",
    "a passage of no memory": """
        MATCH (c:Chunk) OPTIONAL MATCH (m)-[:HAS_CHUNK]->(c) WITH c, m WHERE m IS NULL RETURN count(c)
    """,
    "a version of no memory": """
        MATCH (v:Version) OPTIONAL MATCH (m)-[:REPLACES]->(v) WITH v, m WHERE m IS NULL RETURN count(v)
    """,
    "a memory that lacks passages": """
        MATCH (m) WHERE m:Memory OR m:Version OR m:Trash
        OPTIONAL MATCH (m)-[:HAS_CHUNK]->(c) WITH m, count(c) AS held WHERE held <> m.count RETURN count(m)
    """,
}


async def orphans(store: Store) -> list[str]:
    """Return what writers that were killed have left that nobody sees, and that is not cleared away.

    Those who might still be writing are known to be dead, so their leases need not run out first.
    """
    keys, found = Keys("default"), []

    async def ask(query: str) -> list[list[int]]:
        return rows(await store.connection.read("GRAPH.RO_QUERY", keys.graph, query))

    for (first,) in await ask("MATCH (d:Draft) RETURN d.first"):
        await store.connection.write("DEL", keys.lease(first))
    await store.workspace("default").sweep()
    for what, query in ORPHANS.items():
        ((count,),) = await ask(query)
        if count:
            found.append(f"there is {what}, {count} times")
    ((memories, chunks),) = await ask("MATCH (m:Memory) RETURN count(m), sum(m.count)")
    counted = await store.connection.read("HMGET", keys.counts, "memories", "chunks")
    if [memories, int(chunks)] != [int(count) for count in counted]:
        found.append(f"{memories} memories of {chunks} passages are counted as {counted}")
    return found


async def _everything(engine: MemoryEngine) -> dict[str, str]:
    held: dict[str, str] = {}
    cursor: str | None = None
    while True:
        page = await engine.list_memories(limit=200, cursor=cursor)
        for summary in page.memories:
            try:
                held[summary.id] = (await engine.get_memory(summary.id)).text
            except (NotFoundError, DatabaseError) as error:
                held[summary.id] = f"(listed, and not to be read: {error})"
        cursor = page.cursor
        if cursor is None:
            return held
