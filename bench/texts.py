"""What the benchmarks remember: texts of invented words with a natural distribution, and questions about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zapomni.engine import open_engine

if TYPE_CHECKING:
    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine

VOCABULARY = 30_000
PER_MEMORY = 4_000  # characters of the memories that fill a workspace: a page of notes, some seven passages
TENTH = "tenth3"  # a tag of a tenth of those memories
RNG = np.random.default_rng(7)


def _word(number: int) -> str:
    syllables = ("ka", "ro", "mi", "sel", "dan", "pu", "tor", "ve", "lin", "gu", "sha", "ber", "no", "fi", "zam", "ho")
    return syllables[number % 16] + syllables[number // 16 % 16] + (_word(number // 256 - 1) if number >= 256 else "")


WORDS = [_word(number) for number in range(VOCABULARY)]


def text_of(characters: int) -> str:
    """Return sentences and paragraphs of about so many characters."""
    ranks = np.minimum(RNG.zipf(1.25, size=characters // 5), VOCABULARY) - 1
    words = [WORDS[rank] for rank in ranks.tolist()]
    sentences = [" ".join(words[start : start + 14]).capitalize() + "." for start in range(0, len(words), 14)]
    paragraphs = [" ".join(sentences[start : start + 6]) for start in range(0, len(sentences), 6)]
    return "\n\n".join(paragraphs)[:characters]


def query() -> str:
    return " ".join(WORDS[rank] for rank in np.minimum(RNG.zipf(1.25, size=6) + 20, VOCABULARY - 1).tolist())


async def fill(engine: MemoryEngine, passages: int) -> None:
    """Add memories until there are so many passages."""
    number, held = 0, (await engine.get_stats()).total_chunks
    while held < passages:
        number += 1
        metadata = {"tags": ["all", f"tenth{number % 10}"], "source": f"source{number % 50}"}
        held += (await engine.add_memory(text_of(PER_MEMORY), metadata)).chunks_created


async def fill_directory(settings: Settings, passages: int) -> None:
    """Do the same to a data directory that nobody has open."""
    async with open_engine(settings) as engine:
        await fill(engine, passages)
