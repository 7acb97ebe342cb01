"""Ollama's own wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zapomni.embed.remote import RemoteEmbedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zapomni.embed.known import Habits
    from zapomni.embed.remote import Server

URL = "http://localhost:11434"


def ollama_embedder(server: Server, model: str, habits: Habits) -> RemoteEmbedder:
    """Return an embedder for a model that Ollama serves."""

    def ask(texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
        # Left to itself Ollama cuts off what does not fit the model's window, and says nothing.
        return "/api/embed", {"model": model, "input": list(texts), "truncate": False}

    def read(answer: Any) -> Sequence[Sequence[float]]:
        rows: Sequence[Sequence[float]] = answer["embeddings"]
        return rows

    missing = f"Ollama at {server.place} does not have the model {model}; get it with: ollama pull {model}"
    return RemoteEmbedder(server, f"ollama/{model}", habits, ask, read, missing)
