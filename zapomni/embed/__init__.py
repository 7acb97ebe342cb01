"""Embedders: the bundled model, any ONNX model in a folder, Ollama, and OpenAI-compatible servers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from zapomni.embed.base import Embedder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zapomni.config import Settings

__all__ = ["Embedder", "open_embedder"]


@asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncIterator[Embedder]:
    """Open the embedder that the settings name, without waiting for a model or a server."""
    from zapomni.embed.bundled import BundledEmbedder

    yield BundledEmbedder()
