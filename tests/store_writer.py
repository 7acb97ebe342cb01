"""A process that writes memories and says so: ``python -m tests.store_writer DATA_DIR WORKSPACE NAME COUNT``."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from tests.stores import chunks_of, memory_of
from zapomni import log
from zapomni.config import Settings
from zapomni.store.store import open_store

LARGE = 7  # every so manieth memory needs several batches


def text_of(name: str, number: int) -> str:
    repeat = 1200 if number % LARGE == LARGE - 1 else 1
    return " ".join(f"common {name} item{number}" for _ in range(repeat))


async def main(data_dir: str, workspace: str, name: str, count: int) -> None:
    log.configure("warning")  # on stderr: what is printed are acknowledgements
    async with open_store(Settings(data_dir=Path(data_dir), store_linger=0.1)) as store:
        for number in range(count):
            text = text_of(name, number)
            receipt = await store.workspace(workspace).add(memory_of(text), chunks_of(text, 200))
            print(receipt.memory_id, number, flush=True)


if __name__ == "__main__":
    _, directory, workspace, name, count = sys.argv
    trio.run(main, directory, workspace, name, int(count))
