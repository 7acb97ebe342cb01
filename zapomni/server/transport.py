"""Messages over a pair of byte streams.

`Incoming` reads in the task of whoever asks for the next message; what is no message is answered on the way. Writing
has a task of its own, because the scope of a request is cancelled by its client, and a line that was begun must be
finished. Answers that are ready at the same time leave in one write.

Reading ends at the end of the stream, or when `Transport.stop` says so: a signal and a closed stdin are the same
event. Requests that are still running then get the grace to answer; after it the messages end, the SDK cancels what
is left, and what it has to say is flushed, for as long as the peer reads and no longer than that.
"""

from __future__ import annotations

import collections
import contextlib
from typing import TYPE_CHECKING, Self

import anyio
import attrs
import mcp_types as types
import trio
from mcp.shared.dispatcher import as_request_id, coerce_request_id

from zapomni.server.framing import TOO_LONG, LineSplitter, decode, encode, error_line, too_long_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from mcp.shared.message import SessionMessage

READ_SIZE = 256 * 1024
FLUSH_SECONDS = 1.0
MAX_IN_FLIGHT = 1000
MAX_UNSENT_BYTES = 16 * 1024 * 1024
SERVER_BUSY = -32000

_CLOSED = (trio.BrokenResourceError, trio.ClosedResourceError)


class InFlight:
    """The requests that have been read and not yet answered.

    Ids that the SDK takes for one and the same, such as 1 and "1", are one here, too.
    """

    def __init__(self) -> None:
        self._ids: set[types.RequestId] = set()
        self._writing = False
        self._settled = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, request_id: types.RequestId) -> bool:
        return coerce_request_id(request_id) in self._ids

    def note_incoming(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest) and message.method != "subscriptions/listen":
            self._ids.add(coerce_request_id(message.id))
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))

    def note_outgoing(self, messages: Iterable[types.JSONRPCMessage]) -> None:
        """Set the ids of answers free before they are written: whoever has read one may use its id again at once."""
        self._writing = True
        for message in messages:
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                self._settle(message.id)

    def note_written(self) -> None:
        self._writing = False
        self._wake()

    def _settle(self, request_id: object) -> None:
        if (known := as_request_id(request_id)) is not None:
            self._ids.discard(coerce_request_id(known))
            self._wake()

    def _wake(self) -> None:
        if not self._ids and not self._writing:
            self._settled.unpark_all()

    async def wait_settled(self) -> None:
        """Wait until everything is answered, and the answers are written."""
        while self._ids or self._writing:
            await self._settled.park()


class Outgoing:
    """Takes messages, and lines that are ready, from any task; one task writes them."""

    def __init__(self) -> None:
        self._unsent: list[tuple[bytes, types.JSONRPCMessage | None]] = []
        self._unsent_bytes = 0
        self._closed = False
        self._changed = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    async def send(self, item: SessionMessage | bytes) -> None:
        """Queue a message; wait while the peer does not read."""
        if self._closed:
            raise anyio.ClosedResourceError
        line, message = (item, None) if isinstance(item, bytes) else (encode(item.message), item.message)
        self._unsent.append((line, message))
        self._unsent_bytes += len(line)
        self._changed.unpark_all()
        while self._unsent_bytes > MAX_UNSENT_BYTES:
            await self._room.park()

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """Take no more; what is queued is still written."""
        self._closed = True
        self._changed.unpark_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def write_to(self, sink: trio.abc.SendStream, in_flight: InFlight) -> None:
        """Write what is queued until there is nothing more to come."""
        while True:
            while not self._unsent:
                if self._closed:
                    return
                await self._changed.park()
            batch, self._unsent, self._unsent_bytes = self._unsent, [], 0
            self._room.unpark_all()
            in_flight.note_outgoing(message for _, message in batch if message is not None)
            await sink.send_all(b"".join(line for line, _ in batch))
            in_flight.note_written()


class Incoming:
    """The messages of a peer, in the form that the SDK's server reads."""

    def __init__(
        self, source: trio.abc.ReceiveStream, outgoing: Outgoing, in_flight: InFlight, *, max_bytes: int, grace: float
    ) -> None:
        self._source = source
        self._outgoing = outgoing
        self._in_flight = in_flight
        self._max_bytes = max_bytes
        self._grace = grace
        self._splitter = LineSplitter(max_bytes)
        self._lines: collections.deque[bytes | None] = collections.deque()
        self._reading: trio.CancelScope | None = None
        self._ended = False

    def stop(self) -> None:
        """Read no more."""
        self._ended = True
        self._lines.clear()
        if self._reading is not None:
            self._reading.cancel()

    async def aclose(self) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def __aiter__(self) -> Self:
        return self

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            while self._lines:
                message = await self._take(self._lines.popleft())
                if message is not None:
                    return message
            if self._ended:
                with trio.move_on_after(self._grace):
                    await self._in_flight.wait_settled()
                raise StopAsyncIteration
            await self._read()

    async def _read(self) -> None:
        """Read some more lines, or find that there are none."""
        data = b""
        with trio.CancelScope() as self._reading, contextlib.suppress(*_CLOSED):
            data = bytes(await self._source.receive_some(READ_SIZE))
        self._reading = None
        if data:
            self._lines.extend(self._splitter.feed(data))
        elif not self._ended:
            self._ended = True
            self._lines.append(self._splitter.close())

    async def _take(self, line: bytes | None) -> SessionMessage | None:
        """Return the message of a line; answer a line that holds none."""
        if line is TOO_LONG:
            await self._outgoing.send(too_long_line(self._max_bytes))
            return None
        if not line.strip():
            return None
        item = decode(line)
        if isinstance(item, bytes):
            await self._outgoing.send(item)
            return None
        refusal = self._refusal_of(item.message)
        if refusal is not None:
            await self._outgoing.send(refusal)
            return None
        self._in_flight.note_incoming(item.message)
        return item

    def _refusal_of(self, message: types.JSONRPCMessage) -> bytes | None:
        """Return why a request cannot be taken now, if that is so."""
        if not isinstance(message, types.JSONRPCRequest):
            return None
        if message.id in self._in_flight:
            # The SDK cancels by the id, so of two with the same one only the later could be given up.
            words = "Invalid Request: a request with this id is still running"
            return error_line(types.INVALID_REQUEST, words, message.id)
        # A ping asks whether we live, and always gets its answer.
        if message.method != "ping" and len(self._in_flight) >= MAX_IN_FLIGHT:
            return error_line(SERVER_BUSY, "Server is busy: too many requests wait", message.id)
        return None


@attrs.frozen
class Transport:
    """A connection in the form that the SDK's server takes."""

    incoming: Incoming
    outgoing: Outgoing

    def stop(self) -> None:
        """Read no more; what is running gets its grace."""
        self.incoming.stop()


@contextlib.asynccontextmanager
async def open_transport(
    source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, *, max_bytes: int, grace: float
) -> AsyncIterator[Transport]:
    """Serve a connection until the body ends; a peer that stopped reading ends the body."""
    in_flight, outgoing = InFlight(), Outgoing()
    incoming = Incoming(source, outgoing, in_flight, max_bytes=max_bytes, grace=grace)
    writing = trio.CancelScope(shield=True)

    async def write() -> None:
        with writing:
            try:
                await outgoing.write_to(sink, in_flight)
            except _CLOSED:
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        try:
            yield Transport(incoming, outgoing)
        finally:
            outgoing.close()
            writing.deadline = trio.current_time() + FLUSH_SECONDS  # where the peer has stopped reading
