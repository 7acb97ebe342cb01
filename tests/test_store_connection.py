"""The bridge to the database: what calls return, raise, repeat and leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zapomni.errors import DatabaseError

if TYPE_CHECKING:
    from zapomni.store.connection import Connection


async def test_a_transaction_returns_every_reply(connection: Connection) -> None:
    replies = await connection.transaction([("SET", "{a}:1", "x"), ("GET", "{a}:1")])
    assert replies == [b"OK", b"x"]


async def test_a_refused_query_raises_and_the_connection_works_on(connection: Connection) -> None:
    with pytest.raises(DatabaseError, match="refused"):
        await connection.write("GRAPH.QUERY", "g", "NONSENSE")
    assert await connection.read("PING") == b"PONG"
