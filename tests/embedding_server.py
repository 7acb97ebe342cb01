"""An embedding server on loopback that speaks both wire formats, and misbehaves on request."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import h11
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

DIMENSION = 4


def vector_for(text: str) -> list[float]:
    """A vector that tells texts apart."""
    return [float(len(text)), float(text.count("a")), float(text.count(" ")) + 1.0, 2.0]


@attrs.define
class EmbeddingServer:
    """What the server was asked, and how it is to answer."""

    url: str
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = attrs.field(factory=list)
    answer: Callable[[str, dict[str, Any]], tuple[int, bytes]] | None = None
    """Answers instead of the server, where set."""
    half_closed: bool = False
    """Breaks off in the middle of an answer."""
    silent: bool = False
    """Reads requests and never answers."""
    headers: list[tuple[str, str]] = attrs.field(factory=list)
    waiting: trio.Event = attrs.field(factory=trio.Event)
    closed: trio.Event = attrs.field(factory=trio.Event)

    @property
    def asked(self) -> list[list[str]]:
        return [body["input"] for _, _, body in self.requests]

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if self.answer is not None:
            return self.answer(path, body)
        return 200, embeddings(path, body)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one request: the connection is closed after it, which clients must cope with anyway."""
        connection = h11.Connection(h11.SERVER)
        target, headers, data = "", {}, b""
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await stream.receive_some())
                elif isinstance(event, h11.Request):
                    target = event.target.decode()
                    headers = {name.decode(): value.decode() for name, value in event.headers}
                elif isinstance(event, h11.Data):
                    data += event.data
                else:
                    break
            if not target:
                return
            body = json.loads(data)
            self.requests.append((target, headers, body))
            if self.silent:
                self.waiting.set()
                await stream.receive_some()  # returns when the client goes
                self.closed.set()
                return
            status, content = self.reply(target, body)
            length = [("Content-Length", str(len(content))), ("Connection", "close"), *self.headers]
            head = connection.send(h11.Response(status_code=status, headers=length))
            await stream.send_all(head or b"")
            await stream.send_all(content[: len(content) // 2] if self.half_closed else content)
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            return
        finally:
            await stream.aclose()


def embeddings(path: str, body: dict[str, Any]) -> bytes:
    """Return what a well-behaved server answers."""
    vectors = [vector_for(text) for text in body["input"]]
    if path.partition("?")[0].endswith("/api/embed"):
        return json.dumps({"model": body["model"], "embeddings": vectors}).encode()
    items = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return json.dumps({"object": "list", "data": items[::-1]}).encode()


@asynccontextmanager
async def open_embedding_server() -> AsyncIterator[EmbeddingServer]:
    """Serve on a free port of loopback."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = EmbeddingServer(f"http://127.0.0.1:{port}")
        nursery.start_soon(partial(trio.serve_listeners, server.serve, listeners))
        yield server
        nursery.cancel_scope.cancel()
