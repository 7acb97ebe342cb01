"""Searching while the embedding server hangs: by words, in time, and with a note that says so."""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

from tests.embedding_server import EmbeddingServer, open_embedding_server
from zapomni.engine import MemoryEngine, open_engine
from zapomni.engine.finding import ONLY_WORDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zapomni.config import Settings
    from zapomni.models import SearchResult


@asynccontextmanager
async def hanging(settings: Settings, *, timeout: float) -> AsyncIterator[tuple[EmbeddingServer, MemoryEngine]]:
    """Open an engine whose memories have vectors, and whose server reads what is asked and never answers."""
    async with open_embedding_server() as server:
        settings = attrs.evolve(
            settings,
            workspace=f"test-{uuid.uuid4().hex}",
            embedder="ollama",
            embedding_model="plain",
            embedding_url=server.url,
            embedding_timeout=timeout,
        )
        async with open_engine(settings) as engine:
            await engine.add_memory("The spare key is with Nadia")
        server.silent = True
        server.requests.clear()
        async with open_engine(settings) as engine:  # which has still to find out that the model is there
            yield server, engine
            await engine.delete_workspace(settings.workspace)


def by_words(result: SearchResult) -> bool:
    return [hit.text for hit in result.hits] == ["The spare key is with Nadia"] and result.notice == ONLY_WORDS


async def test_searches_at_the_same_time_wait_for_a_hanging_server_together(store_settings: Settings) -> None:
    results: list[SearchResult] = []

    async def search(engine: MemoryEngine) -> None:
        results.append(await engine.search_memory("spare key"))

    with trio.fail_after(30):
        async with hanging(store_settings, timeout=1.0) as (server, engine):
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(search, engine)
            assert len(server.requests) == 1
    assert len(results) == 4
    assert all(map(by_words, results))


async def test_a_call_is_answered_by_words_before_its_time_is_over(store_settings: Settings) -> None:
    with trio.fail_after(30):
        async with hanging(store_settings, timeout=60.0) as (server, engine):
            for asked in (1, 2):
                with trio.fail_after(4):
                    assert by_words(await engine.search_memory("spare key"))
                assert len(server.requests) == asked
            server.silent = False
            assert (await engine.search_memory("spare key")).notice is None


async def test_a_search_that_is_cancelled_ends_at_once(store_settings: Settings) -> None:
    with trio.fail_after(30):
        async with hanging(store_settings, timeout=60.0) as (server, engine):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(engine.search_memory, "spare key")
                    await server.waiting.wait()
                    scope.cancel()
            assert scope.cancelled_caught
            await server.closed.wait()
