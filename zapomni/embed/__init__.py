"""Embedders: the bundled model, any ONNX model in a folder, Ollama, and OpenAI-compatible servers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs

from zapomni.embed.base import Embedder
from zapomni.embed.known import Habits, habits_of
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zapomni.config import Settings

__all__ = ["Embedder", "open_embedder"]


@asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncIterator[Embedder]:
    """Open the embedder that the settings name, without waiting for a model or a server.

    Raises `ConfigError` for settings that cannot work.
    """
    if settings.embedder == "bundled":
        from zapomni.embed.bundled import BundledEmbedder

        yield BundledEmbedder()
        return
    model = settings.embedding_model
    if not model:
        what = "the folder of the model" if settings.embedder == "onnx" else "the model's name"
        raise ConfigError(f"the {settings.embedder} embedder needs embedding_model, {what}")
    if settings.embedder == "onnx":
        from zapomni.embed.onnx import OnnxEmbedder, find_model

        folder = find_model(model)
        yield OnnxEmbedder(folder, _habits(settings, folder.name), settings.embedding_pooling)
        return

    from zapomni.embed import ollama, openai, remote

    url = settings.embedding_url or (ollama.URL if settings.embedder == "ollama" else None)
    if url is None:
        raise ConfigError("the openai embedder needs embedding_url, such as http://localhost:8080/v1")
    make = ollama.ollama_embedder if settings.embedder == "ollama" else openai.openai_embedder
    async with remote.open_server(url, settings.embedding_timeout, settings.embedding_api_key) as server:
        yield make(server, model, _habits(settings, model))


def _habits(settings: Settings, model: str) -> Habits:
    habits = habits_of(model)
    if settings.embedding_query_prefix is not None:
        habits = attrs.evolve(habits, query_prefix=settings.embedding_query_prefix)
    if settings.embedding_document_prefix is not None:
        habits = attrs.evolve(habits, document_prefix=settings.embedding_document_prefix)
    return habits
