"""The synchronous half of the connection, for worker threads: the client library, its connections and its errors.

Nothing here repeats a command. Every failure of the client, the server or the system leaves as one of our errors,
through `translated` and nowhere else, and tells whether the command may have run.
"""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import attrs
from redis import exceptions as client_errors
from redis.backoff import NoBackoff
from redis.connection import ConnectionPool, UnixDomainSocketConnection
from redis.retry import Retry

from zapomni.errors import ConfigError, DatabaseError
from zapomni.store.failures import Lost, NotDone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zapomni.config import Settings

type Word = bytes | str | int | float
type Command = Sequence[Word]
type ClientConnection = Any  # redis.connection.AbstractConnection, most of which has no types

CONNECT_TIMEOUT = 5.0
ANSWER_MARGIN = 5.0  # the server ends a query at its own limit first, and then the outcome is known
ERROR_LENGTH = 300

# Replies that say that nothing ran, and that another server or a later moment may do better.
REFUSALS = (
    client_errors.BusyLoadingError,
    client_errors.ReadOnlyError,
    client_errors.AskError,  # and MovedError
    client_errors.TryAgainError,
    client_errors.ClusterDownError,  # and MasterDownError
)
FORBIDDEN = (client_errors.AuthenticationError, client_errors.AuthorizationError, client_errors.NoPermissionError)


class Pools(Protocol):
    """Knows which server commands belong to."""

    def pool(self, commands: Sequence[Command], *, replica: bool) -> ConnectionPool: ...

    def close(self) -> None: ...


@attrs.frozen
class SinglePool:
    """One server, and perhaps its replicas."""

    primary: ConnectionPool
    replicas: ConnectionPool | None = None

    def pool(self, commands: Sequence[Command], *, replica: bool) -> ConnectionPool:
        return self.replicas if replica and self.replicas is not None else self.primary

    def close(self) -> None:
        for pool in (self.primary, self.replicas):
            if pool is not None:
                pool.disconnect(inuse_connections=False)  # the others belong to threads, which close them


def pool_options(settings: Settings) -> dict[str, Any]:
    """Return what every connection has in common."""
    return {
        "protocol": 2,  # plain lists; with 3 the shape of a reply depends on the server's age
        "decode_responses": False,
        "socket_timeout": settings.query_timeout + ANSWER_MARGIN,
        "socket_connect_timeout": CONNECT_TIMEOUT,
        "retry": Retry(NoBackoff(), 0),  # a repeated write is a second write
        "health_check_interval": 0,
        "driver_info": None,  # saves two commands on every connection
        "max_connections": settings.pool_size,
    }


def local_pools(path: str, settings: Settings) -> Pools:
    """Return the way to the embedded server."""
    return SinglePool(ConnectionPool(UnixDomainSocketConnection, path=path, **pool_options(settings)))


def ask_hello(pool: ConnectionPool) -> dict[bytes, Any]:
    """Ask a server what it is: the one question that every user may ask, whatever its permissions."""
    words = Call().run(pool, lambda session: session.read([("HELLO",)])[0])
    return dict(zip(words[::2], words[1::2], strict=True))


def check_abilities(hello: dict[bytes, Any]) -> None:
    """Raise `ConfigError` when the server lacks what memories need."""
    modules = {module[1] for module in hello.get(b"modules", [])}
    if b"graph" not in modules:
        raise ConfigError("the server of falkordb_url is a Redis without FalkorDB; load the FalkorDB module there")
    if b"vectorset" not in modules:
        version = hello.get(b"version", b"").decode()
        raise ConfigError(f"the server of falkordb_url (Redis {version}) has no vector sets; Redis 8 or newer has them")


class Session:
    """A connection that this thread has to itself."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def read(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands that change nothing and return the replies; one that is an error raises."""
        return self._ask(commands, broken=NotDone)

    def write(self, command: Command) -> Any:
        """Send one command and return its reply."""
        return self._ask([command], broken=Lost)[0]

    def transact(self, commands: Sequence[Command]) -> list[Any] | None:
        """Run commands as one MULTI; None when a watched key has changed, and nothing ran."""
        *queued, results = self._exchange([("MULTI",), *commands, ("EXEC",)], broken=Lost)
        _raise_first(queued)
        _raise_first([results])
        if results is not None:
            _raise_first(results, refused=DatabaseError)  # the other commands did run
        return results  # type: ignore[no-any-return]

    def watch(self, keys: Sequence[Word], attempt: Callable[[Reader], Sequence[Command]]) -> list[Any] | None:
        """Run what `attempt` returns as one MULTI, unless a key has changed since the attempt began."""
        self.read([("WATCH", *keys)])
        try:
            commands = attempt(Reader(self))
        except BaseException:
            self._connection.disconnect()  # forgets the keys, and whatever the attempt was in the middle of
            raise
        if commands:
            return self.transact(commands)
        self.read([("UNWATCH",)])
        return []

    def _ask(self, commands: Sequence[Command], *, broken: type[NotDone | Lost]) -> list[Any]:
        replies = self._exchange(commands, broken=broken)
        _raise_first(replies)
        return replies

    def _exchange(self, commands: Sequence[Command], *, broken: type[NotDone | Lost]) -> list[Any]:
        connection = self._connection
        replies: list[Any] = []
        with translated(broken=broken):
            try:
                connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                for _ in commands:
                    try:
                        replies.append(connection.read_response())
                    except client_errors.ResponseError as error:
                        replies.append(error)
            except BaseException:
                connection.disconnect()  # replies may be on their way
                raise
        return replies


class Reader:
    """Reads for an attempt, on the connection that watches."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __call__(self, *command: Word) -> Any:
        """Run one command that changes nothing."""
        return self._session.read([command])[0]

    def all(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands that change nothing, in one round trip."""
        return self._session.read(commands)


class Call:
    """One call's use of a connection: a worker thread borrows it, and the caller may walk away at any moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: ClientConnection | None = None
        self._abandoned = False

    def run[T](self, pool: ConnectionPool, work: Callable[[Session], T]) -> T:
        """Lend a connection of the pool to some work; in the worker thread."""
        with translated(broken=NotDone, slow=NotDone):
            connection = pool.get_connection()
        try:
            self._take(connection)
            return work(Session(connection))
        finally:
            self._give_back(pool, connection)

    def abandon(self) -> None:
        """Wake the worker thread where it waits for the server, and make it close the connection; in the caller's."""
        with self._lock:
            self._abandoned = True
            waiting = self._connection._get_socket() if self._connection is not None else None
            if waiting is not None:
                # Not close(): the number could be another file before the thread notices. And not the method of a
                # TLS socket, which turns the stream into plain text under the thread's feet.
                with suppress(OSError):
                    socket.socket.shutdown(waiting, socket.SHUT_RDWR)

    def _take(self, connection: ClientConnection) -> None:
        with self._lock:
            self._connection = connection
            if self._abandoned:
                raise NotDone("the call was cancelled")

    def _give_back(self, pool: ConnectionPool, connection: ClientConnection) -> None:
        with self._lock:
            self._connection = None
            abandoned = self._abandoned
        if abandoned:
            connection.disconnect()
        pool.release(connection)


@contextmanager
def translated(
    *, broken: type[DatabaseError], slow: type[DatabaseError] = DatabaseError, refused: type[DatabaseError] = NotDone
) -> Iterator[None]:
    """Turn whatever the client and the system raise into our errors.

    A broken connection becomes `broken`, silence `slow`, and a server that cannot do it now `refused`: only the caller
    knows whether anything has run by then.
    """
    try:
        yield
    except FORBIDDEN as error:
        raise ConfigError(f"the database does not let this user in: {_brief(error)}") from error
    except REFUSALS as error:
        raise refused(f"the database cannot do this now: {_brief(error)}") from error
    except client_errors.TimeoutError as error:
        raise slow(f"the database did not answer in time: {_brief(error)}") from error
    except (client_errors.ConnectionError, OSError) as error:
        if isinstance(error.__context__, ssl.SSLCertVerificationError):
            raise ConfigError(f"the database's certificate is not to be trusted: {_brief(error)}") from error
        # A Sentinel's connection reports in this way that its server has become a replica, which ran nothing.
        kind = NotDone if isinstance(error.__context__, client_errors.ReadOnlyError) else broken
        raise kind(f"the connection to the database broke: {_brief(error)}") from error
    except (client_errors.RedisError, client_errors.RedisClusterException) as error:
        raise DatabaseError(f"the database refused: {_brief(error)}") from error


def _raise_first(replies: Sequence[Any], *, refused: type[DatabaseError] = NotDone) -> None:
    """Raise the first reply that is an error."""
    for reply in replies:
        if isinstance(reply, Exception):
            with translated(broken=Lost, refused=refused):
                raise reply


def _brief(error: Exception) -> str:
    text, _, _ = str(error).partition(" errCtx:")  # FalkorDB quotes the query there, and so somebody's memory
    return text if len(text) <= ERROR_LENGTH else text[:ERROR_LENGTH] + "…"
