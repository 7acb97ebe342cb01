"""Ends the embedded server when its last client is gone. Run as a program: ``python -I -S reaper.py DIRECTORY LINGER``.

Every client holds a shared lock on ``clients.lock`` for its life, so an exclusive lock is to be had exactly when none
is left, however they ended. One reaper runs per directory; it needs the standard library alone, so it starts quickly,
stays small, and works on when the package is replaced under it.
"""

import contextlib
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path

CLIENTS, SERVER, REAPER = "clients.lock", "server.lock", "reaper.lock"
ADDRESS = "socket.path"  # where the server listens: its path may have had to be a short one
ANSWER_TIMEOUT = 5.0  # a server that says nothing for so long is stuck and gets killed; the append-only file is safe
GIVE_UP_TIMEOUT = 60.0  # nobody can use a store whose socket was deleted; holding up new clients helps nobody either
COMPACTION_TIMEOUT = 60.0
WORTHWHILE_TAIL = 1 << 20
BASE_TO_TAIL = 32  # replaying a byte of the tail takes some thirty times as long as loading a byte of the base


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


def compaction_pays(directory: Path) -> bool:
    """Tell whether a rewrite now costs less than the tail would cost at the next start, and there is room for it."""
    base = tail = 0
    with contextlib.suppress(FileNotFoundError):  # the server may replace a file while we look
        for path in (directory / "appendonlydir").iterdir():
            if path.suffix == ".aof":
                tail += path.stat().st_size
            elif path.suffix == ".rdb":
                base += path.stat().st_size
    disk = os.statvfs(directory)
    return tail > WORTHWHILE_TAIL + base // BASE_TO_TAIL and disk.f_bavail * disk.f_frsize > 2 * (base + tail)


def connect(directory: Path) -> socket.socket | None:
    """Connect to the server, or return None where none listens."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_TIMEOUT)
    try:
        connection.connect(os.fsdecode((directory / ADDRESS).read_bytes()))
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


def compact(directory: Path, until: float) -> None:
    """Rewrite the append-only file, and wait for it until a time of the monotonic clock."""
    connection = connect(directory)
    if connection is None:
        return
    with connection, contextlib.suppress(OSError):
        ask(connection, b"BGREWRITEAOF")
        while time.monotonic() < until:
            time.sleep(0.05)
            state = ask(connection, b"INFO persistence")
            if b"aof_rewrite_in_progress:0" in state and b"aof_rewrite_scheduled:0" in state:
                return


def shut_down(directory: Path) -> None:
    """End the server, by force when it does not answer, and wait until its lock is free."""
    server = open_lock(directory, SERVER)
    begin = time.monotonic()
    # It may only just have been started by a client that was killed, and not listen yet.
    while not try_lock(server, fcntl.LOCK_EX) and time.monotonic() < begin + GIVE_UP_TIMEOUT:
        connection = connect(directory)
        if connection is not None:
            with connection, contextlib.suppress(OSError):
                if time.monotonic() < begin + ANSWER_TIMEOUT:
                    ask(connection, b"SHUTDOWN NOSAVE NOW FORCE")
                elif pid := peer(connection):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    os.close(server)


def peer(connection: socket.socket) -> int:
    """Return the id of the process that listens at the other end; 0 where the system does not tell."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", credentials)[0])
    if sys.platform == "darwin":
        return connection.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
    return 0


def reap(directory: Path, linger: float) -> None:
    """Wait for the last client to go, then for the linger, then end the server unless somebody came."""
    reaper = open_lock(directory, REAPER)
    if not try_lock(reaper, fcntl.LOCK_EX):
        return  # another reaper was quicker
    clients = open_lock(directory, CLIENTS)
    while True:
        fcntl.flock(clients, fcntl.LOCK_EX)
        fcntl.flock(clients, fcntl.LOCK_UN)
        gone_at = time.monotonic()
        # No lock is held meanwhile: a client that comes now finds the server at work as ever.
        if compaction_pays(directory):
            compact(directory, gone_at + COMPACTION_TIMEOUT)
        time.sleep(max(0.0, gone_at + linger - time.monotonic()))
        if try_lock(clients, fcntl.LOCK_EX):
            break
    shut_down(directory)
    # In this order: a client that gets its lock now must see that no reaper runs any more, and start one.
    os.close(reaper)
    os.close(clients)


def main() -> None:
    """Leave the parent, which must not have to wait for us, and reap."""
    if os.fork():
        os._exit(0)
    reap(Path(sys.argv[1]), float(sys.argv[2]))


if __name__ == "__main__":
    main()
