"""Making, listing and removing workspaces."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from zapomni.errors import DatabaseError, NotFoundError, ZapomniError
from zapomni.models import DEFAULT_WORKSPACE
from zapomni.store import statistics
from zapomni.store.names import REGISTRY
from zapomni.store.schema import clear, finish, prepare
from zapomni.store.space import CLEANUP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zapomni.models import WorkspaceInfo
    from zapomni.store.connection import Connection
    from zapomni.store.space import Space
    from zapomni.store.store import Store


async def create(space: Space) -> bool:
    """Make a workspace; return whether it is new."""
    space.opened.discard(space.name)  # it may have been removed elsewhere
    return await prepare(space, create=True)


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
    held, broken = await _stock(space)
    await _remove(space, broken=broken)
    if space.name == DEFAULT_WORKSPACE:
        await prepare(space)  # others know that it is always there, and do not look again
    return held


async def empty(space: Space) -> WorkspaceInfo:
    """Remove what is in a workspace and keep the workspace, also when this is cancelled on the way."""
    held, broken = await _stock(space)
    try:
        await _remove(space, broken=broken)
    except trio.Cancelled:
        with trio.move_on_after(CLEANUP_SECONDS, shield=True), suppress(ZapomniError):
            await create(space)
        raise
    with trio.move_on_after(CLEANUP_SECONDS, shield=True) as scope:
        await create(space)
    if scope.cancelled_caught:
        raise DatabaseError(f"workspace {space.name!r} is busy with a backup or a clean-up; try again later")
    return held


async def finish_removals(connection: Connection, open_space: Callable[[str], Space]) -> None:
    """Come to the end of every removal whose process did not."""
    for name in await connection.read("HKEYS", REGISTRY):
        space = open_space(name.decode())
        if await space.read("HEXISTS", space.keys.about, "deleting"):
            await finish(space)


async def _stock(space: Space) -> tuple[WorkspaceInfo, bool]:
    """Return what is in a workspace, and whether its removal has broken off; raises `NotFoundError`."""
    try:
        await prepare(space)
        return await statistics.info(space), False
    except NotFoundError:
        if not await space.read("EXISTS", space.keys.about):
            raise
        return await statistics.counted(space), True


async def _remove(space: Space, *, broken: bool) -> None:
    if not broken:
        await clear(space)
    elif not await finish(space):  # somebody else was still at it
        raise NotFoundError(f"there is no workspace {space.name!r}")
