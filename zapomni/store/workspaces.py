"""Making, listing and removing workspaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.errors import NotFoundError
from zapomni.models import DEFAULT_WORKSPACE
from zapomni.store import statistics
from zapomni.store.names import REGISTRY
from zapomni.store.schema import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zapomni.models import WorkspaceInfo
    from zapomni.store.space import Space
    from zapomni.store.store import Store

STEP = 500  # keys, at once


async def create(space: Space) -> bool:
    """Make a workspace; return whether it is new."""
    record = await space.connection.read("HMGET", space.keys.about, "schema", "deleting")
    if record[1] is not None:
        await _clear(space)  # somebody began to remove it and did not come to the end
    await prepare(space, create=True)
    return record[0] is None or record[1] is not None


async def every(store: Store) -> tuple[WorkspaceInfo, ...]:
    """Return all workspaces with what is in them."""
    names = {name.decode() for name in await store.connection.read("HKEYS", REGISTRY)} | {DEFAULT_WORKSPACE}
    found = []
    for name in sorted(names):
        try:
            found.append(await store.workspace(name).info())
        except NotFoundError:  # removed meanwhile
            continue
    return tuple(found)


async def delete(space: Space) -> WorkspaceInfo:
    """Remove a workspace; nobody can use it from the first step on, whenever the last one comes."""
    await prepare(space)
    held = await statistics.info(space)
    await space.connection.write("HSET", space.keys.about, "deleting", 1)
    await _clear(space)
    return held


async def _clear(space: Space) -> None:
    connection, keys = space.connection, space.keys
    space.opened.discard(space.name)
    async with space.upkeep():
        generation = int(await connection.read("HGET", keys.about, "generation") or 1)
        cursor = b"0"
        while True:
            cursor, names = await connection.read("SSCAN", keys.index, cursor, "COUNT", STEP)
            await _unlink(space, [keys.entry(name.decode()) for name in names])
            await space.keep_upkeep()
            if cursor == b"0":
                break
        sets = [key(g) for g in (generation, generation + 1) for key in (keys.vectors, keys.pending)]
        await _unlink(space, [*keys.buckets(), *sets, keys.index, keys.hidden, keys.tags, keys.garbage, keys.graph])
        await connection.write("HDEL", REGISTRY, space.name)
        await _unlink(space, [keys.counts, keys.about])


async def _unlink(space: Space, keys: Sequence[str]) -> None:
    for begin in range(0, len(keys), STEP):
        await space.connection.write("UNLINK", *keys[begin : begin + STEP])
