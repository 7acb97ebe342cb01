"""Ends the embedded server when its last client is gone. Run as a program: ``python -I -S reaper.py DIRECTORY LINGER``.

Every client holds a shared lock on ``clients.lock`` for its life, so an exclusive lock is to be had exactly when none
is left, however they ended. One reaper runs per directory; it needs the standard library alone, so it starts quickly,
stays small, and works on when the package is replaced under it.
"""

import contextlib
import fcntl
import importlib.util
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path
from types import ModuleType

CLIENTS, SERVER, REAPER = "clients.lock", "server.lock", "reaper.lock"
REMOVED = "compact"  # is there when something was removed for good, and may still stand in the append-only file
REWRITING = "compact.begun"  # what it is called from the beginning of a rewrite to its end
ADDRESS = "socket.path"  # says where the server listens: in this directory, unless that would be too long a path
ANSWER_TIMEOUT = 5.0  # a server that says nothing for so long is stuck and gets killed; the append-only file is safe
GIVE_UP_TIMEOUT = 60.0  # holding up new clients for longer helps nobody
COMPACTION_TIMEOUT = 60.0
WORTHWHILE_TAIL = 1 << 20  # bytes that the next start would replay in about a quarter of a second
BASE_TO_TAIL = 32  # a long base is dear to rewrite, so a tail may be this part of it longer


def open_lock(directory: Path, name: str) -> int:
    """Open a lock file, which is made where it is missing."""
    return os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(lock: int, kind: int) -> bool:
    """Take a lock if that is possible at once."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def short_name(directory: Path) -> str:
    """Return the name of a socket that lies elsewhere: the same by whatever path, and another for a copy."""
    found = directory.stat()
    return f"{found.st_dev:x}-{found.st_ino:x}.sock"


def socket_path(directory: Path) -> str | None:
    """Return where the server of a directory listens, if one has ever been started there."""
    try:
        path = directory / os.fsdecode((directory / ADDRESS).read_bytes())
        own = path.parent == directory or path.name == short_name(directory)
    except OSError:
        return None
    return str(path) if own else None  # the address in a copy of a directory is the original's


def compaction_pays(directory: Path) -> bool:
    """Tell whether a rewrite now costs less than the tail would cost at the next start, and there is room for it.

    Whatever it costs, it is made after a removal: what its owner had removed is to leave the disk, too.
    """
    base = tail = 0
    try:
        for path in (directory / "appendonlydir").iterdir():
            if path.suffix == ".aof":
                tail += path.stat().st_size
            elif path.suffix == ".rdb":
                base += path.stat().st_size
        disk = os.statvfs(directory)
    except OSError:  # it is being rewritten, or all of it was deleted, or it is out of reach
        return False
    worthwhile = tail > WORTHWHILE_TAIL + base // BASE_TO_TAIL or is_removal_noted(directory)
    return worthwhile and disk.f_bavail * disk.f_frsize > 2 * (base + tail)


def note_removal(directory: Path) -> None:
    """Ask for a rewrite at the next end of the store."""
    mark = os.open(directory / REMOVED, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.utime(mark)
    os.close(mark)


def is_removal_noted(directory: Path) -> bool:
    """Tell whether something was removed since the last rewrite began that came to its end."""
    return any(os.path.exists(directory / name) for name in (REMOVED, REWRITING))


def connect(directory: Path) -> socket.socket | None:
    """Connect to the server, or return None where none listens."""
    path = socket_path(directory)
    if path is None:
        return None
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_TIMEOUT)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def ask(connection: socket.socket, command: bytes) -> bytes:
    """Send one command and return the raw reply; empty when the server closed the connection."""
    connection.sendall(command + b"\r\n")
    reply = connection.recv(4096)
    if reply.startswith(b"$"):
        head, _, body = reply.partition(b"\r\n")
        while len(body) < int(head[1:]) + 2 and (more := connection.recv(4096)):
            body += more
        reply = body
    return reply


def compact(connection: socket.socket, until: float) -> bool:
    """Rewrite the append-only file, and wait for it until a time of the monotonic clock; tell whether it was done."""
    with contextlib.suppress(OSError):
        if not ask(connection, b"BGREWRITEAOF").startswith(b"+"):
            return False  # it is loading, say; then what follows would be true of an earlier one
        while time.monotonic() < until:
            time.sleep(0.05)
            state = ask(connection, b"INFO persistence")
            if b"aof_rewrite_in_progress:0" in state and b"aof_rewrite_scheduled:0" in state:
                return b"aof_last_bgrewrite_status:ok" in state
    return False


def shut_down(connection: socket.socket) -> bool:
    """Ask the server to end; tell whether it did so, and its files are whole. Raises `OSError`.

    One that is still loading ends as well, but has not yet cut off what a crash may have left behind the last write.
    """
    serves = ask(connection, b"PING") == b"+PONG\r\n"
    return not ask(connection, b"SHUTDOWN NOSAVE NOW FORCE") and serves


def peer(connection: socket.socket) -> int:
    """Return the id of the process that listens at the other end; 0 where the system does not tell."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", credentials)[0])
    if sys.platform == "darwin":
        return connection.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
    return 0


def servers(directory: Path) -> list[int]:
    """Return the processes that serve a directory, and their children; none where the system does not tell.

    Whoever has neither socket nor lock file to reach a server by can still end it: it works in its directory.
    """
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended just now, or is somebody else's
            program = os.path.basename(os.readlink(entry / "exe"))
            if program.startswith("redis-server") and os.path.samefile(entry / "cwd", directory):
                found.append(int(entry.name))
    return found


def send(pids: list[int], number: int) -> None:
    """Send processes a signal, as far as they are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Directory:
    """The directory that a reaper watches, which somebody may delete, and others begin anew, under its eyes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clients = open_lock(path, CLIENTS)
        self.servers = [open_lock(path, SERVER)]
        self.connection: socket.socket | None = None

    def connect(self) -> socket.socket | None:
        """Return the connection to the server while it lives, else a new one, or None when there is no server."""
        with contextlib.suppress(OSError):
            if self.connection is not None and ask(self.connection, b"PING"):
                return self.connection
        if self.connection is not None:
            self.connection.close()
        self.connection = connect(self.path) if self.is_current() else None
        return self.connection

    def is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.clients), os.stat(self.path / CLIENTS))
        except OSError:
            return False

    def wait_for_server(self) -> None:
        """Connect while there is a client: the connection outlives the files, should these be deleted."""
        pause = 0.02
        while self.connect() is None and not try_lock(self.clients, fcntl.LOCK_EX):
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def wait_for_clients_to_go(self) -> None:
        fcntl.flock(self.clients, fcntl.LOCK_EX)
        fcntl.flock(self.clients, fcntl.LOCK_UN)

    def end_server(self) -> bool:
        """End the server, by force when it does not answer, and wait until it is gone.

        Returns whether it ended because it was asked to, and its files are whole.
        """
        begin, whole = time.monotonic(), False
        self._open_new_lock()
        # It may only just have been started by a client that was killed, and not listen yet.
        while not (ended := self._has_no_server()) and time.monotonic() < begin + GIVE_UP_TIMEOUT:
            slow = time.monotonic() > begin + ANSWER_TIMEOUT
            connection = self.connection or self.connect()
            if connection is not None:
                try:
                    if slow:
                        whole = False
                        send([pid for pid in [peer(connection)] if pid], signal.SIGKILL)
                    else:
                        whole = whole or shut_down(connection)
                    self.connection = None
                except TimeoutError:
                    pass
                except OSError:
                    self.connection = None
            elif slow and self.is_current():
                send(servers(self.path), signal.SIGKILL)  # its socket was deleted
            time.sleep(0.02)
        return ended and whole and self.is_current()

    def _open_new_lock(self) -> None:
        """Look for the lock of the next server, if that of ours was deleted."""
        with contextlib.suppress(OSError):
            if self.is_current():
                lock = open_lock(self.path, SERVER)
                if os.path.samestat(os.fstat(lock), os.fstat(self.servers[0])):
                    os.close(lock)
                else:
                    self.servers.append(lock)

    def _has_no_server(self) -> bool:
        """Tell whether the locks are free, which become ours then, and none runs whose lock was deleted."""
        if not all(try_lock(lock, fcntl.LOCK_EX) for lock in self.servers):
            return False
        return not (self.is_current() and servers(self.path))


def load(name: str) -> ModuleType:
    """Load a module of this folder, which is in no path: its names would hide those of the standard library."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reap(path: Path, linger: float, reaper: int) -> None:
    """Wait for the last client to go, then for the linger, then end the server unless somebody came."""
    seal = load("seal")
    directory = Directory(path)
    directory.wait_for_server()
    while True:
        directory.wait_for_clients_to_go()
        gone_at = time.monotonic()
        # No lock is held meanwhile: a client that comes now finds the server at work as ever.
        if compaction_pays(path) and (connection := directory.connect()):
            with contextlib.suppress(OSError):
                os.replace(path / REMOVED, path / REWRITING)  # a client that comes and removes more makes a new one
            if compact(connection, gone_at + COMPACTION_TIMEOUT):
                with contextlib.suppress(OSError):
                    os.unlink(path / REWRITING)
        time.sleep(max(0.0, gone_at + linger - time.monotonic()))
        if try_lock(directory.clients, fcntl.LOCK_EX):
            break
    if directory.end_server():
        with contextlib.suppress(OSError):  # of a full disk, say; the seal of the last time is still true
            seal.renew(path / seal.FILES)
    # In this order: a client that gets its lock now must see that neither server nor reaper runs any more.
    for lock in directory.servers:
        os.close(lock)
    os.close(reaper)
    os.close(directory.clients)


def main() -> None:
    """Be the one reaper, leave the parent, which must not have to wait for us, and reap."""
    path = Path(sys.argv[1])
    lock = open_lock(path, REAPER)
    if not try_lock(lock, fcntl.LOCK_EX):
        return  # another was quicker
    if os.fork():
        os._exit(0)
    reap(path, float(sys.argv[2]), lock)


if __name__ == "__main__":
    main()
