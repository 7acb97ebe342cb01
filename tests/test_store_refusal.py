"""A write that the server refuses in part leaves nothing, and can be sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from tests.stores import chunks_of, memory_of
from zapomni.errors import DatabaseError
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_memory_that_was_refused_in_part_is_no_duplicate(
    store_settings: Settings, tmp_path: Path, key: str | None
) -> None:
    text = "very important note " * 50
    async with open_store(attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None)) as store:
        workspace = store.workspace("default")
        await workspace.add(memory_of("first", source="s"), chunks_of("first"))
        before = await workspace.info()
        await store.connection.write("GRAPH.CONFIG", "SET", "QUERY_MEM_CAPACITY", 20_000)
        with pytest.raises(DatabaseError, match="refused"):
            await workspace.add(memory_of(text, key=key, source="s", tags=("t",)), chunks_of(text))
        await store.connection.write("GRAPH.CONFIG", "SET", "QUERY_MEM_CAPACITY", 0)
        assert await workspace.info() == before
        assert len((await workspace.search_words({"important": 1.0}, count=None)).numbers) == 0
        assert [summary.preview for summary in (await workspace.list()).memories] == ["first"]
        receipt = await workspace.add(memory_of(text, key=key, source="s", tags=("t",)), chunks_of(text))
        assert not receipt.duplicate
        assert not receipt.replaced
        assert (await workspace.get(receipt.memory_id)).text == text
        assert (await workspace.info()).memories == 2
