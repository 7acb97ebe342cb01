"""The invented words: that they are spread as those of a language, and that questions are questions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
import trio

from bench import peers, store, texts
from bench.report import exponent
from zapomni.config import Settings
from zapomni.store.store import open_store

if TYPE_CHECKING:
    from pathlib import Path


def test_no_two_words_are_alike() -> None:
    assert len(set(texts.WORDS)) == texts.VOCABULARY


def test_a_words_share_is_a_power_of_its_rank() -> None:
    counts = Counter(texts.draw_words(1_000_000))
    ranks = [1, 3, 10, 30, 100, 300, 1000]
    assert exponent(ranks, [counts[texts.WORDS[rank - 1]] for rank in ranks]) == pytest.approx(-texts.POWER, abs=0.05)


def test_the_last_words_are_the_rarest() -> None:
    counts = Counter(texts.draw_words(1_000_000))
    assert all(counts[word] < 30 for word in texts.WORDS[-100:])  # 1.9 is to be expected of each


def test_a_text_has_its_length() -> None:
    assert len(texts.text_of(50_000)) == 50_000


def test_a_question_has_six_words_and_none_of_the_commonest() -> None:
    for _ in range(1000):
        words = texts.query().split()
        assert len(set(words)) == len(words) == texts.ASKED
        assert not set(words) & set(texts.WORDS[: texts.STOPS])


def test_questions_have_rare_words_and_common_ones_and_no_favourite() -> None:
    asked = Counter(word for _ in range(2000) for word in texts.query().split())
    ranks = {word: rank for rank, word in enumerate(texts.WORDS)}
    common = sum(count for word, count in asked.items() if ranks[word] < 775)  # the middle of 20 and 30,000
    assert common / asked.total() == pytest.approx(0.5, abs=0.05)
    assert max(asked.values()) < 0.02 * asked.total()


def test_the_passages_of_the_store_have_the_same_words() -> None:
    text, chunks = store.passages(20)
    assert set(text.replace(".", "").split()) <= set(texts.WORDS)
    for chunk in chunks:
        assert Counter(text[chunk.start : chunk.end].replace(".", "").split()) == chunk.terms
        assert chunk.length == store.LENGTH
    assert sum(store.COMMON in chunk.terms for chunk in chunks) > 5


async def test_a_filter_leaves_the_share_of_the_store_that_it_is_to(tmp_path: Path) -> None:
    async with open_store(Settings(data_dir=tmp_path, store_linger=0.0)) as opened:
        for _ in range(20):
            await store.add(opened, [store.passages(1)])
        space = opened.workspace("default")
        left = [await space.count(filters) for filters in texts.FILTERS.values()]
    assert left == [20, 2]
    await trio.to_thread.run_sync(peers.wait_for_the_store_to_end, tmp_path)
