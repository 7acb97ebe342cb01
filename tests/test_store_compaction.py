"""What was removed for good leaves the files of the store, too, and does not get into its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from tests.servers import wait_until_gone
from tests.stores import LATER, NOW, chunks_of, memory_of
from zapomni.store import reaper
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from zapomni.config import Settings

SECRET = "Xylophone"


@pytest.fixture
def settings(store_settings: Settings, tmp_path: Path) -> Settings:
    return attrs.evolve(store_settings, data_dir=tmp_path, falkordb_url=None, store_linger=0.0)


def holds_secret(directory: Path) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("way", ["purge", "clear"])
async def test_what_was_removed_leaves_the_files_when_the_store_ends(settings: Settings, way: str) -> None:
    async with open_store(settings) as store:
        workspace = store.workspace("default")
        memory = memory_of(f"{SECRET} wanted")
        await workspace.add(memory, chunks_of(memory.text))
        if way == "purge":
            await workspace.delete(memory.id, now=NOW)
            assert await workspace.purge(before=LATER) == 1
        else:
            await store.delete_workspace("default")
        assert await trio.to_thread.run_sync(holds_secret, settings.data_dir)
    await wait_until_gone(settings.data_dir, 30)
    assert not await trio.to_thread.run_sync(holds_secret, settings.data_dir)
    assert not (settings.data_dir / "store" / reaper.REMOVED).exists()


async def test_a_purge_of_nothing_asks_for_no_rewrite(settings: Settings) -> None:
    async with open_store(settings) as store:
        workspace = store.workspace("default")
        await workspace.add(memory_of("kept"), chunks_of("kept"))
        assert await workspace.purge(before=LATER) == 0
        assert not reaper.is_removal_noted(settings.data_dir / "store")
    await wait_until_gone(settings.data_dir, 30)


async def test_the_server_keeps_texts_out_of_its_log(settings: Settings) -> None:
    async with open_store(settings) as store:
        for option, value in (("hide-user-data-from-log", b"yes"), ("slowlog-max-len", b"0")):
            assert value in (await store.connection.read("CONFIG", "GET", option))
        await store.connection.write("CONFIG", "SET", "slowlog-log-slower-than", 0)
        await store.workspace("default").add(memory_of(SECRET), chunks_of(SECRET))
        assert await store.connection.read("SLOWLOG", "LEN") == 0
    await wait_until_gone(settings.data_dir, 30)
