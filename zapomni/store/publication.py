"""How a draft becomes a memory in the graph, and where that stands among the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zapomni.store.values import to_json

if TYPE_CHECKING:
    from zapomni.store.cards import Card
    from zapomni.store.space import Space
    from zapomni.store.wire import Command

REPLACE = """
MATCH (o:Memory {id: $id}), (d:Draft {first: $first})
CREATE (d)-[:REPLACES]->(o)
SET o:Version REMOVE o:Memory
"""
PUBLISH = """
MATCH (d:Draft {first: $first})
SET d:Memory, d.id = $id, d.key = $key, d.version = $version, d.metadata = $metadata, d.tags = $tags,
    d.source = $source, d.created_at = $created, d.updated_at = $updated, d.timestamp = $timestamp,
    d.hash = $hash, d.fingerprint = $fingerprint, d.length = $length, d.words = $words
REMOVE d:Draft
"""
# Memories of one source stand in a row. A new version takes the place of the old one; everything else goes to the end.
TAKE_PLACE = (
    "MATCH (m:Memory {id: $id})-[:REPLACES]->(o), (p)-[r:NEXT]->(o) DELETE r CREATE (p)-[:NEXT]->(m)",
    "MATCH (m:Memory {id: $id})-[:REPLACES]->(o), (o)-[r:NEXT]->(n) DELETE r CREATE (m)-[:NEXT]->(n)",
    "MATCH (m:Memory {id: $id})-[:REPLACES]->(o), (s)-[r:LATEST]->(o) DELETE r CREATE (s)-[:LATEST]->(m)",
)
GO_LAST = """
MATCH (m:Memory {id: $id})
MERGE (s:Source {name: $source})
WITH m, s OPTIONAL MATCH (s)-[l:LATEST]->(p)
DELETE l CREATE (s)-[:LATEST]->(m)
WITH m, p WHERE p IS NOT NULL CREATE (p)-[:NEXT]->(m)
"""


def publish(
    space: Space, memory_id: str, card: Card, metadata: str, length: int, updated: int | None, timestamp: int | None
) -> list[Command]:
    """Return the commands that turn a draft into a memory, and the version before it into history."""
    publication = space.statement(
        PUBLISH,
        first=card.first,
        id=memory_id,
        key=card.key,
        version=card.version,
        metadata=metadata,
        tags=to_json({"tags": list(card.tags)}),
        source=card.source,
        created=card.created,
        updated=updated,
        timestamp=timestamp,
        hash=card.hash,
        fingerprint=card.fingerprint,
        length=length,
        words=card.length,
    )
    if card.version == 1:
        return [publication]
    return [space.statement(REPLACE, id=memory_id, first=card.first), publication]
