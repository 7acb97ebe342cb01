"""What was promised, kept apart from whoever promised it.

A text is in one of three states: it was sent and nothing is known of it, it was acknowledged under an id, or it was
acknowledged as deleted. At the end every promise is compared with what the store holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from zapomni.errors import NotFoundError

if TYPE_CHECKING:
    from zapomni.engine import MemoryEngine


@attrs.define
class Ledger:
    sent: dict[str, str] = attrs.field(factory=dict)
    """By its unique word, every text that anybody has tried to store."""
    acknowledged: dict[str, str] = attrs.field(factory=dict)
    """By its unique word, the id of every text that was acknowledged."""
    deleting: set[str] = attrs.field(factory=set)
    """Words whose deletion was asked for; whether it happened is unknown until it is acknowledged."""
    deleted: set[str] = attrs.field(factory=set)

    async def violations(self, engine: MemoryEngine) -> list[str]:
        """Return every broken promise: something lost, half there, there twice, altered, or back from the dead."""
        held = await _everything(engine)
        wrong = [
            f"{memory_id} was never sent: {text[:60]!r}" for memory_id, text in held.items() if not self._knows(text)
        ]
        by_word: dict[str, list[str]] = {}
        for memory_id, text in held.items():
            by_word.setdefault(text.split()[0], []).append(memory_id)
        wrong += [f"{word} is there {len(ids)} times" for word, ids in by_word.items() if len(ids) > 1]
        for word, memory_id in self.acknowledged.items():
            if word in self.deleting:
                continue
            if held.get(memory_id) != self.sent[word]:
                wrong.append(f"{word} was acknowledged as {memory_id} and is lost or altered")
        wrong += [f"{word} was deleted and is still there" for word in self.deleted if word in by_word]
        return wrong

    async def unfindable(self, engine: MemoryEngine, sample: int) -> list[str]:
        """Return the words, of a sample of those acknowledged, that a search does not find."""
        kept = [word for word in self.acknowledged if word not in self.deleting]
        missed = []
        for word in kept[:: max(1, len(kept) // sample)]:
            found = await engine.search_memory(word, limit=3)
            if self.acknowledged[word] not in {hit.memory_id for hit in found.hits}:
                missed.append(word)
        return missed

    def _knows(self, text: str) -> bool:
        return self.sent.get(text.split()[0]) == text


async def _everything(engine: MemoryEngine) -> dict[str, str]:
    held: dict[str, str] = {}
    cursor: str | None = None
    while True:
        page = await engine.list_memories(limit=200, cursor=cursor)
        for summary in page.memories:
            try:
                held[summary.id] = (await engine.get_memory(summary.id)).text
            except NotFoundError:
                held[summary.id] = "(listed, and not there)"
        cursor = page.cursor
        if cursor is None:
            return held
