"""Acknowledged is durable: many processes write while the server, the reaper and the writers are killed at random."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
import trio

from tests.crash_writer import PIECE, text_of
from tests.servers import processes_of, wait_until_gone
from tests.stores import MODEL, chunks_of
from zapomni.config import Settings
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from zapomni.store.workspace import Workspace

LONG = 300.0


async def survive(directory: Path, *, writers: int, writes: int, chance: random.Random) -> tuple[int, int]:
    """Let writers write and kill what there is; return how many writes were acknowledged, and the number of kills."""
    acknowledged = directory / "acknowledged"
    kills = 0
    with trio.fail_after(LONG), acknowledged.open("ab") as output:
        words = [sys.executable, "-m", "tests.crash_writer", str(directory)]
        processes = [
            await trio.lowlevel.open_process(
                [*words, f"w{number}", str(writes)], stdout=output, stdin=subprocess.DEVNULL
            )
            for number in range(writers)
        ]
        try:
            while any(process.poll() is None for process in processes):
                await trio.sleep(chance.uniform(0.02, 0.25))
                servers = [process for process in processes_of(directory) if is_listening(process)]
                assert len(servers) <= 1
                mortal = [process for process in processes[: writers // 2] if process.poll() is None]
                (victims,) = chance.choices([servers, reapers_of(directory), mortal], [6, 2, 1])
                if victims:
                    with contextlib.suppress(psutil.NoSuchProcess):  # a reaper that came second ends by itself
                        chance.choice(victims).kill()
                        kills += 1
        finally:
            for process in processes:
                process.kill()
                await process.wait()
        assert {process.returncode for process in processes} <= {0, -signal.SIGKILL}, "a writer failed"
        told = dict(line.split() for line in acknowledged.read_text().splitlines())
        async with open_store(Settings(data_dir=directory, store_linger=0.3)) as store:
            await check(store.workspace("default"), told)
    assert told
    await wait_until_gone(directory, 5)
    return len(told), kills


async def check(workspace: Workspace, told: Mapping[str, str]) -> None:
    """Compare what was acknowledged with what is there: all of it, each once and whole, found by words and vectors."""
    held: dict[str, str] = {}
    cursor: str | None = None
    while True:
        page = await workspace.list(limit=200, cursor=cursor)
        for summary in page.memories:
            held[summary.id] = (await workspace.get(summary.id)).text
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted(held.values()) == sorted({text_of(text.split()[0]) for text in held.values()}), (
        "altered, or there twice"
    )
    lost = {word for memory_id, word in told.items() if held.get(memory_id) != text_of(word)}
    assert not lost, "acknowledged memories are lost"
    for memory_id, text in held.items():
        for index, chunk in enumerate(chunks_of(text, PIECE)):
            rarest = max(chunk.terms, key=len)
            scores = await workspace.search_words({rarest: 1.0}, count=None)
            own = [place for place in await workspace.passages(scores.numbers.tolist()) if place.memory_id == memory_id]
            assert index in {place.index for place in own}, "a passage is not found by its words"
            (number,) = [place.number for place in own if place.index == index]
            assert chunk.vector is not None
            near = await workspace.similarities(chunk.vector, MODEL, [number])
            assert near.values[0] > 0.99, "a passage has lost its vector"


def is_listening(process: psutil.Process) -> bool:
    try:
        return "unixsocket:" in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def reapers_of(directory: Path) -> list[psutil.Process]:
    found = []
    for process in processes_of(directory):
        try:
            if "reaper.py" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


async def test_no_acknowledged_write_is_lost_whatever_is_killed(tmp_path: Path) -> None:
    await survive(tmp_path, writers=4, writes=100, chance=random.Random(1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
async def test_no_acknowledged_write_is_lost_in_many_rounds(tmp_path: Path, seed: int) -> None:
    told, kills = await survive(tmp_path, writers=8, writes=200, chance=random.Random(seed))
    print(f"{told} acknowledged, {kills} kills")
