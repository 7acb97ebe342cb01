"""How much is stored, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from zapomni.models import Filters, Statistics, WorkspaceInfo
from zapomni.store import facets
from zapomni.store.arrays import compute
from zapomni.store.values import moment

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from zapomni.store.space import Space


async def info(space: Space) -> WorkspaceInfo:
    """Return how much is in a workspace."""
    return await counted(space, (await space.about()).generation)


async def counted(space: Space, generation: int = 1) -> WorkspaceInfo:
    """Return how much is in a workspace, though it may be half removed."""
    counts, pending = await space.read_all(
        [
            ("HMGET", space.keys.counts, "memories", "chunks", "trashed"),
            ("ZCARD", space.keys.pending(generation)),
        ]
    )
    memories, chunks, trashed = (int(count or 0) for count in counts)
    return WorkspaceInfo(space.name, memories, chunks, trashed, pending)


async def tags(space: Space) -> dict[str, int]:
    """Return every tag in use, most used first."""
    about, reply = await space.read_all([("HGETALL", space.keys.about), ("HGETALL", space.keys.tags)])
    space.parse_about(about)
    found = {tag.decode(): int(count) for tag, count in zip(reply[::2], reply[1::2], strict=True)}
    return {tag: count for tag, count in sorted(found.items(), key=lambda item: (-item[1], item[0])) if count > 0}


async def statistics(space: Space) -> Statistics:
    """Return what is in a workspace, and what the whole store costs."""
    about, own = await space.about(), await info(space)
    (hidden, data), memory, persistence = await space.read_all(
        [
            ("MGET", space.keys.hidden, space.keys.entry(facets.EVERY)),
            ("INFO", "memory"),
            ("INFO", "persistence"),
        ]
    )

    def ends() -> tuple[datetime, datetime] | tuple[None, None]:
        created = facets.visible(facets.select([[data]], Filters()), hidden)["created"]
        return (moment(int(created.min())), moment(int(created.max()))) if len(created) else (None, None)

    oldest, newest = await compute(ends, [hidden, data])
    directory = space.connection.directory
    return Statistics(
        workspace=space.name,
        total_memories=own.memories,
        total_chunks=own.chunks,
        bytes_in_memory=_figure(memory, b"used_memory"),
        bytes_on_disk=(
            _figure(persistence, b"aof_current_size")
            if directory is None
            else await trio.to_thread.run_sync(_size, directory)
        ),
        oldest=oldest,
        newest=newest,
        embedding_model="" if about.model is None else about.model.name,
        embedding_dimension=0 if about.model is None else about.model.dimension,
    )


def _figure(reply: bytes, name: bytes) -> int:
    lines = dict(line.split(b":", 1) for line in reply.splitlines() if b":" in line)
    return int(lines.get(name, 0))


def _size(directory: Path) -> int:
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.lstat().st_size
        except FileNotFoundError:  # the server replaces its files as it likes
            continue
    return total
