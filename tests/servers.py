"""Real processes for the tests of the store: clients of the embedded server, and servers of every other kind."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import attrs
import psutil
import trio

from zapomni.store.binaries import find_binaries

if TYPE_CHECKING:
    import signal
    import ssl
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

STARTING = 30.0  # more than any machine needs


def processes_of(directory: Path) -> list[psutil.Process]:
    """Return every process of ours that serves a data directory: the server, its children and the reaper."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if f"{directory}/store" in line and ("redis" in line or "reaper.py" in line):
            found.append(process)
    return found


def server_of(directory: Path) -> psutil.Process:
    """Return the one embedded server of a data directory."""
    (server,) = (process for process in processes_of(directory) if "redis-server" in process.info["cmdline"][0])
    return server


def reaper_of(directory: Path) -> psutil.Process:
    """Return the one reaper of a data directory."""
    (reaper,) = (process for process in processes_of(directory) if "reaper.py" in str(process.info["cmdline"]))
    return reaper


async def wait_until_gone(directory: Path, seconds: float) -> None:
    """Wait until no process of a data directory is left; raises `trio.TooSlowError` when one stays."""
    with trio.fail_after(seconds):
        while processes_of(directory):  # noqa: ASYNC110  # nobody else tells of a process that is not our child
            await trio.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@attrs.frozen
class Server:
    """A server on loopback that the tests started."""

    port: int
    process: subprocess.Popen[bytes]

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


def start_server(directory: Path, *options: str, graph: bool, sentinel: bool) -> Server:
    directory.mkdir(parents=True, exist_ok=True)
    binaries = find_binaries()
    port = free_port()
    words = [str(binaries.server)]
    if sentinel:
        (directory / "sentinel.conf").write_text("\n".join([f"port {port}", f"dir {directory}", *options]))
        words += [str(directory / "sentinel.conf"), "--sentinel"]
    else:
        words += ["--port", str(port), "--dir", str(directory), "--save", "", *options]
        words += ["--loadmodule", str(binaries.module)] if graph else []
    with (directory / "log").open("wb") as log:
        return Server(port, subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))


def wait_until_it_listens(server: Server) -> None:
    until = time.monotonic() + STARTING
    while True:
        assert server.process.poll() is None, "the server ended; its log is beside its data"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port)):
            return
        assert time.monotonic() < until, "the server does not listen"
        time.sleep(0.02)


@contextlib.asynccontextmanager
async def open_server(
    directory: Path, *options: str, graph: bool = True, sentinel: bool = False
) -> AsyncIterator[Server]:
    """Run a TCP server with options such as ``--requirepass``; it listens when this returns."""
    server = start_server(directory, *options, graph=graph, sentinel=sentinel)
    try:
        await trio.to_thread.run_sync(wait_until_it_listens, server)
        yield server
    finally:
        server.process.kill()
        server.process.wait()


async def ask(port: int, *words: str) -> bytes:
    """Send one command, or several lines of them, to a server and return its raw reply."""
    end = b"$3\r\nend\r\n"
    reply = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(" ".join(words).encode() + b"\r\nPING end\r\n")
        while not reply.endswith(end) and (piece := await stream.receive_some()):
            reply += bytes(piece)
    return reply.removesuffix(end)


@contextlib.asynccontextmanager
async def open_proxy(
    port: int, *, at: int = 0, tls: ssl.SSLContext | None = None, on_reply: Callable[[bytes], bool] = lambda _: True
) -> AsyncIterator[int]:
    """Pass bytes on to a server, over TLS where asked; a reply that `on_reply` refuses ends its connection instead."""

    async def pump(source: trio.abc.Stream, sink: trio.abc.Stream, passes: Callable[[bytes], bool]) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for piece in source:
                if not passes(bytes(piece)):
                    break
                await sink.send_all(piece)
        await trio.aclose_forcefully(source)
        await trio.aclose_forcefully(sink)

    async def serve(client: trio.abc.Stream) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port) as server, trio.open_nursery() as nursery:
            nursery.start_soon(pump, client, server, lambda _: True)
            nursery.start_soon(pump, server, client, on_reply)

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(at, host="127.0.0.1")
        own: int = listener.socket.getsockname()[1]
        listeners: list[trio.abc.Listener[Any]] = [trio.SSLListener(listener, tls) if tls else listener]
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield own
        nursery.cancel_scope.cancel()
