"""The graph is FalkorDB's own: its official client opens it and finds what we wrote."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio
from falkordb import FalkorDB

from zapomni.models import NewChunk, NewMemory

if TYPE_CHECKING:
    from zapomni.config import Settings
    from zapomni.store.workspace import Workspace


def official_client(settings: Settings) -> FalkorDB:
    if settings.falkordb_url is None:
        return FalkorDB(unix_socket_path=str(settings.data_dir / "store" / "server.sock"))
    address = urlsplit(settings.falkordb_url)
    return FalkorDB(host=address.hostname, port=address.port, password=address.password)


async def test_the_official_client_reads_memories_with_their_passages(
    store_settings: Settings, workspace: Workspace
) -> None:
    await workspace.info()  # the server is up when this returns
    client = await trio.to_thread.run_sync(official_client, store_settings)
    text = "Чай, 茶 and 'tea' \\ \"quoted\" 🍵"
    memory = NewMemory(id=str(uuid.uuid4()), text=text, created_at=datetime.now(UTC), source="a test", tags=("drinks",))
    half = len(text) // 2
    chunks = [NewChunk(0, half, {"чай": 1}, 1), NewChunk(half, len(text), {"quoted": 1}, 1)]
    await workspace.add(memory, chunks)
    graph = client.select_graph(f"{{zapomni:{workspace.name}}}:graph")
    query = "MATCH (m:Memory {id: $id})-[:HAS_CHUNK]->(c:Chunk) RETURN m.source, c.text ORDER BY c.start"
    found = await trio.to_thread.run_sync(lambda: graph.ro_query(query, {"id": memory.id}).result_set)
    client.connection.close()
    assert [row[0] for row in found] == ["a test", "a test"]
    assert "".join(row[1] for row in found) == text
