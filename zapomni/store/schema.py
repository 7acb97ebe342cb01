"""Making a workspace, and bringing one of an earlier schema up to date.

There are range indices on what names a node, and nothing else: they are all that the server builds when it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from zapomni.errors import NotFoundError
from zapomni.models import DEFAULT_WORKSPACE
from zapomni.store.cypher import rows
from zapomni.store.names import REGISTRY
from zapomni.store.space import SCHEMA, About

if TYPE_CHECKING:
    from zapomni.store.space import Space

INDICES = (("Memory", "id"), ("Chunk", "number"), ("Source", "name"))


async def prepare(space: Space, *, create: bool = False) -> bool:
    """Bring a workspace to this schema, once for each process; return whether it was new to the process.

    Raises `NotFoundError` when it does not exist, unless it is to be created or is the default one.
    """
    if space.name in space.opened:
        return False
    try:
        about = await space.about()
    except NotFoundError:
        if not create and space.name != DEFAULT_WORKSPACE:
            raise
        about = About(0)
    if about.schema < SCHEMA:
        async with space.upkeep():
            for number in range(about.schema + 1, SCHEMA + 1):
                await MIGRATIONS[number](space)
                await space.connection.write("HSET", space.keys.about, "schema", number)
        await space.connection.write("HSETNX", REGISTRY, space.name, "")
    space.opened.add(space.name)
    return True


async def _found(space: Space) -> None:
    """Make the graph with its indices and its constraint; what is there already stays."""
    graph = space.keys.graph
    reply = await space.connection.write(*space.statement("CALL db.indexes() YIELD label RETURN label"))
    indexed = {label for (label,) in rows(reply)}
    for label, field in INDICES:
        if label.encode() not in indexed:
            await space.connection.write(*space.statement(f"CREATE INDEX FOR (n:{label}) ON (n.{field})"))
    while True:
        reply = await space.connection.write(*space.statement("CALL db.constraints() YIELD status RETURN status"))
        match rows(reply):
            case []:
                arguments = ("UNIQUE", "NODE", "Memory", "PROPERTIES", 1, "id")
                await space.connection.write("GRAPH.CONSTRAINT", "CREATE", graph, *arguments)
            case [[b"OPERATIONAL"]]:
                return
        await trio.sleep(0.005)  # the server builds it in the background


MIGRATIONS = {1: _found}
