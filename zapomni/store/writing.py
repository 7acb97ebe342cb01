"""Writing memories.

A memory becomes visible in one transaction with everything that finds it. A small one is written in that transaction;
a large one as a draft before it, in batches that leave other clients room: its chunks are hidden, its node is no
memory yet, and a lease says that somebody is writing. The draft of a writer that died is swept later.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.errors import DatabaseError, NotFoundError, OutdatedError, ValidationError, ZapomniError
from zapomni.models import MemoryResult, preview_of
from zapomni.store import facets, postings
from zapomni.store.cards import (
    CLEAR,
    Card,
    content_hash,
    count_in,
    forget_hash,
    hide,
    keep_hash,
    put_card,
    read_card,
    read_holders,
)
from zapomni.store.failures import Lost
from zapomni.store.names import digest, term_name
from zapomni.store.publication import GO_LAST, TAKE_PLACE, publish
from zapomni.store.reindexing import FOLLOW
from zapomni.store.space import CLEANUP_SECONDS
from zapomni.store.upkeep import discard_range, drop_draft
from zapomni.store.values import MOST_CHUNKS, check_chunks, check_memory, micros, to_json
from zapomni.store.vectors import STEP, lack, put_vectors, remove_vectors, steps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from zapomni.models import NewChunk, NewMemory
    from zapomni.store.connection import Reader
    from zapomni.store.space import About, Space
    from zapomni.store.wire import Command

BATCH = 50  # chunks; other clients wait while the server takes so many vectors in
LEASE_SECONDS = 120

BEGIN = "CREATE (:Draft {first: $first, count: $count})"
APPEND = """
MATCH (d:Draft {first: $first})
UNWIND range(0, size($texts) - 1) AS i
CREATE (d)-[:HAS_CHUNK]->
       (:Chunk {number: $number + i, index: $index + i, start: $starts[i], end: $ends[i], text: $texts[i]})
"""
WITHDRAW = "MATCH (m:Memory {id: $id}) WHERE m.first = $first SET m:Draft REMOVE m:Memory"


@attrs.frozen
class Outcome:
    """What a write comes to, in view of what is there already."""

    memory_id: str
    old: Card | None = None
    """The version that becomes history."""
    same: bool = False
    """Nothing is to be written."""


class Draft:
    """A memory on its way in: `append` its chunks in order, then `publish`.

    Nobody sees anything of it before. Between two calls at most two minutes may pass.
    """

    def __init__(self, space: Space, memory: NewMemory, total: int, *, update: bool = False) -> None:
        check_memory(memory)
        if not 1 <= total <= MOST_CHUNKS:
            raise ValidationError(f"a memory has 1 to {MOST_CHUNKS:,} passages")
        self._space = space
        self._memory = memory
        self._metadata = to_json(memory.metadata)
        self._total = total
        self._update = update
        self._first = 0
        self._incarnation = ""
        self._written = 0
        self._end = 0
        self._words = 0
        self._sent = False
        """Some of it may be in the store, should the answer have been lost."""
        self._begun = False
        self._about: About | None = None
        self._sets: frozenset[int] = frozenset()

    async def append(self, chunks: Sequence[NewChunk]) -> None:
        """Write some chunks as a batch of their own; raises `ValidationError`, `ConfigError`, `DatabaseError`."""
        self._check(chunks)
        await self._allocate()
        self._sent = True
        await self._space.connection.optimistic(
            [self._space.keys.about, self._lease], lambda reader: self._batch(reader, chunks, hidden=True)
        )
        self._begun = True
        assert self._about is not None
        self._sets = frozenset(self._about.sets)
        self._advance(chunks)

    async def publish(self, rest: Sequence[NewChunk] = ()) -> MemoryResult:
        """Write the rest of the chunks and make the memory visible; it is durable when this returns."""
        end = self._check(rest)
        if self._written + len(rest) != self._total or end < len(self._memory.text):
            raise ValidationError("the passages do not cover the whole text")
        outcome = await self._foresee() if rest and (self._update or self._memory.key is not None) else None
        if outcome is not None and outcome.same:
            return self._receipt(outcome)
        if outcome is not None and outcome.old is not None:
            # What the server refuses of a transaction does not undo the rest of it, so all that is large comes before
            # the version that is there becomes history.
            await self.append(rest)
            rest = ()
        await self._allocate()

        def attempt(reader: Reader) -> list[Command]:
            nonlocal outcome
            about, outcome = self._look(reader)
            if outcome.same:
                return []
            batch = self._batch(reader, rest, hidden=False, about=about)
            return [*batch, *self._publication(reader, about, outcome, self._words + sum(c.length for c in rest))]

        try:
            await self._space.connection.optimistic(self._watched(), attempt)
        except Lost:
            raise  # the whole of it may have run
        except DatabaseError:
            # Should it fail, too, what went wrong first is what the caller has to know.
            with trio.move_on_after(CLEANUP_SECONDS, shield=True), suppress(ZapomniError):
                await self._take_back(self._memory.id if outcome is None else outcome.memory_id)
            raise
        assert outcome is not None
        if outcome.same:
            await self.discard()
        self._sent = False
        if outcome.old is not None and not outcome.same and self._about is not None:
            for step in steps(outcome.old.numbers) if outcome.old.count > STEP else ():
                await self._space.within(self._incarnation, remove_vectors(self._space.keys, self._about, step))
        return self._receipt(outcome)

    def _receipt(self, outcome: Outcome) -> MemoryResult:
        replaced = outcome.old is not None and not outcome.same
        return MemoryResult(
            outcome.memory_id, self._total, preview_of(self._memory.text), duplicate=outcome.same, replaced=replaced
        )

    async def _take_back(self, memory_id: str) -> None:
        """Remove a new memory of which some commands failed, since the server does not undo the others.

        Else its card would be left, which calls the same memory a duplicate of what is not there. A new version stays,
        and is the same as nothing, so that writing it again mends it.
        """
        space, keys = self._space, self._space.keys

        def attempt(reader: Reader) -> list[Command]:
            about, card = space.watched_about(reader), read_card(reader, keys, memory_id)
            self._check_incarnation(about)
            if card is None or card.first != self._first:
                return []
            if card.version > 1:
                return put_card(keys, memory_id, attrs.evolve(card, fingerprint=""))
            commands = [
                ("HDEL", keys.cards(memory_id), memory_id),
                *forget_hash(reader, keys, memory_id, card),
                *count_in(keys, card, -1),
                *discard_range(keys, about, card.numbers),
                ("DEL", self._lease),
                space.statement(WITHDRAW, id=memory_id, first=card.first),
            ]
            return commands if card.key is None else [*commands, ("HDEL", keys.names(card.key), card.key)]

        if await space.connection.optimistic([*self._watched(), keys.cards(memory_id)], attempt):
            self._sent = False
            await drop_draft(space, self._numbers)

    async def discard(self) -> None:
        """Leave nothing behind; after `publish` it does nothing."""
        if self._sent:
            self._sent = False
            await drop_draft(self._space, self._numbers, writer=self._incarnation)

    async def seen(self) -> MemoryResult | None:
        """Return the receipt at once when nothing would be written; others may still come first later."""
        outcome = await self._foresee()
        return self._receipt(outcome) if outcome.same else None

    async def _foresee(self) -> Outcome:
        """Return what the write would come to now; others may still come first later."""
        outcome: Outcome | None = None

        def attempt(reader: Reader) -> list[Command]:
            nonlocal outcome
            _, outcome = self._look(reader)
            return []

        await self._space.connection.optimistic(self._watched(), attempt)
        assert outcome is not None
        return outcome

    @property
    def _numbers(self) -> range:
        return range(self._first, self._first + self._total)

    @property
    def _lease(self) -> str:
        return self._space.keys.lease(self._first)

    def _check(self, chunks: Sequence[NewChunk]) -> int:
        if self._written + len(chunks) > self._total:
            raise ValidationError("there are more passages than announced")
        return check_chunks(self._memory, chunks, self._end)

    def _advance(self, chunks: Sequence[NewChunk]) -> None:
        self._written += len(chunks)
        self._end = chunks[-1].end if chunks else self._end
        self._words += sum(chunk.length for chunk in chunks)

    async def _allocate(self) -> None:
        """Take numbers for all chunks at once, so that they follow each other.

        They are good for as long as the workspace is not removed: the next of its name gives the same out again.
        """
        if not self._first:
            keys = self._space.keys
            about, last = await self._space.connection.transaction(
                [("HGETALL", keys.about), ("HINCRBY", keys.counts, "next", self._total)]
            )
            self._incarnation = self._space.parse_about(about).incarnation
            self._first = last - self._total + 1

    def _check_incarnation(self, about: About) -> None:
        if self._first and about.incarnation != self._incarnation:
            raise DatabaseError(f"workspace {self._space.name!r} was emptied during the write; try again")

    def _batch(
        self, reader: Reader, chunks: Sequence[NewChunk], *, hidden: bool, about: About | None = None
    ) -> list[Command]:
        space, keys, number = self._space, self._space.keys, self._first + self._written
        self._about = about = about or space.watched_about(reader)
        self._check_incarnation(about)
        commands: list[Command] = []
        if not self._begun:
            commands.append(space.statement(BEGIN, first=self._first, count=self._total))
            if hidden:
                commands.append(hide(keys, self._numbers))
        elif reader("GET", self._lease) != b"writing":
            raise DatabaseError("writing took so long that the draft was given up")
        if hidden:
            commands.append(("SET", self._lease, "writing", "EX", LEASE_SECONDS))
        if self._begun:  # a vector set that has come since the last batch lacks all of the draft
            commands += (
                lack(keys.pending(generation), range(self._first, number))
                for generation in about.sets
                if generation not in self._sets
            )
        if not chunks:
            return commands
        commands.append(
            space.statement(
                APPEND,
                first=self._first,
                number=number,
                index=self._written,
                starts=[chunk.start for chunk in chunks],
                ends=[chunk.end for chunk in chunks],
                texts=[self._memory.text[chunk.start : chunk.end] for chunk in chunks],
            )
        )
        commands += put_vectors(keys, about, self._memory, [(number + i, chunk) for i, chunk in enumerate(chunks)])
        gains = postings.encode((number + i, chunk.terms, chunk.length) for i, chunk in enumerate(chunks))
        names = {term: term_name(term) for term in gains}
        commands += (("APPEND", keys.entry(names[term]), bytes(gain)) for term, gain in gains.items())
        if names:
            commands.append(("SADD", keys.index, *names.values()))
        return commands

    def _watched(self) -> list[str]:
        keys = self._space.keys
        return [keys.about, keys.cards(self._memory.id), self._twin[0], self._lease]

    @property
    def _twin(self) -> tuple[str, str]:
        """Where to look for a memory that is the same, by its key or else by its text."""
        memory, keys, text = self._memory, self._space.keys, content_hash(self._memory.text)
        return (keys.hashes(text), text) if memory.key is None else (keys.names(memory.key), memory.key)

    def _look(self, reader: Reader) -> tuple[About, Outcome]:
        """Find out what this write comes to; everything read here is watched."""
        memory, keys = self._memory, self._space.keys
        record, own, twin = reader.all(
            [("HGETALL", keys.about), ("HGET", keys.cards(memory.id), memory.id), ("HGET", *self._twin)]
        )
        about = self._space.parse_about(record)
        self._check_incarnation(about)
        return about, self._decide(reader, Card.load(own), twin)

    def _decide(self, reader: Reader, own: Card | None, twin: bytes | None) -> Outcome:
        memory = self._memory
        if self._update:
            if own is None or own.deleted:
                raise NotFoundError(f"there is no memory {memory.id}")
            if memory.expected_version not in (None, own.version):
                raise OutdatedError(f"memory {memory.id} was changed by somebody else at the same time; try again")
            same = own.fingerprint == self._fingerprint(own.key) and not memory.distinct
            return Outcome(memory.id, own, same=same)
        if own is not None and own.deleted:
            raise ValidationError(f"memory {memory.id} is in the trash: restore it, or use another id")
        if own is not None:
            return Outcome(memory.id, same=True)
        if twin is None or (memory.key is None and memory.distinct):
            return Outcome(memory.id)
        if memory.key is None:
            return Outcome(read_holders(twin)[0], same=True)
        # The key decides what a memory is; the same text under another key is another memory.
        old = read_card(reader, self._space.keys, twin.decode())
        assert old is not None, "a key belongs to a memory"
        return Outcome(twin.decode(), old, same=old.fingerprint == self._fingerprint(memory.key))

    def _fingerprint(self, key: str | None) -> str:
        memory = self._memory
        timestamp = "" if memory.timestamp is None else str(micros(memory.timestamp))
        return digest(memory.text, self._metadata, timestamp, memory.source or "", key or "", *memory.tags)

    def _publication(self, reader: Reader, about: About, outcome: Outcome, words: int) -> list[Command]:
        space, keys, memory, old = self._space, self._space.keys, self._memory, outcome.old
        key = memory.key if old is None else old.key
        now = micros(memory.created_at)
        card = Card(
            first=self._first,
            count=self._total,
            length=words,
            version=1 if old is None else old.version + 1,
            hash=content_hash(memory.text),
            fingerprint=self._fingerprint(key),
            created=now if old is None else old.created,
            tags=tuple(dict.fromkeys(memory.tags)),
            source=memory.source,
            key=key,
        )
        timestamp = None if memory.timestamp is None else micros(memory.timestamp)
        memory_id, updated = outcome.memory_id, None if old is None else now
        commands = publish(space, memory_id, card, self._metadata, len(memory.text), updated, timestamp)
        if old is not None and old.source == memory.source:
            commands += (space.statement(query, id=memory_id) for query in TAKE_PLACE)
        elif memory.source is not None:
            commands.append(space.statement(GO_LAST, id=memory_id, source=memory.source))
        if memory.after is not None:
            commands.append(space.statement(FOLLOW, first=card.first, after=memory.after))
        if old is not None:
            commands += count_in(keys, old, -1)
            if old.hash != card.hash:
                commands += forget_hash(reader, keys, memory_id, old)
            commands += discard_range(keys, about, old.numbers)
        names = facets.names(card.tags, memory.source, memory.metadata)
        record = facets.encode(card.first, card.count, card.created if timestamp is None else timestamp, card.created)
        commands += (("APPEND", keys.entry(name), record) for name in names)
        commands.append(("SADD", keys.index, *names))
        commands += put_card(keys, memory_id, card)
        commands += keep_hash(reader, keys, memory_id, card)
        commands += count_in(keys, card, 1)
        if self._begun:
            commands += [hide(keys, card.numbers, CLEAR), ("DEL", self._lease)]
        return commands


@asynccontextmanager
async def open_draft(space: Space, memory: NewMemory, total: int, *, update: bool = False) -> AsyncIterator[Draft]:
    """Open a draft that leaves nothing unless it is published; cancelled while that is sent, it may have been."""
    draft = Draft(space, memory, total, update=update)
    try:
        yield draft
    finally:
        # Should it fail, somebody sweeps the draft later; what went wrong before is what the caller has to know.
        with trio.move_on_after(CLEANUP_SECONDS, shield=True), suppress(ZapomniError):
            await draft.discard()


async def add(space: Space, memory: NewMemory, chunks: Sequence[NewChunk], *, update: bool = False) -> MemoryResult:
    """Store a memory, in batches where it is large; cancelled, it leaves nothing or, at the very end, all of it."""
    async with open_draft(space, memory, len(chunks), update=update) as draft:
        if len(chunks) > BATCH and (receipt := await draft.seen()) is not None:
            return receipt
        for begin in range(0, len(chunks) - BATCH, BATCH):
            await draft.append(chunks[begin : begin + BATCH])
        return await draft.publish(chunks[max(0, len(chunks) - 1) // BATCH * BATCH :])
