"""Making a workspace, and bringing one of an earlier schema up to date.

There are range indices on what names a node, and nothing else: they are all that the server builds when it starts.
Above all there is no constraint: a server that loads its append-only file writes each one into the file again, in the
background, also for a graph that the same file removes further on; the next server crashes where it reads that, and so
does every one after it. Two memories of one id are kept apart by the cards, which every write watches.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING

import attrs

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


async def prepare(space: Space, *, create: bool = False) -> bool:
    """Bring a workspace to this schema, once for each process; return whether it was made.

    Raises `NotFoundError` when it does not exist, unless it is to be created or is the default one.
    """
    if space.name in space.opened:
        return False
    try:
        current = (await space.about()).schema == SCHEMA
    except NotFoundError:
        current = False  # or a replica has not heard of it yet
    made = not current and await _make(
        attrs.evolve(space, fresh=True), create=create or space.name == DEFAULT_WORKSPACE
    )
    space.opened.add(space.name)
    return made


async def _make(space: Space, *, create: bool) -> bool:
    if not create and (await space.about()).schema == SCHEMA:
        return False
    async with space.upkeep() as token:
        # Only what is seen from here on counts: whoever held the lock may have removed the workspace or made it anew.
        steps: list[str] = []
        try:
            about = await space.about()
        except NotFoundError:
            if not create:
                raise
            if await space.read("EXISTS", space.keys.about):
                await remove(space, token)  # somebody began to remove or to restore it, and did not come to the end
            about = About(0)
            steps = ["incarnation", token_hex(8)]
        if about.schema < SCHEMA:
            # First of all: a workspace that is in no list would be in no backup either.
            await space.connection.write("HSETNX", REGISTRY, space.name, "")
        for number in range(about.schema + 1, SCHEMA + 1):
            await MIGRATIONS[number](space)
            await space.as_keeper(token, [("HSET", space.keys.about, "schema", number, *steps)])
        return about.schema == 0


async def found(space: Space) -> None:
    """Make the graph with its indices; what is there already stays."""
    reply = await space.connection.write(*space.statement("CALL db.indexes() YIELD label RETURN label"))
    indexed = {label for (label,) in rows(reply)}
    for label, field in INDICES:
        if label.encode() not in indexed:
            await space.connection.write(*space.statement(f"CREATE INDEX FOR (n:{label}) ON (n.{field})"))


async def clear(space: Space) -> None:
    """Remove a workspace: nobody can use it from the first step on, whenever the last one comes."""
    space.opened.discard(space.name)
    await space.connection.write("HSET", space.keys.about, "deleting", 1)
    await finish(space)


async def finish(space: Space) -> bool:
    """Come to the end of a removal, or of a restore, that broke off; return whether there was one."""
    async with space.upkeep() as token:
        # Others may have come first with removing it, and made it anew: what is in it now is not ours to remove.
        broken = bool(await space.connection.write("HEXISTS", space.keys.about, "deleting"))
        if broken:
            await remove(space, token)
        return broken


async def remove(space: Space, token: str) -> None:
    """Remove everything of a workspace, what says that it exists last of all; for somebody who holds the upkeep."""
    connection, keys = space.connection, space.keys
    if await connection.write("HEXISTS", keys.counts, "next"):  # something was written there
        space.note_removal()
    generation = int(await connection.write("HGET", keys.about, "generation") or 1)
    cursor = b"0"
    while True:
        cursor, names = await connection.write("SSCAN", keys.index, cursor, "COUNT", STEP)
        await _unlink(space, token, [keys.entry(name.decode("utf-8", "surrogatepass")) for name in names])
        await space.keep_upkeep(token)
        if cursor == b"0":
            break
    sets = [key(number) for number in (generation, generation + 1) for key in (keys.vectors, keys.pending)]
    rest = [*keys.buckets(), *sets, keys.index, keys.hidden, keys.tags, keys.garbage, keys.graph]
    await _unlink(space, token, rest)
    await space.keep_upkeep(token)
    await connection.write("HDEL", REGISTRY, space.name)
    await _unlink(space, token, [keys.counts, keys.about])


async def _unlink(space: Space, token: str, keys: Sequence[str]) -> None:
    for begin in range(0, len(keys), STEP):
        await space.as_keeper(token, [("UNLINK", *keys[begin : begin + STEP])])


MIGRATIONS = {1: found}
