"""What the benchmarks remember: texts of invented words with a natural distribution, and questions about them.

A word's share is a power of its rank, as in a natural language. A question has no word twice and none of the first,
which play the part of stop words; its ranks are drawn alike from every power of ten, because questions have rare words
as well as common ones, and what a search costs is decided by the common ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zapomni.engine import open_engine
from zapomni.models import Filters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zapomni.config import Settings
    from zapomni.engine import MemoryEngine

VOCABULARY = 30_000
POWER = 1.07
STOPS = 20  # the commonest words
ASKED = 6  # words of a question
PER_MEMORY = 4_000  # characters of the memories that fill a workspace: a page of notes, some seven passages
TENTH = "tenth3"  # a tag of a tenth of those memories
FILTERS: Mapping[str, Filters] = {"": Filters(), ", a filter that leaves 10 %": Filters(tags=(TENTH,))}
RNG = np.random.default_rng(7)


def _word(number: int) -> str:
    syllables = ("ka", "ro", "mi", "sel", "dan", "pu", "tor", "ve", "lin", "gu", "sha", "ber", "no", "fi", "zam", "ho")
    return syllables[number % 16] + syllables[number // 16 % 16] + (_word(number // 256 - 1) if number >= 256 else "")


WORDS = [_word(number) for number in range(VOCABULARY)]


_SHARES = np.arange(1, VOCABULARY + 1) ** -POWER
_UP_TO = np.cumsum(_SHARES) / _SHARES.sum()  # the share of a word and of all that are commoner


def draw_words(count: int) -> list[str]:
    """Return words as they come in a text."""
    ranks = np.minimum(np.searchsorted(_UP_TO, RNG.random(count), side="right"), VOCABULARY - 1)  # the sum is rounded
    return [WORDS[rank] for rank in ranks.tolist()]


def text_of(characters: int) -> str:
    """Return sentences and paragraphs of about so many characters."""
    words = draw_words(characters // 5)
    sentences = [" ".join(words[start : start + 14]).capitalize() + "." for start in range(0, len(words), 14)]
    paragraphs = [" ".join(sentences[start : start + 6]) for start in range(0, len(sentences), 6)]
    return "\n\n".join(paragraphs)[:characters]


def query() -> str:
    """Return a question of six words."""
    words: dict[str, None] = {}
    while len(words) < ASKED:
        words[WORDS[int(STOPS * (VOCABULARY / STOPS) ** RNG.random())]] = None
    return " ".join(words)


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
