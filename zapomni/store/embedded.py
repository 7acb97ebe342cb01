"""The embedded FalkorDB: one server process per data directory, shared by any number of clients.

Three lock files say all there is to know, and the kernel keeps them true through every kind of death:

``server.lock``   held exclusively by the server, which inherits it from whoever started it: free means no server
``clients.lock``  held shared by every client for its life: to be had exclusively means no client
``reaper.lock``   held exclusively by the reaper, which ends the server some time after the last client

No process id is ever written down, so none can be stale or belong to somebody else by now. Should somebody delete the
socket, or a lock, under a server that runs, it is found as the process that works in the directory, ended and replaced:
on Linux; elsewhere it has to be ended by hand.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

from zapomni.errors import BlockedError, ConfigError, DatabaseError
from zapomni.log import get_logger
from zapomni.store import reaper, seal, strays
from zapomni.store.binaries import find_binaries, is_torn
from zapomni.store.directory import FULL, choose_socket, prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from zapomni.config import Settings

READY_DEADLINE = 300.0  # loading a large directory takes seconds; the caller's own deadline usually rules
POLL_INTERVAL = 0.02
LAUNCHES = 3  # a server that was killed while it loaded is started again, one that cannot run is not
UNREACHABLE = 10.0  # seconds that a server may be without a socket, as one that only just starts is
HOLD_OFF = 1.0  # seconds that a failed start is remembered, so that waiting calls do not start it in a tight loop
LOG_BYTES = 1 << 20
ROOM = 16 << 20  # more than a write takes, but for a few; one that does not fit ends the server, and is not lost
INHERITED_ENVIRONMENT = ("LD_", "DYLD_", "OMP_", "MALLOC_", "LANG", "LC_", "TZ", "PATH")  # no keys, no passwords
UNUSABLE = ("falkordb.so failed to load", "error while loading shared libraries", "not found (required by")
DAMAGED = (
    *("Bad file format", "Wrong signature", "RDB CRC error", "Internal error in RDB", "Unrecoverable error"),
    *("AOF MANIFEST", "Unable to obtain the AOF file"),
)
ENDS_EARLY = re.compile(r"Unexpected end of file reading the append only file (\S+)\. You can")
TORN = "Truncating the AOF"
CRASHED = "BUG REPORT START"
BROKEN = ("Fatal error", "FATAL CONFIG", "Can't ")
PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # the machine is busy; the program is not at fault

log = get_logger("store")


@attrs.define
class EmbeddedServer:
    """A client's hold on the server of a directory."""

    directory: Path
    """Ours alone, made by us, inside the data directory."""
    linger: float
    query_timeout: float
    _clients: int | None = None
    _failure: tuple[float, ConfigError | DatabaseError] | None = None
    _written: int | None = None
    """How long the log was when the server was started by us, until it was read what came of that."""
    _torn: bool = False
    """Whether the server may cut off the end of its file."""

    @property
    def files(self) -> Path:
        return self.directory / seal.FILES

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    async def serve(self) -> str:
        """Return the path of the socket of a server that answers, started where none runs.

        Waits while the server loads. Raises `ConfigError` or `DatabaseError`.
        """
        if self._failure is not None and trio.current_time() < self._failure[0] + HOLD_OFF:
            raise type(self._failure[1])(*self._failure[1].args) from self._failure[1]
        self._failure = None
        try:
            prepare(self.directory)
            with trio.fail_after(READY_DEADLINE):
                await self._register()
                await self._start_reaper()
                return await self._start_server()
        except trio.TooSlowError:
            raise DatabaseError(
                f"the store did not get ready within {READY_DEADLINE:g} s; see {self.log_file}"
            ) from None
        except OSError as error:
            if error.errno in FULL:
                raise self._full() from error
            raise DatabaseError(f"the store cannot be started: {error}") from error
        except (ConfigError, DatabaseError) as error:
            self._failure = trio.current_time(), error
            raise

    def check_room(self) -> None:
        """Raise `BlockedError` when the disk is full, which would end the server at its next write."""
        with contextlib.suppress(OSError):  # a folder that cannot be looked at is explained when the server starts
            if shutil.disk_usage(self.directory).free < ROOM:
                raise self._full()

    def explain_end(self) -> None:
        """Raise `BlockedError` when the log says that a full disk has ended the server."""
        with contextlib.suppress(OSError):
            _, _, text = self.log_file.read_text("utf-8", "replace").rpartition("Redis is starting")
            if "Short write" in text or "No space left" in text:
                raise self._full()

    def _full(self) -> BlockedError:
        return BlockedError(f"the disk that holds {self.directory} is full; make room and try again")

    async def close(self) -> None:
        """Let go; the reaper does the rest."""
        if self._clients is None:
            return
        try:
            # Ours may have been killed. Where the directory was deleted, there is nothing to do, nor a way to do it.
            with trio.move_on_after(2, shield=True), contextlib.suppress(OSError):
                await self._start_reaper()
        finally:
            os.close(self._clients)
            self._clients = None

    async def _register(self) -> None:
        if self._clients is not None:
            return
        lock = reaper.open_lock(self.directory, reaper.CLIENTS)
        try:
            # A reaper that is just ending the server holds it. Nothing but asking again tells when it is free.
            while not reaper.try_lock(lock, fcntl.LOCK_SH):  # noqa: ASYNC110
                await trio.sleep(POLL_INTERVAL)
        except BaseException:
            os.close(lock)
            raise
        self._clients = lock

    async def _start_reaper(self) -> None:
        # Before the server: whatever happens to us after this line, somebody will end it.
        with self._locked(reaper.REAPER) as lock:
            if lock is None:
                return
        await trio.run_process(
            [sys.executable, "-I", "-S", reaper.__file__, str(self.directory), repr(self.linger)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,  # one that was killed at once is replaced when we go
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )

    async def _start_server(self) -> str:
        launches = 0
        unseen: tuple[float, list[int]] | None = None  # since when there is no socket, and who was there then
        while True:
            path = reaper.socket_path(self.directory)
            if path is not None and await _answers(path):
                if launches:
                    log.info("store started", directory=str(self.directory))
                self._report_repair()
                return path
            with self._locked(reaper.SERVER) as lock:
                if lock is not None:
                    if launches:
                        await trio.to_thread.run_sync(self._explain, launches == LAUNCHES)
                    launches += 1
                    await self._end_strays(reaper.servers(self.directory))  # there is one only if its lock was deleted
                    await trio.to_thread.run_sync(self._check_files)
                    await self._launch(lock)
            if lock is not None or not self._has_lost_its_socket(path):
                unseen = None
            elif unseen is None:
                unseen = trio.current_time(), reaper.servers(self.directory)
            elif trio.current_time() > unseen[0] + UNREACHABLE:
                if not all(map(strays.shares_files, unseen[1])):
                    raise BlockedError(
                        f"the store runs, but its socket {path} is not to be seen from here, perhaps because this or "
                        "the other process has a folder for temporary files of its own; choose a shorter data_dir"
                    )
                await self._end_strays(unseen[1])  # not one that was started since then
                unseen = None
            await trio.sleep(POLL_INTERVAL)

    def _has_lost_its_socket(self, path: str | None) -> bool:
        """Tell whether a server listens that nobody can reach; one that only just starts does not listen yet."""
        path = path or str(self.directory / choose_socket(self.directory))
        return not os.path.lexists(path) and strays.is_bound(path)

    async def _end_strays(self, pids: list[int]) -> None:
        """End servers that nobody can reach any more, and wait for that; what they acknowledged is on the disk."""
        if pids:
            log.warning("store ended, because its socket or lock was deleted", directory=str(self.directory))
            await strays.end(self.directory, pids)

    async def _launch(self, lock: int) -> None:
        """Start the server, which inherits the lock."""
        binaries = find_binaries()
        path = choose_socket(self.directory)
        for stale in (self.directory / path, *self.directory.glob("temp-*")):  # left by a server that was killed
            stale.unlink(missing_ok=True)
        address = self.directory / reaper.ADDRESS
        address.touch(mode=0o600)
        address.write_bytes(os.fsencode(path))
        with contextlib.suppress(FileNotFoundError):
            if self.log_file.stat().st_size > LOG_BYTES:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
        limit = str(int(self.query_timeout * 1000))
        options = {
            "port": "0",
            "unixsocket": str(self.directory / path),
            "unixsocketperm": "700",
            "dir": str(self.directory),
            "daemonize": "yes",  # so that its end never leaves a zombie with us
            "pidfile": "",
            "logfile": str(self.log_file),
            "databases": "1",
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",  # everysec can lose acknowledged writes even when only the process is killed
            "aof-use-rdb-preamble": "yes",
            "aof-load-truncated": "yes" if self._torn else "no",
            # What users wrote stays out of the log, also when a command is slow or the server crashes.
            "hide-user-data-from-log": "yes",
            "slowlog-max-len": "0",
        }
        module = [
            *(str(binaries.module), "DELAY_INDEXING", "yes", "TIMEOUT_DEFAULT", limit, "TIMEOUT_MAX", limit),
            *("CMD_INFO", "no"),  # else the last thousand queries, texts and all, are kept in a stream beside the graph
        ]
        arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
        output = os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._written = os.fstat(output).st_size
            await trio.run_process(
                [str(binaries.server), *arguments, "--loadmodule", *module],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                check=False,  # what went wrong is in the log, also when it does so after this
                pass_fds=[lock],
                start_new_session=True,
                cwd=self.directory,
                umask=0o077,
                env=_environment(),
            )
        except OSError as error:
            if error.errno in PASSING:
                raise
            raise ConfigError(f"the embedded database cannot run here ({error}); set falkordb_url instead") from error
        finally:
            os.close(output)

    def _lines(self) -> list[str]:
        """Return what the server that was started last has to say."""
        if self._written is None:
            return []
        with self.log_file.open("rb") as file:
            file.seek(self._written)
            return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]

    def _report_repair(self) -> None:
        """Tell of a file whose end was torn, and which the server has cut off where the last whole write ends."""
        for line in self._lines():
            if TORN in line:
                log.warning("store repaired", directory=str(self.directory), detail=line.partition(" # ")[2])
                seal.forget(self.files)
        self._written, self._torn = None, False

    def _check_files(self) -> None:
        """Raise `BlockedError` when the files are not what they were when they were closed; while no server runs."""
        if reason := seal.problem(self.files):
            raise self._damaged(reason)
        for name, lost in seal.lost(self.files).items():
            detail = f"{name}: {lost:,} bytes are missing at its end since it was closed"
            log.warning("store repaired", directory=str(self.directory), detail=detail)
            seal.forget(self.files)

    def _damaged(self, detail: str) -> BlockedError:
        return BlockedError(
            f"the data file in {self.directory} is damaged, and nothing was changed: {detail}. Restore a backup "
            "into an empty directory with 'zapomni restore', or keep what can be read with "
            "'zapomni doctor --salvage', which copies the files first"
        )

    def _explain(self, final: bool) -> None:
        """Raise for a server that ended before it was ready, unless it may only have been killed, or may go on."""
        lines = self._lines()
        for line in lines:
            if found := ENDS_EARLY.search(line):
                if found[1] != seal.growing(self.files)[-1] or not is_torn(self.files / found[1]):
                    raise self._damaged(f"{found[1]} is cut off in the middle of what was written")
                self._torn = True
                return
            if any(sign in line for sign in DAMAGED):
                raise self._damaged(line.partition(" # ")[2][:150])
            if any(sign in line for sign in UNUSABLE):
                raise ConfigError(
                    f"the embedded database cannot run here: {line}. It needs glibc 2.38 or newer, libgomp1 and "
                    "libssl3; where these cannot be had, set falkordb_url to a server elsewhere"
                )
            if CRASHED in line:
                raise BlockedError(
                    "the store crashed while it started, and nothing was changed. If the disk has failed, restore "
                    "a backup into an empty directory with 'zapomni restore'; else please report this, with "
                    f"{self.log_file}"
                )
        self.explain_end()
        if final or any(sign in line for line in lines for sign in BROKEN):
            last = lines[-1] if lines else "it left no word"
            raise DatabaseError(f"the store does not start: {last}; see {self.log_file}")

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[int | None]:
        """Hold a lock exclusively, or nothing when somebody else holds it."""
        lock = reaper.open_lock(self.directory, name)
        try:
            yield lock if reaper.try_lock(lock, fcntl.LOCK_EX) else None
        finally:
            os.close(lock)


@asynccontextmanager
async def open_embedded(settings: Settings) -> AsyncIterator[EmbeddedServer]:
    """Take part in the server of the data directory; it starts with the first `serve`."""
    server = EmbeddedServer(
        directory=settings.data_dir.absolute() / "store",
        linger=settings.store_linger,
        query_timeout=settings.query_timeout,
    )
    try:
        yield server
    finally:
        await server.close()


async def _answers(path: str) -> bool:
    """Tell whether a server at this socket takes commands; one that still loads does not."""
    with trio.move_on_after(1), contextlib.suppress(OSError, trio.BrokenResourceError):
        async with await trio.open_unix_socket(path) as stream:
            await stream.send_all(b"PING\r\n")
            return bytes(await stream.receive_some(64)).startswith(b"+PONG")
    return False


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith(INHERITED_ENVIRONMENT)}
