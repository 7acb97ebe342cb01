"""A damaged data file: a torn end is mended and told, damage in the middle is refused and told, never passed over."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.fakes import captured_log
from tests.hard.seeds import seed_of
from tests.servers import server_of, wait_until_gone
from zapomni.config import Settings
from zapomni.engine import open_engine
from zapomni.errors import ConfigError, DatabaseError
from zapomni.store import reaper, seal
from zapomni.store.salvage import salvage
from zapomni.tools import AddMemoryTool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 40


async def filled(data: Path) -> Path:
    """Store some memories, kill the server, and return the file that the writes are in."""
    async with open_engine(Settings(data_dir=data, store_linger=0)) as engine:
        for number in range(COUNT):
            await engine.add_memory(f"w{number} is memory number {number}")
        (server,) = [process for process in psutil.process_iter() if is_server(process, data)]
        server.kill()
    await wait_until_gone(data, 20)
    (file,) = (data / "store" / "appendonlydir").glob("*.incr.aof")
    return file


def is_server(process: psutil.Process, data: Path) -> bool:
    try:
        return bool(process.cwd() == str(data / "store") and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


async def numbers_in(data: Path) -> set[int]:
    async with open_engine(Settings(data_dir=data, store_linger=0)) as engine:
        page = await engine.list_memories(limit=COUNT)
        texts = [(await engine.get_memory(memory.id)).text for memory in page.memories]
        for number, text in ((int(text.split()[-1]), text) for text in texts):
            assert text == f"w{number} is memory number {number}"
            assert (await engine.search_memory(f"w{number}", limit=1)).hits[0].text == text
        return {int(text.split()[-1]) for text in texts}


@pytest.mark.parametrize("cut", [1, 37, 900])
async def test_a_torn_end_is_mended_and_told(tmp_path: Path, cut: int) -> None:
    file = await filled(tmp_path)
    os.truncate(file, file.stat().st_size - cut)
    with captured_log("warning") as log:
        found = await numbers_in(tmp_path)
    assert found == set(range(len(found))), "what is left is a beginning, without a gap"
    assert len(found) >= COUNT - 1
    assert "store repaired" in log.text


def noise(data: bytearray) -> None:
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(byte ^ 0x5A for byte in data[middle : middle + 64])


def hole(data: bytearray) -> None:
    middle = len(data) // 2
    data[middle : middle + 4096] = bytes(4096)


@pytest.mark.parametrize("damage", [noise, hole])
async def test_damage_in_the_middle_is_refused_and_there_is_a_way_out(
    tmp_path: Path, damage: Callable[[bytearray], None]
) -> None:
    file = await filled(tmp_path)
    data = bytearray(file.read_bytes())
    damage(data)
    file.write_bytes(data)
    for _ in range(2):
        async with open_engine(Settings(data_dir=tmp_path, store_linger=0)) as engine:
            with pytest.raises(DatabaseError, match=r"damaged, and nothing was changed.*doctor --salvage"):
                await engine.get_stats()
            said = (await AddMemoryTool(engine).execute({"text": "one more"}))["content"][0]["text"]
            assert "doctor --salvage" in said, "whoever is told to try again would do so for ever"
    assert file.read_bytes() == data
    saved = await salvage(Settings(data_dir=tmp_path))
    assert saved.copy is not None
    assert (saved.copy / file.name).read_bytes() == data
    assert 0 < saved.lost_bytes < len(data)
    found = await numbers_in(tmp_path)
    assert found == set(range(len(found)))
    assert 0 < len(found) < COUNT


def random_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


@pytest.mark.parametrize("compacted", [False, True])
async def test_no_bit_that_flips_in_a_closed_store_goes_unnoticed(
    tmp_path: Path, request: pytest.FixtureRequest, compacted: bool
) -> None:
    """Not even inside a text, where the structure of the file stays what it was."""
    seed = seed_of(request)
    rng, files = random.Random(seed), tmp_path / "store" / "appendonlydir"
    await closed(tmp_path, compacted=compacted)
    path = max((path for path in files.iterdir()), key=lambda path: path.stat().st_size)
    assert path.suffix == (".rdb" if compacted else ".aof")
    whole = path.read_bytes()
    for _ in range(200 if request.config.getoption("--slow") else 12):
        data = bytearray(whole)
        random_bit(data, rng)
        path.write_bytes(data)
        async with open_engine(Settings(data_dir=tmp_path, store_linger=0)) as engine:
            with pytest.raises(DatabaseError, match=r"nothing was changed.*zapomni restore"):
                await engine.get_stats()
        assert path.read_bytes() == data, f"seed {seed}"
    path.write_bytes(whole)
    assert await numbers_in(tmp_path) == set(range(COUNT))


async def test_no_bit_that_flips_in_the_list_of_files_goes_unnoticed(tmp_path: Path) -> None:
    """But for those that change nothing of what it says."""
    await closed(tmp_path, compacted=True)
    files = tmp_path / "store" / seal.FILES
    manifest, entries = files / seal.MANIFEST, seal.listed(files)
    whole, noticed = manifest.read_bytes(), 0
    assert seal.problem(files) is None
    for place in range(len(whole) * 8):
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        manifest.write_bytes(data)
        if seal.problem(files) is None:
            assert seal.listed(files) == entries, data
        else:
            noticed += 1
    assert noticed > len(whole) * 4


async def closed(data: Path, *, compacted: bool) -> None:
    """Store some memories, and let the store end by itself."""
    async with open_engine(Settings(data_dir=data, store_linger=0)) as engine:
        for number in range(COUNT):
            await engine.add_memory(f"w{number} is memory number {number}")
        if compacted:
            reaper.note_removal(data / "store")
    await wait_until_gone(data, 20)


async def test_of_a_sealed_file_that_was_changed_one_text_is_lost_and_no_other(tmp_path: Path) -> None:
    await closed(tmp_path, compacted=False)
    (path,) = (tmp_path / "store" / "appendonlydir").glob("*.incr.aof")
    data = bytearray(path.read_bytes())
    data[data.index(b"memory number 30")] ^= 1
    path.write_bytes(data)
    saved = await salvage(Settings(data_dir=tmp_path))
    assert saved.copy is not None
    assert (saved.copy / path.name).read_bytes() == data
    assert saved.lost_bytes == 0
    assert saved.doubtful_bytes > 0
    async with open_engine(Settings(data_dir=tmp_path, store_linger=0)) as engine:
        page = await engine.list_memories(limit=COUNT)
        damaged = []
        for memory in page.memories:
            try:
                await engine.get_memory(memory.id)
            except DatabaseError:
                damaged.append(memory.preview)
    assert len(page.memories) == COUNT
    assert damaged == ["w30 is lemory number 30"]


async def test_damage_near_the_end_of_a_killed_store_is_no_torn_end(tmp_path: Path) -> None:
    """A length that reaches beyond the end makes all that follows look like a text that a crash has cut off."""
    file = await filled(tmp_path)
    data = bytearray(file.read_bytes())
    place = data.index(b"\r\n$", len(data) * 9 // 10) + 3
    data[place : data.index(b"\r\n", place)] = b"99999999"
    file.write_bytes(data)
    async with open_engine(Settings(data_dir=tmp_path, store_linger=0)) as engine:
        with pytest.raises(DatabaseError, match=r"damaged, and nothing was changed.*doctor --salvage"):
            await engine.get_stats()
    assert file.read_bytes() == data
    await salvage(Settings(data_dir=tmp_path))
    found = await numbers_in(tmp_path)
    assert found == set(range(len(found)))
    assert len(found) > COUNT // 2


async def test_an_end_that_is_missing_since_the_store_was_closed_is_told(tmp_path: Path) -> None:
    """Even where what is left is whole, and the server by itself would see nothing."""
    await closed(tmp_path, compacted=False)
    (path,) = (tmp_path / "store" / "appendonlydir").glob("*.incr.aof")
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"*1\r\n$5\r\nMULTI")])
    with captured_log("warning") as log:
        found = await numbers_in(tmp_path)
    assert found == set(range(COUNT - 1))
    assert "bytes are missing at its end" in log.text
    async with open_engine(Settings(data_dir=tmp_path, store_linger=0)) as engine:
        for number in range(COUNT, 3 * COUNT):  # grows beyond where it was sealed
            await engine.add_memory(f"w{number} is memory number {number}")
        server_of(tmp_path).kill()
    await wait_until_gone(tmp_path, 20)
    assert len(await numbers_in(tmp_path)) == COUNT


async def test_a_store_at_work_is_not_salvaged(tmp_path: Path) -> None:
    async with open_engine(Settings(data_dir=tmp_path, store_linger=0)) as engine:
        await engine.add_memory("at work")
        with pytest.raises(ConfigError, match="is running"):
            await salvage(Settings(data_dir=tmp_path))


async def test_there_must_be_something_to_salvage(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no store"):
        await salvage(Settings(data_dir=tmp_path))
