"""The one bridge from Trio to the database.

A call borrows a connection from a bounded pool and runs in a worker thread. Cancelling it returns at once: the socket
is shut down, which wakes the thread, and the thread closes the connection. Threads can never be more than connections,
because a place in the limiter is free again only when its thread is.

What may be repeated is repeated once: a read, and whatever certainly did not run. A write that may have run never is.
"""

from __future__ import annotations

import random
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from anyio import CapacityLimiter, to_thread

from zapomni.errors import DatabaseError, ZapomniError
from zapomni.store.address import Address, parse_address
from zapomni.store.embedded import EmbeddedServer, open_embedded
from zapomni.store.failures import Lost, NotDone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from zapomni.config import Settings
    from zapomni.store.wire import Command as Command  # these two are for those who use a connection, too
    from zapomni.store.wire import Pools, Session, Word
    from zapomni.store.wire import Reader as Reader

CONFLICTS = 100  # somebody else's success each time, so this many in a row mean that something is wrong
LONGEST_PAUSE = 0.05


@asynccontextmanager
async def open_connection(settings: Settings) -> AsyncIterator[Connection]:
    """Open the way to the database. It is reached by the first call, so nothing waits for it here."""
    async with AsyncExitStack() as stack:
        if settings.falkordb_url is None:
            server: EmbeddedServer | Address = await stack.enter_async_context(open_embedded(settings))
        else:
            server = parse_address(settings.falkordb_url)
        connection = Connection(settings, server)
        stack.callback(connection.disconnect)
        yield connection


class Connection:
    """Sends commands to the database; replies are as they came: bytes, integers, lists, None.

    Every method waits for a server that still starts or loads. Every method raises `DatabaseError`, or `ConfigError`
    where somebody has to change something first. All commands of one call must share one hash slot.
    """

    def __init__(self, settings: Settings, server: EmbeddedServer | Address) -> None:
        self._settings = settings
        self._server = server
        self._limiter = CapacityLimiter(settings.pool_size)
        self._pools: Pools | None = None
        self._reaching = trio.Lock()

    @property
    def embedded(self) -> bool:
        return isinstance(self._server, EmbeddedServer)

    @property
    def directory(self) -> Path | None:
        """Where the embedded server keeps its files."""
        return self._server.directory if isinstance(self._server, EmbeddedServer) else None

    async def ready(self) -> None:
        """Wait until the database answers and is known to have the abilities that are needed."""
        # HELLO is what every user may ask, whatever its permissions.
        await self._run([("HELLO",)], lambda session: session.read([("HELLO",)]))

    async def read(self, *command: Word) -> Any:
        """Run one command that changes nothing."""
        return (await self.read_all([command]))[0]

    async def read_all(self, commands: Sequence[Command], *, fresh: bool = False) -> list[Any]:
        """Run commands that change nothing, in one round trip; one error raises.

        What has to be `fresh` is asked of the primary, since a replica may be behind.
        """
        if not commands:
            return []
        replica = self._settings.read_from_replicas and not fresh
        return await self._run(commands, lambda session: session.read(commands), replica=replica)

    async def write(self, *command: Word) -> Any:
        """Run one command."""
        self._check_room()
        return await self._run([command], lambda session: session.write(command))

    async def transaction(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands, at least one, as one MULTI; an error in any reply raises.

        The server lets nothing happen in between, but does not undo the others when one fails.
        """
        self._check_room()
        results = await self._run(commands, lambda session: session.transact(commands))
        assert results is not None, "only a watched key makes the server refuse"
        return results

    async def optimistic(
        self, keys: Sequence[bytes | str], attempt: Callable[[Reader], Sequence[Command]]
    ) -> list[Any]:
        """Run the commands that `attempt` returns as one MULTI, provided that no key changes meanwhile.

        `attempt` runs in a worker thread, and again whenever a key has changed: it should only read, through its
        argument. When it returns no commands, nothing is written and the result is empty.
        """
        self._check_room()
        for conflicts in range(CONFLICTS):
            results = await self._run([("WATCH", *keys)], lambda session: session.watch(keys, attempt))
            if results is not None:
                return results
            await trio.sleep(random.uniform(0, min(LONGEST_PAUSE, 0.001 * 2**conflicts)))
        raise DatabaseError(f"others changed the same keys {CONFLICTS} times in a row")

    def disconnect(self) -> None:
        """Close the idle connections; the next call opens new ones."""
        if self._pools is not None:
            self._pools.close()
            self._pools = None

    async def _run[T](self, commands: Sequence[Command], work: Callable[[Session], T], *, replica: bool = False) -> T:
        pools = await self._reach(stale=None)
        try:
            return await self._in_thread(pools, commands, work, replica=replica)
        except NotDone:
            pools = await self._reach(stale=pools)
        except Lost:
            if isinstance(self._server, EmbeddedServer):
                self._server.explain_end()
            raise
        return await self._in_thread(pools, commands, work, replica=False)  # a replica may be what failed

    def _check_room(self) -> None:
        """Raise when the disk is full: the embedded server would not survive a write."""
        if isinstance(self._server, EmbeddedServer):
            self._server.check_room()

    async def _in_thread[T](
        self, pools: Pools, commands: Sequence[Command], work: Callable[[Session], T], *, replica: bool
    ) -> T:
        from zapomni.store.wire import Call

        call = Call()

        def run() -> T:
            return call.run(pools.pool(commands, replica=replica), work)

        try:
            return await to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._limiter)
        except trio.Cancelled:
            call.abandon()
            raise

    async def _reach(self, *, stale: Pools | None) -> Pools:
        """Return the way to a server that answers, and a new way when the last one is stale."""
        if self._pools is None or self._pools is stale:
            async with self._reaching:
                if self._pools is None or self._pools is stale:
                    self.disconnect()
                    self._pools = await self._open_pools()
        return self._pools

    async def _open_pools(self) -> Pools:
        if isinstance(self._server, Address):
            return await to_thread.run_sync(
                _remote_pools, self._server, self._settings, abandon_on_cancel=True, limiter=self._limiter
            )
        failure = None
        async with trio.open_nursery() as nursery:
            # Takes as long as the server's start, and nobody who gives up should have to wait for it.
            nursery.start_soon(partial(to_thread.run_sync, _load_client, abandon_on_cancel=True))
            try:
                path = await self._server.serve()
            except ZapomniError as error:  # the nursery would wrap it in a group
                failure = error
        if failure is not None:
            raise failure
        from zapomni.store.wire import local_pools

        return local_pools(path, self._settings)


# The client library is imported in threads: it takes long enough to hold up a handshake.


def _load_client() -> None:
    import zapomni.store.wire  # noqa: F401


def _remote_pools(address: Address, settings: Settings) -> Pools:
    from zapomni.store.remote import remote_pools

    return remote_pools(address, settings)
