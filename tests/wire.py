"""A client that speaks raw lines, for what no well-behaved client would send."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from zapomni.server import MCPServer

Message = dict[str, Any]

INITIALIZE: Message = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


def request(request_id: Any, method: str, params: Message | None = None) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


def call(request_id: Any, tool: str, **arguments: Any) -> Message:
    return request(request_id, "tools/call", {"name": tool, "arguments": arguments})


def cancel(request_id: Any) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


class CutOff(EOFError):
    """The stream ended inside a line."""


class RawClient:
    """Sends bytes or messages, and returns messages as they come."""

    def __init__(self, sink: trio.abc.SendStream, source: trio.abc.ReceiveStream) -> None:
        self.sink = sink
        self.source = source
        self.unread = bytearray()
        self.kept: list[Message] = []

    async def send(self, *messages: Message | bytes) -> None:
        lines = (item if isinstance(item, bytes) else json.dumps(item).encode() for item in messages)
        await self.sink.send_all(b"".join(line + b"\n" for line in lines))

    async def receive(self) -> Message | None:
        """Return the next message, or None at the end of the stream."""
        with trio.fail_after(30):
            while (end := self.unread.find(b"\n")) < 0:
                data = await self.source.receive_some(1 << 20)
                if not data:
                    if self.unread:
                        raise CutOff("the stream ended inside a line")
                    return None
                self.unread += data
        line = bytes(self.unread[:end])
        del self.unread[: end + 1]
        message: Message = json.loads(line)
        return message

    async def answer_to(self, request_id: Any) -> Message:
        """Return the answer to one request; others that come before it are kept."""
        for message in self.kept:
            if message.get("id") == request_id:
                self.kept.remove(message)
                return message
        while (message_or_end := await self.receive()) is not None:
            if message_or_end.get("id") == request_id:
                return message_or_end
            self.kept.append(message_or_end)
        raise EOFError(f"the stream ended without an answer to {request_id!r}")

    async def ask(self, message: Message) -> Message:
        await self.send(message)
        return await self.answer_to(message["id"])

    async def initialize(self) -> Message:
        answer = await self.ask(request("init", "initialize", INITIALIZE))
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer


@contextlib.asynccontextmanager
async def connected(server: MCPServer, *, initialized: bool = True) -> AsyncIterator[RawClient]:
    """Run a server over streams in memory, through the real framing; the client's end closes at the end."""
    to_server, server_source = trio.testing.memory_stream_one_way_pair()
    server_sink, from_server = trio.testing.memory_stream_one_way_pair()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run, server_source, server_sink)
        client = RawClient(to_server, from_server)
        if initialized:
            await client.initialize()
        yield client
        await to_server.aclose()
