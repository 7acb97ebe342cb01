"""FalkorDB elsewhere: with passwords and TLS, behind Sentinels, as a cluster; all of it on loopback."""

from __future__ import annotations

import contextlib
import signal
import ssl
from typing import TYPE_CHECKING

import pytest
import trio
import trustme

from tests.servers import Server, ask, free_port, open_proxy, open_server
from zapomni.config import Settings
from zapomni.errors import ConfigError, DatabaseError
from zapomni.store.connection import Connection, open_connection
from zapomni.store.wire import check_abilities

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from zapomni.store.connection import Command, Reader

LONG = 60.0
KEYS = ("{zapomni:a}", "{zapomni:b}", "{zapomni:c}", "{zapomni:d}", "{zapomni:e}", "{zapomni:f}")


def remote(location: str, *, replicas: bool = False) -> Settings:
    return Settings(falkordb_url=location, read_from_replicas=replicas)


async def check_everything_works(connection: Connection, key: str) -> None:
    """Use a workspace in every way that there is."""
    create = ("GRAPH.QUERY", f"{key}:graph", "CREATE (:Memory {id: 'm'})")
    vector = ("VADD", f"{key}:vectors", "VALUES", 2, 1, 2, "m")
    assert (await connection.transaction([create, vector]))[1] == 1
    assert await connection.write("SET", f"{key}:n", 1) == b"OK"

    def increment(reader: Reader) -> Sequence[Command]:
        return [("SET", f"{key}:n", int(reader("GET", f"{key}:n")) + 1)]

    assert await connection.optimistic([f"{key}:n"], increment) == [b"OK"]
    count = ("GRAPH.RO_QUERY", f"{key}:graph", "MATCH (m:Memory) RETURN count(m)")
    replies = await connection.read_all([count, ("VCARD", f"{key}:vectors"), ("GET", f"{key}:n")])
    assert [replies[0][1], *replies[1:]] == [[[1]], 1, b"2"]


async def test_a_server_with_a_password(tmp_path: Path) -> None:
    async with open_server(tmp_path, "--requirepass", "s3cret@/?") as server:
        with trio.fail_after(LONG):
            async with open_connection(remote(f"falkor://:s3cret%40%2F%3F@127.0.0.1:{server.port}")) as connection:
                await connection.ready()
                await check_everything_works(connection, "{zapomni:a}")
                assert not connection.embedded
                assert connection.directory is None
            for wrong in ("", ":wr0ng@", "nobody:s3cret@"):
                async with open_connection(remote(f"falkor://{wrong}127.0.0.1:{server.port}")) as connection:
                    with pytest.raises(ConfigError) as caught:
                        await connection.ready()
                    assert "s3cret" not in str(caught.value)
                    assert "wr0ng" not in str(caught.value)


async def test_a_user_who_may_do_only_what_is_needed(tmp_path: Path) -> None:
    async with open_server(tmp_path) as server:
        rules = "on >pw ~{zapomni:* -@all +graph.query +graph.ro_query +vadd +vcard +get +set +multi +exec +watch"
        with trio.fail_after(LONG):
            assert await ask(server.port, "ACL", "SETUSER", "memory", *rules.split()) == b"+OK\r\n"
            async with open_connection(remote(f"falkor://memory:pw@127.0.0.1:{server.port}")) as connection:
                await connection.ready()
                await check_everything_works(connection, "{zapomni:a}")
                with pytest.raises(ConfigError, match=r"no permissions.*'del'"):
                    await connection.write("DEL", "{zapomni:a}:n")


async def test_a_redis_without_falkordb_is_refused(tmp_path: Path) -> None:
    async with (
        open_server(tmp_path, graph=False) as server,
        open_connection(remote(f"falkor://127.0.0.1:{server.port}")) as connection,
    ):
        with trio.fail_after(LONG), pytest.raises(ConfigError, match="without FalkorDB"):
            await connection.ready()


def test_a_server_without_vector_sets_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Redis 7\.4\.2\) has no vector sets"):
        check_abilities({b"version": b"7.4.2", b"modules": [[b"name", b"graph", b"ver", 42201]]})


async def test_a_server_that_is_not_there_is_a_database_error_until_it_is(tmp_path: Path) -> None:
    port = free_port()
    async with open_connection(remote(f"falkor://127.0.0.1:{port}")) as connection:
        with trio.fail_after(LONG):
            with pytest.raises(DatabaseError, match="can be reached"):
                await connection.write("SET", "k", 1)
            async with open_server(tmp_path) as server, open_proxy(server.port, at=port):
                assert await connection.write("SET", "k", 1) == b"OK"


async def test_a_read_is_sent_again_and_a_write_is_not(tmp_path: Path) -> None:
    lost: list[bytes] = []

    def on_reply(reply: bytes) -> bool:
        """Lose the first reply that holds the magic number, after the server has done its part."""
        if b"7777" not in reply or len(lost) == 1:
            return True
        lost.append(reply)
        return False

    async with (
        open_server(tmp_path) as server,
        open_proxy(server.port, on_reply=on_reply) as port,
        open_connection(remote(f"falkor://127.0.0.1:{port}")) as connection,
    ):
        with trio.fail_after(LONG):
            with pytest.raises(DatabaseError, match="broke"):
                await connection.write("INCRBY", "n", 7777)
            assert lost.pop() == b":7777\r\n"
            assert await connection.read("GET", "n") == b"7777", "it ran once, and the read was repeated"
            assert lost.pop() == b"$4\r\n7777\r\n"


async def test_a_server_with_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with open_server(tmp_path / "server") as server, open_proxy(server.port, tls=context) as port:
        with trio.fail_after(LONG):
            url = f"falkors://127.0.0.1:{port}?ssl_ca_certs={tmp_path}/ca.pem"
            async with open_connection(remote(url)) as connection:
                await check_everything_works(connection, "{zapomni:a}")
                with trio.move_on_after(0.1) as scope:
                    await connection.write("BLPOP", "nothing", 0)
                assert scope.cancelled_caught
                assert await connection.read("ECHO", "clean") == b"clean"
            async with open_connection(remote(f"falkors://127.0.0.1:{port}")) as connection:
                with pytest.raises(ConfigError, match="certificate"):
                    await connection.ready()


async def wait_for(server: Server, question: str, answer: bytes) -> None:
    """Ask a server until its answer holds something."""
    while answer not in await ask(server.port, question):  # noqa: ASYNC110  # servers do not tell by themselves
        await trio.sleep(0.05)


@contextlib.asynccontextmanager
async def open_watched(tmp_path: Path, *, password: str | None = None) -> AsyncIterator[tuple[Server, Server, Server]]:
    """Run a primary, its replica and a Sentinel that watches them."""
    options = ["--repl-diskless-sync-delay", "0"]
    options += ["--requirepass", password, "--masterauth", password] if password else []
    login = [f"sentinel auth-pass memory {password}"] if password else []
    async with contextlib.AsyncExitStack() as stack:
        primary = await stack.enter_async_context(open_server(tmp_path / "primary", *options))
        options += ["--replicaof", f"127.0.0.1 {primary.port}"]
        replica = await stack.enter_async_context(open_server(tmp_path / "replica", *options))
        login_first = f"AUTH {password}\r\n" if password else ""
        await wait_for(replica, f"{login_first}INFO replication", b"master_link_status:up")
        sentinel = await stack.enter_async_context(
            open_server(
                tmp_path / "sentinel",
                f"sentinel monitor memory 127.0.0.1 {primary.port} 1",
                "sentinel down-after-milliseconds memory 500",
                "sentinel failover-timeout memory 5000",
                *login,
                sentinel=True,
            )
        )
        await wait_for(sentinel, "SENTINEL REPLICAS memory", b"127.0.0.1")
        yield primary, replica, sentinel


async def test_sentinels_lead_to_the_new_primary_when_the_old_one_dies(tmp_path: Path) -> None:
    with trio.fail_after(LONG):
        async with open_watched(tmp_path, password="pw") as (primary, replica, sentinel):
            url = f"falkor://:pw@127.0.0.1:{sentinel.port},127.0.0.1:{free_port()}?service=memory&sentinel_password="
            async with open_connection(remote(url)) as connection:
                await check_everything_works(connection, "{zapomni:a}")
                await connection.write("WAIT", 1, 5000)  # a replica may be behind; this one must have it all
                primary.send(signal.SIGKILL)
                while True:
                    try:
                        await connection.write("SET", "{zapomni:a}:n", 7)
                        break
                    except DatabaseError:
                        await trio.sleep(0.1)
                count = ("GRAPH.RO_QUERY", "{zapomni:a}:graph", "MATCH (m:Memory) RETURN count(m)")
                assert (await connection.read(*count))[1] == [[1]]
                assert b"port:%d" % replica.port in (await connection.read("INFO", "server")).replace(b"tcp_", b"")


async def test_reads_go_to_the_replica_where_asked(tmp_path: Path) -> None:
    with trio.fail_after(LONG):
        async with open_watched(tmp_path) as (primary, replica, sentinel):
            url = f"falkor://127.0.0.1:{sentinel.port}"
            async with open_connection(remote(url, replicas=True)) as connection:
                await connection.write("SET", "k", 1)
                await connection.write("WAIT", 1, 5000)
                assert await connection.read("GET", "k") == b"1"
                assert b"tcp_port:%d" % replica.port in await connection.read("INFO", "server")
                replica.send(signal.SIGKILL)
                assert await connection.read("GET", "k") == b"1"
                assert b"tcp_port:%d" % primary.port in await connection.read("INFO", "server")


async def test_a_service_that_the_sentinels_do_not_know_is_named(tmp_path: Path) -> None:
    with trio.fail_after(LONG):
        async with open_watched(tmp_path) as (_, _, sentinel):
            url = f"falkor://127.0.0.1:{sentinel.port}?service=other"
            async with open_connection(remote(url)) as connection:
                with pytest.raises(ConfigError, match=r"\?service=memory"):
                    await connection.ready()


def cluster_options() -> list[str]:
    options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--bind", "127.0.0.1"]
    return [*options, "--cluster-announce-ip", "127.0.0.1", "--cluster-port", str(free_port())]


@contextlib.asynccontextmanager
async def open_cluster(tmp_path: Path, *, replicas: int = 0) -> AsyncIterator[list[Server]]:
    """Run three nodes that share the slots, and perhaps some that only belong to the cluster."""
    async with contextlib.AsyncExitStack() as stack:
        nodes = []
        for number in range(3 + replicas):
            server = open_server(tmp_path / str(number), "--repl-diskless-sync-delay", "0", *cluster_options())
            nodes.append(await stack.enter_async_context(server))
        for number, node in enumerate(nodes[:3]):
            first, last = 16384 * number // 3, 16384 * (number + 1) // 3 - 1
            await ask(node.port, "CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        for node in nodes[1:]:
            bus = (await ask(node.port, "CONFIG", "GET", "cluster-port")).split(b"\r\n")[-2].decode()
            await ask(nodes[0].port, "CLUSTER", "MEET", "127.0.0.1", str(node.port), bus)
        for node in nodes:
            await wait_for(node, "CLUSTER INFO", b"cluster_known_nodes:%d" % len(nodes))
            await wait_for(node, "CLUSTER INFO", b"cluster_state:ok")
        yield nodes


async def node_of(nodes: Sequence[Server], key: str) -> int:
    """Return which of the three nodes holds a key."""
    slot = int((await ask(nodes[0].port, "CLUSTER", "KEYSLOT", key)).strip(b":\r\n"))
    return next(number for number in range(3) if slot < 16384 * (number + 1) // 3)


async def name_of(node: Server) -> str:
    return (await ask(node.port, "CLUSTER", "MYID")).split(b"\r\n")[1].decode()


async def test_reads_go_to_the_replicas_of_a_cluster_where_asked(tmp_path: Path) -> None:
    key = "{zapomni:a}:n"
    with trio.fail_after(LONG):
        async with open_cluster(tmp_path, replicas=1) as nodes:
            primary, replica = nodes[await node_of(nodes, key)], nodes[3]
            await ask(replica.port, "CLUSTER", "REPLICATE", await name_of(primary))
            await wait_for(replica, "INFO replication", b"master_link_status:up")
            await wait_for(nodes[0], "CLUSTER SLOTS", b":%d\r\n" % replica.port)
            async with open_connection(remote(f"falkor://127.0.0.1:{nodes[0].port}", replicas=True)) as connection:
                await connection.write("SET", key, 1)
                while await connection.read("GET", key) != b"1":  # noqa: ASYNC110  # a replica may be behind
                    await trio.sleep(0.01)
            assert b"cmdstat_get" in await ask(replica.port, "INFO", "commandstats")
            assert b"cmdstat_get" not in await ask(primary.port, "INFO", "commandstats")


async def test_a_cluster_keeps_each_workspace_on_its_node(tmp_path: Path) -> None:
    with trio.fail_after(LONG):
        async with open_cluster(tmp_path) as nodes:
            hosts = ",".join(f"127.0.0.1:{port}" for port in (free_port(), *(node.port for node in nodes)))
            async with open_connection(remote(f"falkor://{hosts}", replicas=True)) as connection:
                await connection.ready()
                for key in KEYS:
                    await check_everything_works(connection, key)
                filled = [int((await ask(node.port, "DBSIZE")).strip(b":\r\n")) for node in nodes]
                assert sum(filled) == 3 * len(KEYS)
                assert all(filled)
                with pytest.raises(DatabaseError, match="slot"):
                    await connection.read_all([("MGET", "{zapomni:a}:n", "{zapomni:b}:n")])


async def test_a_workspace_that_moved_to_another_node_is_found_there(tmp_path: Path) -> None:
    with trio.fail_after(LONG):
        async with open_cluster(tmp_path) as nodes:
            url = f"falkor://127.0.0.1:{nodes[0].port}"
            async with open_connection(remote(url)) as connection:
                await connection.ready()
                slot = (await ask(nodes[0].port, "CLUSTER", "KEYSLOT", "{zapomni:a}")).strip(b":\r\n").decode()
                target = nodes[(await node_of(nodes, "{zapomni:a}") + 1) % 3]
                for node in (target, *nodes):
                    await ask(node.port, "CLUSTER", "SETSLOT", slot, "NODE", await name_of(target))
                assert await connection.write("SET", "{zapomni:a}:n", 1) == b"OK"
                assert await ask(target.port, "DBSIZE") == b":1\r\n"
