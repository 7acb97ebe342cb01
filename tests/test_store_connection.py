"""The bridge to the database: what calls return, raise, repeat and leave behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from tests.servers import server_of, wait_until_gone
from zapomni.config import Settings
from zapomni.errors import DatabaseError, NotFoundError
from zapomni.store.connection import open_connection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from zapomni.store.connection import Command, Connection, Reader

LONG = 60.0
SLOW = "UNWIND range(1, 100000) AS x UNWIND range(1, 100000) AS y RETURN count(x + y)"  # longer than any wait below


def test_the_client_library_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, zapomni.store.connection; sys.exit(sorted({'redis', 'falkordb'} & set(sys.modules)) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_replies_are_as_the_server_sent_them(connection: Connection) -> None:
    with trio.fail_after(LONG):
        await connection.write("DEL", "replies")
        assert await connection.write("RPUSH", "replies", b"\xff\x00", "ё", 7, 0.5) == 4
        assert await connection.read("LRANGE", "replies", 0, -1) == [b"\xff\x00", "ё".encode(), b"7", b"0.5"]
        assert await connection.read("GET", "nothing") is None


async def test_a_pipeline_returns_every_reply_and_an_empty_one_none(connection: Connection) -> None:
    with trio.fail_after(LONG):
        assert await connection.read_all([("ECHO", str(number)) for number in range(50)]) == [
            str(number).encode() for number in range(50)
        ]
        assert await connection.read_all([]) == []


async def test_one_error_in_a_pipeline_raises_and_leaves_no_reply_behind(connection: Connection) -> None:
    with trio.fail_after(LONG):
        with pytest.raises(DatabaseError, match="refused"):
            await connection.read_all([("ECHO", "a"), ("GRAPH.RO_QUERY", "none", "NONSENSE"), ("ECHO", "b")])
        assert await connection.read("ECHO", "c") == b"c"


async def test_an_error_does_not_repeat_what_was_sent(connection: Connection) -> None:
    with trio.fail_after(LONG):
        with pytest.raises(DatabaseError) as caught:
            await connection.write("GRAPH.QUERY", "g", "CYPHER text='my diary' RETURN $text +")
        assert "diary" not in str(caught.value)


async def test_a_transaction_returns_every_reply(connection: Connection) -> None:
    with trio.fail_after(LONG):
        replies = await connection.transaction([("SET", "{a}:1", "x"), ("GET", "{a}:1")])
    assert replies == [b"OK", b"x"]


@pytest.mark.parametrize("wrong", [("LPUSH", "{a}:1", "y"), ("NOSUCHCOMMAND", "{a}:1")])
async def test_an_error_in_a_transaction_raises(connection: Connection, wrong: Command) -> None:
    with trio.fail_after(LONG):
        with pytest.raises(DatabaseError):
            await connection.transaction([("SET", "{a}:1", "x"), wrong])
        assert await connection.read("ECHO", "clean") == b"clean"


async def test_optimistic_changes_from_many_tasks_are_all_counted(store_settings: Settings) -> None:
    def increment(reader: Reader) -> Sequence[Command]:
        return [("SET", "count", int(reader("GET", "count")) + 1)]

    async def work() -> None:
        async with open_connection(store_settings) as connection:
            for _ in range(20):
                assert await connection.optimistic(["count"], increment) == [b"OK"]

    async with open_connection(store_settings) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "count", 0)
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(work)
            assert await connection.read("GET", "count") == b"80"


async def test_an_attempt_may_decide_against_it_or_fail(connection: Connection) -> None:
    def fail(_: Reader) -> Sequence[Command]:
        raise NotFoundError("no such memory")

    with trio.fail_after(LONG):
        await connection.write("SET", "count", 4)
        assert await connection.optimistic(["count"], lambda reader: reader.all([("GET", "count")]) and []) == []
        with pytest.raises(NotFoundError, match="no such memory"):
            await connection.optimistic(["count"], fail)
        # Neither may leave its watch on a connection that a later transaction gets.
        await connection.write("SET", "count", 5)
        assert await connection.transaction([("GET", "count")]) == [b"5"]


async def test_a_key_that_never_stays_the_same_ends_in_an_error(store_settings: Settings) -> None:
    async with open_connection(store_settings) as other, open_connection(store_settings) as connection:

        def disturb(_: Reader) -> Sequence[Command]:
            trio.from_thread.run(other.write, "INCR", "restless")
            return [("SET", "restless", 0)]

        with trio.fail_after(LONG), pytest.raises(DatabaseError, match="in a row"):
            await connection.optimistic(["restless"], disturb)


async def test_more_calls_than_connections_wait_for_each_other(store_settings: Settings) -> None:
    settings = attrs.evolve(store_settings, pool_size=2)
    replies = []
    async with open_connection(settings) as connection:

        async def echo(number: int) -> None:
            replies.append((await connection.read("ECHO", number), str(number).encode()))

        with trio.fail_after(LONG):
            await connection.ready()
            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(echo, number)
            clients = (await connection.read("CLIENT", "LIST")).splitlines()
    assert len(replies) == 40
    assert all(reply == sent for reply, sent in replies)
    assert len(clients) <= 2 + 1  # one more from the fixture of another test, at most


async def test_a_cancelled_call_returns_at_once_and_leaves_neither_thread_nor_connection(tmp_path: Path) -> None:
    async with open_connection(Settings(data_dir=tmp_path, store_linger=0.1, pool_size=1)) as connection:
        with trio.fail_after(LONG):
            await connection.write("GRAPH.QUERY", "g", "RETURN 1")
        for _ in range(3):
            # With one place only, each round needs the thread of the one before it to be free: the query goes on
            # for its thirty seconds on the server, and nobody waits for it.
            with trio.fail_after(10):
                with trio.move_on_after(0.1) as scope:
                    await connection.read("GRAPH.RO_QUERY", "g", SLOW)
                assert scope.cancelled_caught
                assert await connection.read("ECHO", "mine") == b"mine"
        server_of(tmp_path).kill()
    await wait_until_gone(tmp_path, 5)


async def test_calls_cancelled_at_any_moment_never_leave_their_reply_to_others(connection: Connection) -> None:
    wrong = []

    async def echo(number: int) -> None:
        with trio.move_on_after(number % 7 / 2000):
            reply = await connection.read("ECHO", number)
            if reply != str(number).encode():
                wrong.append((number, reply))

    with trio.fail_after(LONG):
        await connection.ready()
        for start in range(0, 400, 20):
            async with trio.open_nursery() as nursery:
                for number in range(start, start + 20):
                    nursery.start_soon(echo, number)
        assert await connection.read("ECHO", "last") == b"last"
    assert wrong == []


async def test_a_server_that_stands_still_does_not_gather_threads(tmp_path: Path) -> None:
    async with open_connection(Settings(data_dir=tmp_path, store_linger=0.1, pool_size=3)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
            server = server_of(tmp_path)
            server.send_signal(signal.SIGSTOP)
            before = threading.active_count()

            async def impatient() -> None:
                with trio.move_on_after(0.1):
                    await connection.write("INCR", "n")

            for _ in range(5):
                async with trio.open_nursery() as nursery:
                    for _ in range(10):
                        nursery.start_soon(impatient)
                assert threading.active_count() <= before + 3
            server.send_signal(signal.SIGCONT)
            assert int(await connection.read("GET", "n")) >= 1
    await wait_until_gone(tmp_path, 5)


async def test_a_query_that_takes_too_long_is_ended_by_the_server(tmp_path: Path) -> None:
    async with open_connection(Settings(data_dir=tmp_path, store_linger=0.1, query_timeout=0.2)) as connection:
        with trio.fail_after(LONG):
            await connection.write("GRAPH.QUERY", "g", "RETURN 1")
            with pytest.raises(DatabaseError, match="timed out"):
                await connection.read("GRAPH.RO_QUERY", "g", SLOW)
            with pytest.raises(DatabaseError, match="timed out"):
                await connection.write("GRAPH.QUERY", "g", f"{SLOW} AS n CREATE (:Never)".replace("RETURN", "WITH"))
            assert (await connection.read("GRAPH.RO_QUERY", "g", "MATCH (n:Never) RETURN count(n)"))[1] == [[0]]
    await wait_until_gone(tmp_path, 5)


async def test_leaving_closes_every_connection(store_settings: Settings) -> None:
    async with open_connection(store_settings) as watcher:
        with trio.fail_after(LONG):
            before = len((await watcher.read("CLIENT", "LIST")).splitlines())
            async with open_connection(store_settings) as connection, trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(connection.read, "PING")
            while len((await watcher.read("CLIENT", "LIST")).splitlines()) > before:  # noqa: ASYNC110
                await trio.sleep(0.01)
