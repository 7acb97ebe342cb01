from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
import trio

from tests.embedding_server import DIMENSION, EmbeddingServer, embeddings, open_embedding_server, vector_for
from zapomni.config import Settings
from zapomni.embed import Embedder, open_embedder, remote
from zapomni.embed.known import Habits, habits_of
from zapomni.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SECRET = "sk-very-secret"
type Kind = Literal["ollama", "openai"]


@asynccontextmanager
async def opened(kind: Kind, model: str = "plain", **options: Any) -> AsyncIterator[tuple[EmbeddingServer, Embedder]]:
    with trio.fail_after(30):
        async with open_embedding_server() as server:
            url = server.url + ("/v1" if kind == "openai" else "")
            settings = Settings(embedder=kind, embedding_model=model, embedding_url=url, **options)
            async with open_embedder(settings) as embedder:
                yield server, embedder


both = pytest.mark.parametrize("kind", ["ollama", "openai"])


@both
async def test_nothing_is_asked_before_it_is_needed(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        assert embedder.name == f"{kind}/plain"
        assert server.requests == []
        await embedder.ready()
        await embedder.ready()
        assert len(server.requests) == 1
        assert embedder.dimension == DIMENSION


@both
async def test_passages_come_back_as_unit_rows_in_order(kind: Kind) -> None:
    texts = [f"a text {'a ' * number}" for number in range(150)]
    async with opened(kind) as (server, embedder):
        rows = await embedder.embed_documents(texts)
    expected = np.array([vector_for(text) for text in texts])
    assert np.allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert rows.dtype == np.float32
    assert max(len(asked) for asked in server.asked) <= 64


@both
async def test_no_passages_are_no_rows(kind: Kind) -> None:
    async with opened(kind) as (_, embedder):
        assert (await embedder.embed_documents([])).shape == (0, DIMENSION)


async def test_ollama_is_told_not_to_cut_texts_off() -> None:
    async with opened("ollama") as (server, embedder):
        await embedder.embed_query("text")
    path, _, body = server.requests[-1]
    assert path == "/api/embed"
    assert body == {"model": "plain", "input": ["text"], "truncate": False}


async def test_an_openai_server_gets_the_key_and_the_model() -> None:
    async with opened("openai", embedding_api_key=SECRET) as (server, embedder):
        await embedder.embed_query("text")
    path, headers, body = server.requests[-1]
    assert path == "/v1/embeddings"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert (body["model"], body["input"]) == ("plain", ["text"])


async def test_a_known_model_gets_its_prefixes() -> None:
    async with opened("ollama", "nomic-embed-text:latest") as (server, embedder):
        await embedder.embed_query("text")
        await embedder.embed_documents(["text"])
    assert server.asked[1:] == [["search_query: text"], ["search_document: text"]]


async def test_another_prefix_for_passages_is_another_name() -> None:
    names = []
    for prefix in ("", "passage: ", "text: "):
        async with opened("ollama", embedding_document_prefix=prefix) as (_, embedder):
            names.append(embedder.name)
    assert names[0] == "ollama/plain"
    assert len(set(names)) == 3


async def test_prefixes_can_be_set() -> None:
    options = {"embedding_query_prefix": "Q ", "embedding_document_prefix": ""}
    async with opened("ollama", "nomic-embed-text", **options) as (server, embedder):
        await embedder.embed_query("text")
        await embedder.embed_documents(["text"])
    assert server.asked[1:] == [["Q text"], ["text"]]


@pytest.mark.parametrize(
    ("model", "query", "multilingual"),
    [
        ("intfloat/multilingual-e5-small", "query: ", True),
        ("intfloat/e5-base-v2", "query: ", False),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", False),
        ("bge-m3", "", True),
        ("snowflake-arctic-embed:33m", "Represent this sentence for searching relevant passages: ", False),
        ("snowflake-arctic-embed2", "query: ", True),
        ("mxbai-embed-large", "Represent this sentence for searching relevant passages: ", False),
        ("embeddinggemma:300m", "task: search result | query: ", True),
        ("thenlper/gte-small", "", False),
        ("all-minilm", "", False),
        ("paraphrase-multilingual-MiniLM-L12-v2", "", True),
        ("something-new", "", True),
    ],
)
def test_the_well_known_models_are_known(model: str, query: str, multilingual: bool) -> None:
    habits = habits_of(model)
    assert (habits.query_prefix, habits.multilingual) == (query, multilingual)


def test_an_unknown_model_takes_texts_as_they_are() -> None:
    assert habits_of("my-own") == Habits()


async def test_a_missing_model_says_how_to_get_it() -> None:
    async with opened("ollama", "nomic-embed-text") as (server, embedder):
        server.answer = lambda path, body: (404, b'{"error": "model not found, try pulling it first"}')
        with pytest.raises(EmbeddingError, match="ollama pull nomic-embed-text"):
            await embedder.ready()
        assert len(server.requests) == 1


@both
async def test_a_server_that_is_busy_is_asked_again(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        server.headers = [("Retry-After", "0")]
        statuses = iter([503, 429, 200])
        server.answer = lambda path, body: (next(statuses), embeddings(path, body))
        await embedder.ready()
        assert len(server.requests) == 3


@both
async def test_a_server_that_keeps_failing_is_given_up(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        server.answer = lambda path, body: (500, b"Internal Server Error")
        with pytest.raises(EmbeddingError, match="status 500 3 times"):
            await embedder.embed_documents(["text"])
        assert len(server.requests) == 3


@both
async def test_a_refusal_is_not_repeated(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        server.answer = lambda path, body: (400, b'{"error": "no"}')
        with pytest.raises(EmbeddingError, match="refused with status 400"):
            await embedder.ready()
        assert len(server.requests) == 1


@both
async def test_a_server_that_is_not_there_is_named(kind: Kind) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    url = f"http://user:{SECRET}@127.0.0.1:{port}"
    settings = Settings(embedder=kind, embedding_model="m", embedding_url=url)
    with trio.fail_after(30):
        async with open_embedder(settings) as embedder:
            with pytest.raises(EmbeddingError, match=f"127.0.0.1:{port} cannot be reached") as caught:
                await embedder.ready()
    assert SECRET not in str(caught.value)


@both
async def test_a_slow_server_is_not_waited_for(kind: Kind) -> None:
    async with opened(kind, embedding_timeout=0.2) as (server, embedder):
        server.silent = True
        with pytest.raises(EmbeddingError, match=r"did not answer within 0\.2 s"):
            await embedder.ready()
        assert len(server.requests) == 1


@both
async def test_those_who_wait_for_a_check_share_its_failure(kind: Kind) -> None:
    failed = 0

    async def ask(embedder: Embedder) -> None:
        nonlocal failed
        with pytest.raises(EmbeddingError, match=r"did not answer within 0\.5 s"):
            await embedder.embed_query("text")
        failed += 1

    async with opened(kind, embedding_timeout=0.5) as (server, embedder):
        server.silent = True
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(ask, embedder)
        assert (failed, len(server.requests)) == (4, 1)


@both
async def test_a_failed_check_is_soon_forgotten(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "HOLD_OFF", 0.0)
    async with opened(kind) as (server, embedder):
        server.answer = lambda path, body: (400, b"{}")
        with pytest.raises(EmbeddingError):
            await embedder.ready()
        server.answer = None
        await embedder.ready()


@both
async def test_who_waits_for_a_check_that_is_cancelled_makes_its_own(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        server.silent = True
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as inner:
                    inner.start_soon(embedder.ready)
                    await server.waiting.wait()
                    nursery.start_soon(embedder.ready)
                    server.silent = False
                    scope.cancel()
        assert (embedder.dimension, len(server.requests)) == (DIMENSION, 2)


@both
async def test_an_answer_that_breaks_off_is_an_error(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        server.half_closed = True
        with pytest.raises(EmbeddingError, match="broke off"):
            await embedder.ready()


@both
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>It works!</html>", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"[]", "does not send embeddings"),
        (b"{}", "does not send embeddings"),
        (b'{"embeddings": null, "data": null}', "no usable vectors|does not send"),
        (b'{"embeddings": [], "data": []}', "no usable vectors"),
        (b'{"embeddings": [["x"]], "data": [{"index": 0, "embedding": ["x"]}]}', "does not send embeddings"),
        (b'{"embeddings": [[]], "data": [{"index": 0, "embedding": []}]}', "no usable vectors"),
        (
            b'{"embeddings": [[1], [2]], "data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [2]}]}',
            "1 were",
        ),
        *(
            (b'{"embeddings": [[%s]], "data": [{"index": 0, "embedding": [%s]}]}' % (number, number), message)
            for number, message in (
                (b"NaN", "no usable vectors"),
                (b"-Infinity", "no usable vectors"),
                (b"1e300", "no usable vectors"),
                (b"9" * 400, "does not send embeddings"),
            )
        ),
    ],
)
async def test_a_wrong_answer_is_an_error(kind: Kind, answer: bytes, message: str) -> None:
    async with opened(kind) as (server, embedder):
        server.answer = lambda path, body: (200, answer)
        with pytest.raises(EmbeddingError, match=message):
            await embedder.ready()
        assert embedder.dimension == 0


@both
async def test_large_numbers_keep_their_direction(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        large = b"[3e38, 3e38]"
        server.answer = lambda path, body: (
            200,
            b'{"embeddings": [%s], "data": [{"index": 0, "embedding": %s}]}' % (large, large),
        )
        row = await embedder.embed_query("text")
    assert np.allclose(row, np.sqrt(0.5))


@both
async def test_half_a_surrogate_pair_is_an_error_like_any_other(kind: Kind) -> None:
    async with opened(kind) as (_, embedder):
        with pytest.raises(EmbeddingError, match="surrogate"):
            await embedder.embed_query("a \ud83d b")
        assert (await embedder.embed_query("text")).shape == (DIMENSION,)


@both
async def test_no_more_is_read_than_vectors_can_come_to(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MOST_BYTES", 100_000)
    async with opened(kind) as (server, embedder):
        await embedder.ready()
        server.answer = lambda path, body: (200, embeddings(path, body) + b" " * 1_000_000)
        with pytest.raises(EmbeddingError, match="more than 100,000 bytes"):
            await embedder.embed_query("text")
        server.answer = None
        assert (await embedder.embed_query("text")).shape == (DIMENSION,)


@both
async def test_vectors_of_another_length_are_refused(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        await embedder.ready()
        server.answer = lambda path, body: (
            200,
            json.dumps({"embeddings": [[1.0, 2.0]], "data": [{"index": 0, "embedding": [1.0, 2.0]}]}).encode(),
        )
        with pytest.raises(EmbeddingError, match="2 dimensions after 4"):
            await embedder.embed_query("text")


@both
async def test_a_wrong_key_is_said_without_showing_it(kind: Kind) -> None:
    async with opened(kind, embedding_api_key=SECRET) as (server, embedder):
        server.answer = lambda path, body: (401, json.dumps({"error": f"bad key {SECRET}"}).encode())
        with pytest.raises(EmbeddingError, match="embedding_api_key") as caught:
            await embedder.ready()
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(embedder)


@both
async def test_a_text_beyond_the_window_keeps_its_end(kind: Kind) -> None:
    def limited(path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if any(len(text) > 300 for text in body["input"]):
            return 400, b'{"error": "the input length exceeds the context length"}'
        return 200, embeddings(path, body)

    async with opened(kind) as (server, embedder):
        server.answer = limited
        head = "b" * 1000
        rows = await embedder.embed_documents(["short", head + "a" * 1000, head + "c" * 1000])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert not np.allclose(rows[1], rows[2])
    alone = np.array(vector_for("short"))
    assert np.allclose(rows[0], alone / np.linalg.norm(alone), atol=1e-6)


async def test_a_server_that_calls_everything_too_long_is_given_up() -> None:
    async with opened("ollama") as (server, embedder):
        server.answer = lambda path, body: (400, b'{"error": "too long"}')
        with pytest.raises(EmbeddingError, match="too long"):
            await embedder.embed_documents(["text " * 50])


@both
async def test_cancelling_hangs_up(kind: Kind) -> None:
    async with opened(kind) as (server, embedder):
        await embedder.ready()
        server.silent = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(embedder.embed_query, "text")
            await server.waiting.wait()
            nursery.cancel_scope.cancel()
        await server.closed.wait()
        server.silent = False
        assert (await embedder.embed_query("text")).shape == (DIMENSION,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedder": "ollama"}, "needs embedding_model"),
        ({"embedder": "openai", "embedding_model": "m"}, "needs embedding_url"),
        ({"embedder": "openai", "embedding_model": "m", "embedding_url": "localhost:1"}, "http://"),
        (
            {"embedder": "openai", "embedding_model": "m", "embedding_url": "http://me:secret/x@host/v1"},
            "a host or port that cannot be read; in a password, / is written %2F",
        ),
        ({"embedder": "onnx"}, "the folder of the model"),
        ({"embedder": "onnx", "embedding_model": "/nowhere"}, "model.onnx"),
    ],
)
async def test_settings_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        async with open_embedder(Settings(**options)):
            pass
    assert "secret" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"


async def test_a_key_in_the_query_of_the_address_stays_behind_the_path() -> None:
    async with open_embedding_server() as server:
        settings = Settings(embedder="openai", embedding_model="m", embedding_url=f"{server.url}/v1/?key=secret")
        async with open_embedder(settings) as embedder:
            with trio.fail_after(30):
                await embedder.ready()
        assert [target for target, _, _ in server.requests] == ["/v1/embeddings?key=secret"]
