"""Messages over a pair of byte streams.

Two tasks: one reads and answers what is no message, the other writes. Writing has a task of its own because the scope
of a request is cancelled by its client, and a line that was begun must be finished. Answers that are ready at the same
time leave in one write.

Reading ends at the end of the stream, or when `Transport.stop` says so: a signal and a closed stdin are the same
event. Requests that are still running then get the grace to answer; after it the message stream closes, the SDK
cancels what is left, and what it has to say is flushed, for as long as the peer reads and no longer than that.
"""

from __future__ import annotations

import collections
import contextlib
from typing import TYPE_CHECKING

import anyio
import attrs
import mcp_types as types
import trio
from mcp.shared.message import SessionMessage

from zapomni.server.framing import TOO_LONG, LineSplitter, decode, encode, error_line, too_long_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

READ_SIZE = 256 * 1024
FLUSH_SECONDS = 1.0
MAX_IN_FLIGHT = 1000
SERVER_BUSY = -32000

Outgoing = SessionMessage | bytes

_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, trio.BrokenResourceError, trio.ClosedResourceError)


class InFlight:
    """The requests that have been read and not yet answered."""

    def __init__(self) -> None:
        self._requests: collections.Counter[str] = collections.Counter()
        self._settled = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return self._requests.total()

    def note_incoming(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._requests[str(message.id)] += 1
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))

    def note_outgoing(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._settle(message.id)

    def _settle(self, request_id: object) -> None:
        name = str(request_id)
        if self._requests[name] > 1:
            self._requests[name] -= 1
        else:
            del self._requests[name]
        if not self._requests:
            self._settled.unpark_all()

    async def wait_settled(self) -> None:
        while self._requests:
            await self._settled.park()


@attrs.frozen
class Transport:
    """A connection in the form that the SDK's server takes."""

    incoming: MemoryObjectReceiveStream[SessionMessage | Exception]
    outgoing: MemoryObjectSendStream[SessionMessage]
    in_flight: InFlight
    _reading: trio.CancelScope

    def stop(self) -> None:
        """Read no more; what is running gets its grace."""
        self._reading.cancel()


@contextlib.asynccontextmanager
async def open_transport(
    source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, *, max_bytes: int, grace: float
) -> AsyncIterator[Transport]:
    """Serve a connection until the body ends; a peer that stopped reading ends the body."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[Outgoing](0)
    refusals = outgoing.clone()
    in_flight = InFlight()
    reading, writing = trio.CancelScope(), trio.CancelScope(shield=True)

    async def take(line: bytes | None) -> None:
        if line is TOO_LONG:
            await refusals.send(too_long_line(max_bytes))
            return
        if not line.strip():
            return
        item = decode(line)
        if isinstance(item, bytes):
            await refusals.send(item)
        elif isinstance(item.message, types.JSONRPCRequest) and len(in_flight) >= MAX_IN_FLIGHT:
            await refusals.send(error_line(SERVER_BUSY, "Server is busy: too many requests wait", item.message.id))
        else:
            in_flight.note_incoming(item.message)
            await to_server.send(item)

    async def read() -> None:
        lines = LineSplitter(max_bytes)
        async with to_server, refusals:
            with contextlib.suppress(*_CLOSED):  # nobody is left to read for
                with reading:
                    while data := await source.receive_some(READ_SIZE):
                        for line in lines.feed(data):
                            await take(line)
                    await take(lines.close())
                with trio.move_on_after(grace):
                    await in_flight.wait_settled()

    async def write() -> None:
        with writing:
            async with from_server:
                try:
                    async for first in from_server:
                        batch = [first, *_ready_now(from_server)]
                        await sink.send_all(b"".join(_as_line(item) for item in batch))
                        for item in batch:
                            if isinstance(item, SessionMessage):
                                in_flight.note_outgoing(item.message)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(read)
        try:
            yield Transport(incoming, outgoing, in_flight, reading)
        finally:
            outgoing.close()
            refusals.close()
            nursery.cancel_scope.cancel()  # the reader; the writer is shielded and ends with its stream,
            writing.deadline = trio.current_time() + FLUSH_SECONDS  # or here, where the peer has stopped reading


def _as_line(item: Outgoing) -> bytes:
    return item if isinstance(item, bytes) else encode(item.message)


def _ready_now(stream: MemoryObjectReceiveStream[Outgoing]) -> list[Outgoing]:
    ready: list[Outgoing] = []
    with contextlib.suppress(anyio.WouldBlock, anyio.EndOfStream):
        while True:
            ready.append(stream.receive_nowait())
    return ready
