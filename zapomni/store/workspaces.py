"""Making, listing and removing workspaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.errors import NotFoundError
from zapomni.models import DEFAULT_WORKSPACE
from zapomni.store import statistics
from zapomni.store.names import REGISTRY
from zapomni.store.schema import clear, prepare

if TYPE_CHECKING:
    from zapomni.models import WorkspaceInfo
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
    await prepare(space)
    held = await statistics.info(space)
    await clear(space)
    if space.name == DEFAULT_WORKSPACE:
        await prepare(space)  # others know that it is always there, and do not look again
    return held
