"""The wire format that most embedding servers share: POST /v1/embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zapomni.embed.remote import RemoteEmbedder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zapomni.embed.known import Habits
    from zapomni.embed.remote import Server


def openai_embedder(server: Server, model: str, habits: Habits) -> RemoteEmbedder:
    """Return an embedder for a model behind an OpenAI-compatible server."""

    def ask(texts: Sequence[str]) -> tuple[str, dict[str, Any]]:
        return "/embeddings", {"model": model, "input": list(texts), "encoding_format": "float"}

    def read(answer: Any) -> Sequence[Sequence[float]]:
        return [item["embedding"] for item in sorted(answer["data"], key=lambda item: int(item["index"]))]

    missing = (
        f"the embedding server at {server.place} does not have the model {model}, or embedding_url is not its"
        " base address, which usually ends in /v1"
    )
    return RemoteEmbedder(server, f"openai/{model}", habits, ask, read, missing)
