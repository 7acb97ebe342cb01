"""Making a workspace, and bringing one of an earlier schema up to date.

There are range indices on what names a node, and nothing else: they are all that the server builds when it starts.
Above all there is no constraint: a server that loads its append-only file writes each one into the file again, in the
background, also for a graph that the same file removes further on; the next server crashes where it reads that, and so
does every one after it. Two memories of one id are kept apart by the cards, which every write watches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.errors import NotFoundError
from zapomni.models import DEFAULT_WORKSPACE
from zapomni.store.cypher import rows
from zapomni.store.names import REGISTRY
from zapomni.store.space import SCHEMA, About

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zapomni.store.space import Space

STEP = 500  # keys that are removed at once
INDICES = (("Memory", "id"), ("Chunk", "number"), ("Source", "name"))


async def prepare(space: Space, *, create: bool = False) -> None:
    """Bring a workspace to this schema, once for each process.

    Raises `NotFoundError` when it does not exist, unless it is to be created or is the default one.
    """
    if space.name in space.opened:
        return
    try:
        about = await space.about()
    except NotFoundError:
        if not create and space.name != DEFAULT_WORKSPACE:
            raise
        if await space.read("EXISTS", space.keys.about):
            await clear(space)  # somebody began to remove or to restore it, and did not come to the end
        about = About(0)
    if about.schema < SCHEMA:
        async with space.upkeep():
            for number in range(about.schema + 1, SCHEMA + 1):
                await MIGRATIONS[number](space)
                await space.connection.write("HSET", space.keys.about, "schema", number)
        await space.connection.write("HSETNX", REGISTRY, space.name, "")
    space.opened.add(space.name)


async def found(space: Space) -> None:
    """Make the graph with its indices; what is there already stays."""
    reply = await space.connection.write(*space.statement("CALL db.indexes() YIELD label RETURN label"))
    indexed = {label for (label,) in rows(reply)}
    for label, field in INDICES:
        if label.encode() not in indexed:
            await space.connection.write(*space.statement(f"CREATE INDEX FOR (n:{label}) ON (n.{field})"))


async def clear(space: Space) -> None:
    """Remove everything of a workspace, what says that it exists last of all."""
    connection, keys = space.connection, space.keys
    space.opened.discard(space.name)
    async with space.upkeep():
        generation = int(await space.read("HGET", keys.about, "generation") or 1)
        cursor = b"0"
        while True:
            cursor, names = await space.read("SSCAN", keys.index, cursor, "COUNT", STEP)
            await _unlink(space, [keys.entry(name.decode()) for name in names])
            await space.keep_upkeep()
            if cursor == b"0":
                break
        sets = [key(number) for number in (generation, generation + 1) for key in (keys.vectors, keys.pending)]
        await _unlink(space, [*keys.buckets(), *sets, keys.index, keys.hidden, keys.tags, keys.garbage, keys.graph])
        await connection.write("HDEL", REGISTRY, space.name)
        await _unlink(space, [keys.counts, keys.about])


async def _unlink(space: Space, keys: Sequence[str]) -> None:
    for begin in range(0, len(keys), STEP):
        await space.connection.write("UNLINK", *keys[begin : begin + STEP])


MIGRATIONS = {1: found}
