"""Exports of what cannot be read any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from zapomni.errors import DatabaseError

if TYPE_CHECKING:
    from zapomni.engine import MemoryEngine


async def test_damaged_texts_end_an_export_with_the_error_itself(engine: MemoryEngine) -> None:
    with trio.fail_after(30):
        for number in range(3):
            await engine.add_memory(f"note {number}")
        space = engine._store.workspace(engine.current_workspace)._space
        await space.connection.write(*space.statement("MATCH (c:Chunk) SET c.text = 'something else'"))
        with pytest.raises(DatabaseError, match="is damaged"):
            _ = [record async for record in engine.export_memories()]
