"""Memories out of the store and in again, with everything that they are: ids, keys, times and history.

A memory that comes with its id is brought in as it was, version by version. What is here already stays as it is:
importing the same again changes nothing, and goes on where it was interrupted.
"""

from __future__ import annotations

import json
import uuid
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.engine.adding import new_memory
from zapomni.errors import NotFoundError, OutdatedError
from zapomni.store.values import check_memory, to_json
from zapomni.team import open_team
from zapomni.transfer import Record, Version

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
    from datetime import datetime

    from zapomni.engine.adding import Writer
    from zapomni.models import Memory, NewMemory
    from zapomni.store.workspace import Workspace

PAGE = 500
TOGETHER = 8  # memories that are read at the same time
CHARACTERS = 1_000_000  # of their texts


class Outcome(StrEnum):
    """What an import came to, or would come to."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@attrs.frozen
class Imported:
    """The receipt for one record."""

    outcome: Outcome
    memory_id: str | None = None
    reason: str = ""
    """Why it was refused, in words for whoever asked."""
    held: int = 0
    """Versions that are here already, where an import was interrupted between two."""


async def export(workspace: Workspace) -> AsyncGenerator[Record]:
    """Yield all memories, the one stored first at first; what is deleted meanwhile is left out.

    Ids are held for all of them, texts for a few at a time.
    """
    order: list[tuple[datetime, str, int]] = []
    cursor: str | None = None
    while True:
        page = await workspace.list(limit=PAGE, cursor=cursor)
        order += ((memory.created_at, memory.id, memory.length) for memory in page.memories)
        cursor = page.cursor
        if cursor is None:
            break
    order.sort()
    for group in _groups(order):
        records: dict[str, Record] = {}

        async def read(memory_id: str, records: dict[str, Record] = records) -> None:
            try:
                records[memory_id] = await _record(workspace, memory_id)
            except NotFoundError:
                return

        async with open_team() as team:
            for memory_id in group:
                team.start_soon(read, memory_id)
        for memory_id in group:
            if memory_id in records:
                yield records[memory_id]


def _groups(order: Sequence[tuple[datetime, str, int]]) -> Iterator[list[str]]:
    group: list[str] = []
    room = CHARACTERS
    for _, memory_id, length in order:
        if group and (len(group) == TOGETHER or length > room):
            yield group
            group, room = [], CHARACTERS
        group.append(memory_id)
        room -= length
    if group:
        yield group


async def _record(workspace: Workspace, memory_id: str) -> Record:
    memory = await workspace.get(memory_id)
    # Somebody may have changed it between the two reads.
    history = [
        old
        for old in (await workspace.history(memory_id) if memory.version > 1 else ())
        if old.version < memory.version
    ]
    return Record(
        text=memory.text,
        metadata=memory.metadata,
        id=memory.id,
        key=memory.key,
        workspace=workspace.name,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
        version=memory.version,
        history=tuple(
            Version(
                version=old.version,
                text=old.text,
                metadata=old.metadata,
                created_at=old.updated_at or old.created_at,
            )
            for old in reversed(history)
        ),
    )


@attrs.frozen
class Importer:
    """Brings records into a workspace."""

    writer: Writer

    async def judge(self, record: Record) -> Imported:
        """Tell what importing a record would come to, and write nothing. Raises `ValidationError`."""
        for memory in _versions(record):
            check_memory(memory)
            to_json(memory.metadata)
        try:
            return await self._judge(record)
        except NotFoundError:  # the workspace is still to be made, or the memory went this very moment
            return Imported(Outcome.ADDED)

    async def bring_in(self, record: Record) -> Imported:
        """Import a record; it is durable when this returns. Raises `ValidationError`, `EmbeddingError`.

        Raises `OutdatedError` where others keep changing the same memory.
        """
        versions = _versions(record)
        for _ in range(len(versions) + 2):  # whoever is quicker has written one of them, or what is not touched
            judged = await self.judge(record)
            if judged.outcome in (Outcome.UNCHANGED, Outcome.REFUSED):
                return judged
            if (written := await self._write(versions, judged)) is not None:
                return written
        raise OutdatedError(f"memory {versions[-1].id} is being changed by others all the time; try again")

    async def _write(self, versions: Sequence[NewMemory], judged: Imported) -> Imported | None:
        """Write the versions that are not here; None when somebody was quicker, so that it has to be judged again."""
        held, outcome = judged.held, judged.outcome
        for memory in versions[held:]:
            if held:
                try:
                    receipt = await self.writer.change(attrs.evolve(memory, expected_version=held))
                except (OutdatedError, NotFoundError):
                    return None
            else:
                receipt = await self.writer.write(memory)
                if receipt.duplicate:
                    return None
                outcome = Outcome.UPDATED if receipt.replaced else Outcome.ADDED
            held += 1
        return attrs.evolve(judged, outcome=outcome, memory_id=receipt.memory_id)

    async def _judge(self, record: Record) -> Imported:
        workspace = self.writer.workspace
        if record.id is not None and (here := await self._get(record.id)) is not None:
            return _compared(record, here)
        if record.key is not None and (holder := await workspace.find_key(record.key)) is not None:
            if _same(record, await workspace.get(holder)):
                return Imported(Outcome.UNCHANGED, holder)
            if record.id is not None:
                return Imported(Outcome.REFUSED, holder, f"its key belongs to another memory here, {holder}")
            return Imported(Outcome.UPDATED, holder)
        if record.id is None and record.key is None and (twin := await workspace.find_text(record.text)) is not None:
            return Imported(Outcome.UNCHANGED, twin)
        return Imported(Outcome.ADDED)

    async def _get(self, memory_id: str) -> Memory | None:
        try:
            return await self.writer.workspace.get(memory_id, trashed=True)
        except NotFoundError:
            return None


def _versions(record: Record) -> list[NewMemory]:
    """Return what is to be written, the oldest first."""
    earlier = record.history if record.id is not None else ()
    versions = [(old.text, old.metadata, old.created_at) for old in earlier]
    versions.append((record.text, record.metadata, record.updated_at))
    text, metadata, stored_at = versions[0]
    versions[0] = text, metadata, record.created_at or stored_at
    memory_id = record.id or str(uuid.uuid4())
    distinct = record.id is not None  # it is known by its id, whatever else has the same text
    return [
        new_memory(memory_id, text, metadata, key=record.key, stored_at=stored_at, distinct=distinct)
        for text, metadata, stored_at in versions
    ]


def _compared(record: Record, here: Memory) -> Imported:
    if here.deleted_at is not None:
        return Imported(Outcome.REFUSED, here.id, "it was deleted here, and can be restored")
    if _same(record, here):
        return Imported(Outcome.UNCHANGED, here.id)
    if here.version <= len(record.history) and _same(record.history[here.version - 1], here):
        return Imported(Outcome.UPDATED, here.id, held=here.version)
    return Imported(Outcome.REFUSED, here.id, "it was changed here, and stays as it is here")


def _same(there: Record | Version, here: Memory) -> bool:
    return there.text == here.text and _canonical(there.metadata) == _canonical(here.metadata)


def _canonical(metadata: Mapping[str, Any]) -> str:
    """As text, where unlike among values 1 is neither 1.0 nor true."""
    return json.dumps(metadata, sort_keys=True)
