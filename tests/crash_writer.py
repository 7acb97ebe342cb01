"""A client that stores memories and prints the id and the first word of each one that was acknowledged."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from tests.stores import chunks_of, memory_of
from zapomni import log
from zapomni.config import Settings
from zapomni.errors import DatabaseError
from zapomni.store.store import open_store

PIECE = 20  # characters of a passage, so that every memory has several


def text_of(word: str) -> str:
    """Return a text whose every passage has a word of its own."""
    return "".join(f"{word} {word}part{number}".ljust(PIECE) for number in range(4)).strip()


async def main(directory: str, name: str, count: int) -> None:
    log.configure("error")
    async with open_store(Settings(data_dir=Path(directory), store_linger=0.3)) as store:
        workspace = store.workspace("default")
        for number in range(count):
            text = text_of(f"{name}x{number}")
            memory = memory_of(text)
            try:
                receipt = await workspace.add(memory, chunks_of(text, PIECE))
            except DatabaseError:  # it may or may not be there; nobody was told that it is
                continue
            assert receipt.memory_id == memory.id, "the write was repeated"
            sys.stdout.write(f"{memory.id} {name}x{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
