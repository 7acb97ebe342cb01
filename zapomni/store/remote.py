"""The way to a FalkorDB elsewhere: one server, one that Sentinels watch, or a cluster.

The server says which of them it is. The falkordb client has ways of its own for the last two, which do not serve here:
it asks one Sentinel only, and on a cluster it drops time-outs and sends a write again after a broken connection.
"""

from __future__ import annotations

import bisect
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from redis.connection import Connection as PlainConnection
from redis.connection import ConnectionPool, SSLConnection
from redis.crc import key_slot
from redis.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from zapomni.errors import ConfigError, DatabaseError
from zapomni.store.failures import NotDone
from zapomni.store.wire import CONNECT_TIMEOUT, Call, SinglePool, ask_hello, check_abilities, pool_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zapomni.config import Settings
    from zapomni.store.address import Address
    from zapomni.store.wire import ClientConnection, Command, Pools


def remote_pools(address: Address, settings: Settings) -> Pools:
    """Reach the first host of an address that answers, and find the rest through it."""
    options = pool_options(settings) | address.tls_options
    quick = options | {"socket_timeout": CONNECT_TIMEOUT}  # for questions that no server has to think about
    credentials: dict[str, Any] = {"username": address.username, "password": address.password}
    failures = []
    for host, port in address.hosts:
        kind = SSLConnection if address.tls else PlainConnection
        door = ConnectionPool(kind, host=host, port=port, **quick, **(address.sentinel_credentials or credentials))
        try:
            hello = ask_hello(door)
            mode = hello[b"mode"]
            if mode == b"sentinel":
                return _watched(door, address, options, credentials, replicas=settings.read_from_replicas)
            check_abilities(hello)
            if mode == b"cluster":
                make = partial(ConnectionPool, kind, **options, **credentials)
                return ClusterPools.of(_ask(door, "CLUSTER", "SLOTS"), host, make)
            return SinglePool(ConnectionPool(kind, host=host, port=port, **options, **credentials))
        except DatabaseError as error:
            failures.append(error)
        finally:
            door.disconnect()
    raise DatabaseError(f"no server of falkordb_url can be reached: {failures[-1]}") from failures[-1]


def _ask(pool: ConnectionPool, *command: str) -> Any:
    return Call().run(pool, lambda session: session.read([command])[0])


def _watched(
    door: ConnectionPool, address: Address, options: dict[str, Any], credentials: dict[str, Any], *, replicas: bool
) -> SinglePool:
    """Return the way to whichever server the Sentinels call the primary at the time of connecting."""
    names = [dict(zip(row[::2], row[1::2], strict=True))[b"name"].decode() for row in _ask(door, "SENTINEL", "MASTERS")]
    service = address.service or (names[0] if len(names) == 1 else None)
    if service not in names:
        raise ConfigError(f"falkordb_url must name one service of these Sentinels: ?service={'|'.join(names)}")
    asking = options | (address.sentinel_credentials or credentials) | {"socket_timeout": CONNECT_TIMEOUT}
    sentinel = Sentinel(address.hosts, sentinel_kwargs=asking | {"ssl": address.tls})  # type: ignore[no-untyped-call]
    kind = SentinelManagedSSLConnection if address.tls else SentinelManagedConnection

    def pool(*, is_master: bool) -> ConnectionPool:
        return SentinelConnectionPool(  # type: ignore[no-untyped-call]
            service, sentinel, connection_class=kind, is_master=is_master, **options, **credentials
        )

    primary = pool(is_master=True)
    check_abilities(ask_hello(primary))
    return SinglePool(primary, pool(is_master=False) if replicas else None)


@attrs.frozen
class ClusterPools:
    """A pool for each node of a cluster, as it was when it was looked at; a node refuses what is no longer its own."""

    ends: list[int]
    """The last slot of each range, ascending."""
    ranges: list[tuple[ConnectionPool, list[ConnectionPool]]]
    """For each range its primary and its replicas."""

    @classmethod
    def of(cls, slots: list[Any], asked: str, open_pool: Callable[..., ConnectionPool]) -> ClusterPools:
        """Make the pools from a reply to CLUSTER SLOTS."""
        made: dict[tuple[str, int, bool], ConnectionPool] = {}

        def pool(node: list[Any], *, replica: bool) -> ConnectionPool:
            host = (node[0] or b"").decode() or asked  # a node that does not know its own address leaves it out
            where = (host, node[1], replica)
            if where not in made:
                greet = {"redis_connect_func": _read_only} if replica else {}
                made[where] = open_pool(host=host, port=node[1], **greet)
            return made[where]

        rows = sorted(slots, key=lambda row: int(row[1]))
        return cls(
            [row[1] for row in rows],
            [(pool(row[2], replica=False), [pool(node, replica=True) for node in row[3:]]) for row in rows],
        )

    def pool(self, commands: Sequence[Command], *, replica: bool) -> ConnectionPool:
        index = bisect.bisect_left(self.ends, _slot(commands))
        if index == len(self.ends):
            raise NotDone("the cluster had no node for this workspace when it was last looked at")
        primary, replicas = self.ranges[index]
        return replicas[0] if replica and replicas else primary

    def close(self) -> None:
        for primary, replicas in self.ranges:
            for pool in (primary, *replicas):
                pool.disconnect(inuse_connections=False)


def _slot(commands: Sequence[Command]) -> int:
    """Return the slot of the first key; commands without one may go anywhere."""
    for name, *words in commands:
        if words and name != "INFO":
            key = words[0]
            return key_slot(key if isinstance(key, bytes) else str(key).encode())
    return 0


def _read_only(connection: ClientConnection) -> None:
    """Greet a replica of a cluster, which sends readers away unless they say that they know what it is."""
    connection.on_connect()
    connection.send_command("READONLY", check_health=False)
    connection.read_response()
