"""The store on a plain server and on a cluster: the same, and a backup moves between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

from tests.servers import open_server
from tests.stores import LATER, MODEL, NOW, chunks_of, memory_of, vector_of
from tests.test_store_backup import picture, populate
from tests.test_store_remote import open_cluster
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.store.store import Store


async def exercise(store: Store) -> None:
    for name in ("default", "one", "two"):
        await store.create_workspace(name)
        workspace = store.workspace(name)
        for number in range(5):
            text = f"text {number} of {name}"
            memory = memory_of(text, key=f"k{number}", tags=("t",), source="s")
            await workspace.add(memory, chunks_of(text))
        await workspace.add(memory_of(f"changed in {name}", key="k0"), chunks_of("changed in " + name))
        await workspace.delete(memory.id, now=NOW)
        found = await workspace.search_words({name: 1.0}, count=None)
        assert {passage.memory_id for passage in await workspace.passages(found.numbers)} == {
            summary.id for summary in (await workspace.list()).memories
        }
        assert len((await workspace.search_vectors(vector_of("x"), MODEL, count=9)).numbers) == 4
        assert await workspace.purge(before=LATER) == 1
        assert (await workspace.statistics()).bytes_in_memory > 0
    assert [info.memories for info in await store.list_workspaces()] == [4, 4, 4]
    await store.delete_workspace("two")
    assert [info.name for info in await store.list_workspaces()] == ["default", "one"]
    await store.delete_workspace("default")
    await store.delete_workspace("one")


async def move(origin: Store, target: Store, path: Path) -> None:
    await populate(origin)
    await origin.back_up(path)
    assert await target.restore(path) == ("default", "work")
    for name in ("default", "work"):
        restored, given = await picture(target.workspace(name)), await picture(origin.workspace(name))
        del restored["cosines"], given["cosines"]
        assert restored == given


async def test_a_cluster_is_a_store_like_any_other(store_settings: Settings, tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_cluster(tmp_path / "nodes") as nodes:
            remote = attrs.evolve(store_settings, falkordb_url=f"falkor://127.0.0.1:{nodes[0].port}")
            embedded = attrs.evolve(store_settings, data_dir=tmp_path / "data", falkordb_url=None)
            async with open_store(embedded) as origin, open_store(remote) as target:
                await exercise(target)
                await move(origin, target, tmp_path / "backup")


async def test_a_plain_server_is_a_store_like_any_other(store_settings: Settings, tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with open_server(tmp_path / "server") as server:
            remote = attrs.evolve(store_settings, falkordb_url=f"falkor://127.0.0.1:{server.port}")
            embedded = attrs.evolve(store_settings, data_dir=tmp_path / "data", falkordb_url=None)
            async with open_store(embedded) as target, open_store(remote) as origin:
                await exercise(origin)
                await move(origin, target, tmp_path / "backup")
