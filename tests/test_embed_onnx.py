from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import trio
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from zapomni.config import Settings
from zapomni.embed import Embedder, open_embedder
from zapomni.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "query", "passage"]
TABLE = np.eye(len(WORDS), dtype=np.float32)
CLS = WORDS.index("[CLS]")


def field(number: int, value: int | bytes | str) -> bytes:
    """One field of a protocol buffer, which is all that an ONNX file is made of."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def tensor_info(name: str, element: int, *shape: str | int) -> bytes:
    dims = b"".join(field(1, field(2, dim) if isinstance(dim, str) else field(1, dim)) for dim in shape)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, dims)))


def model_bytes(rows_of: np.ndarray[Any, np.dtype[np.float32]] = TABLE) -> bytes:
    """A model that looks every token up in a table: ``last_hidden_state = Gather(table, input_ids)``."""
    node = field(1, "table") + field(1, "input_ids") + field(2, "last_hidden_state") + field(4, "Gather")
    rows, columns = rows_of.shape
    table = field(1, rows) + field(1, columns) + field(2, 1) + field(8, "table") + field(9, rows_of.tobytes())
    graph = field(1, node) + field(2, "tiny") + field(5, table)
    for name in ("input_ids", "attention_mask"):
        graph += field(11, tensor_info(name, 7, "batch", "length"))
    graph += field(12, tensor_info("last_hidden_state", 1, "batch", "length", columns))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def write_model(folder: Path, **config: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model_bytes())
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", CLS), ("[SEP]", WORDS.index("[SEP]"))]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[Embedder]:
    with trio.fail_after(60):
        async with open_embedder(Settings(embedder="onnx", embedding_model=str(folder), **options)) as embedder:
            yield embedder


def share(vector: np.ndarray[Any, np.dtype[np.float32]], word: str) -> float:
    return float(vector[WORDS.index(word)])


async def test_a_model_in_a_folder_is_run(tmp_path: Path) -> None:
    async with opened(write_model(tmp_path / "tiny")) as embedder:
        await embedder.ready()
        assert embedder.name.startswith("onnx/tiny#")
        assert (embedder.dimension, embedder.multilingual) == (len(WORDS), False)
        rows = await embedder.embed_documents(["red red green", "blue"])
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert share(rows[0], "red") == pytest.approx(2 * share(rows[0], "green"))
    assert share(rows[0], "blue") == 0.0
    assert share(rows[1], "blue") > 0.5


async def test_padding_does_not_change_a_vector(tmp_path: Path) -> None:
    texts = ["blue", "red " * 40, "green red", "blue " * 17, "red"]
    async with opened(write_model(tmp_path)) as embedder:
        together = await embedder.embed_documents(texts)
        alone = [(await embedder.embed_documents([text]))[0] for text in texts]
    assert np.allclose(together, np.stack(alone), atol=1e-6)


async def test_pooling_by_the_first_token_can_be_set(tmp_path: Path) -> None:
    async with opened(write_model(tmp_path), embedding_pooling="cls") as embedder:
        vector = await embedder.embed_query("red green")
    assert np.array_equal(vector, TABLE[CLS])


async def test_pooling_is_read_from_the_models_own_file(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}', encoding="utf-8")
    async with opened(folder) as embedder:
        assert np.array_equal(await embedder.embed_query("red green"), TABLE[CLS])


async def test_queries_and_passages_have_their_prefixes(tmp_path: Path) -> None:
    prefixes = {"embedding_query_prefix": "query ", "embedding_document_prefix": "passage "}
    async with opened(write_model(tmp_path), **prefixes) as embedder:
        query = await embedder.embed_query("red")
        (document,) = await embedder.embed_documents(["red"])
    assert share(query, "query") > 0 == share(query, "passage")
    assert share(document, "passage") > 0 == share(document, "query")


async def test_a_text_beyond_the_window_keeps_its_end(tmp_path: Path) -> None:
    async with opened(write_model(tmp_path, max_position_embeddings=16)) as embedder:
        (row,) = await embedder.embed_documents(["red " * 100 + "blue " * 100])
    assert share(row, "blue") == pytest.approx(share(row, "red"), rel=0.2)


async def test_many_passages_keep_their_order(tmp_path: Path) -> None:
    texts = [" ".join(["red"] * (number % 7 + 1) + ["blue"] * (number % 5)) for number in range(100)]
    async with opened(write_model(tmp_path)) as embedder:
        rows = await embedder.embed_documents(texts)
    for text, row in zip(texts, rows, strict=True):
        assert share(row, "blue") * text.count("red") == pytest.approx(share(row, "red") * text.count("blue"), abs=1e-5)


async def test_a_broken_model_file_is_an_error(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "model.onnx").write_bytes(b"not a model")
    async with opened(folder) as embedder:
        with pytest.raises(EmbeddingError, match="cannot run the model"):
            await embedder.ready()


@pytest.mark.parametrize("content", ["{}", "not JSON", "[]"])
async def test_a_broken_tokenizer_is_an_error(tmp_path: Path, content: str) -> None:
    folder = write_model(tmp_path)
    (folder / "tokenizer.json").write_text(content, encoding="utf-8")
    async with opened(folder) as embedder:
        with pytest.raises(EmbeddingError, match=r"no tokenizer|cannot be run"):
            await embedder.ready()


async def test_cancelling_stops_between_batches(tmp_path: Path) -> None:
    async with opened(write_model(tmp_path)) as embedder:
        await embedder.ready()
        with trio.move_on_after(0) as scope:
            await embedder.embed_documents(["red"] * 1000)
        assert scope.cancelled_caught
        assert share(await embedder.embed_query("red"), "red") > 0


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
async def test_what_is_no_vector_is_an_error_and_spoils_no_other_text(
    tmp_path: Path, pooling: str, number: float
) -> None:
    table = TABLE.copy()
    table[WORDS.index("red") if pooling == "mean" else CLS, 1] = number
    folder = write_model(tmp_path)
    (folder / "model.onnx").write_bytes(model_bytes(table))
    async with opened(folder, embedding_pooling=pooling) as embedder:
        for texts in (["red"], ["blue", "red red"], ["blue " * 1000 + "red"]):
            with pytest.raises(EmbeddingError, match="no usable vectors"):
                await embedder.embed_documents(texts)
        with pytest.raises(EmbeddingError, match="no usable vectors"):
            await embedder.embed_query("red")
        if pooling == "mean":
            assert np.isfinite(await embedder.embed_documents(["blue", "green " * 30])).all()


async def test_padding_is_not_read(tmp_path: Path) -> None:
    table = TABLE.copy()
    table[WORDS.index("[PAD]")] = np.nan
    folder = write_model(tmp_path)
    (folder / "model.onnx").write_bytes(model_bytes(table))
    async with opened(folder) as embedder:
        assert np.isfinite(await embedder.embed_documents(["blue", "green " * 30])).all()


async def test_large_numbers_keep_their_direction(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    (folder / "model.onnx").write_bytes(model_bytes(TABLE * np.float32(3e38)))
    async with opened(folder) as embedder:
        (row,) = await embedder.embed_documents(["red red green"])
    assert np.linalg.norm(row) == pytest.approx(1.0)
    assert share(row, "red") == pytest.approx(2 * share(row, "green"))


async def test_what_changes_the_vectors_changes_the_name(tmp_path: Path) -> None:
    names = set()
    for options in ({}, {"embedding_pooling": "cls"}, {"embedding_document_prefix": "passage "}):
        async with opened(write_model(tmp_path), **options) as embedder:
            names.add(embedder.name)
    (tmp_path / "model.onnx").write_bytes(b"another")
    async with opened(tmp_path) as embedder:
        names.add(embedder.name)
    assert len(names) == 4


async def test_nothing_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    before = threading.active_count()
    async with opened(write_model(tmp_path)) as embedder:
        assert embedder.dimension == 0
        assert threading.active_count() == before
