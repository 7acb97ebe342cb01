"""The same work for other memory servers: notes of 1 KB are added, then each is asked for by the words it begins with.

Every server is driven over its stdin and stdout in a folder of its own, with its own defaults, but that Zapomni's store
ends with its server instead of five seconds later, so that a restart is one. One that is not installed is named and
left out; none is a dependency. The first note is added and asked for alone, as a warm-up with figures of its own: a
server that cannot find the only note there is has failed, whatever it calls its answer.

"found" is the share of searches whose answer held the note that was asked for or its title, so that speed is not read
without it; the words are asked for as they stand in the note, so a search for the literal text finds them, too.

"after kill -9" is the share that is found when the same notes were added, the server was killed with all its processes
as soon as it had acknowledged the last, and was started again. "after restart" is the same with an orderly end, to tell
what the kill did. A note that is not found may still be on the disk, and what the system had taken from a process
outlives it, so neither says anything about a power cut.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import textwrap
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import attrs
import psutil

from bench import peers, report
from bench.adapters import ADAPTERS, Adapter, Note
from bench.report import Rows, Times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

GRACE = 5.0  # seconds after the end of its input in which a server should go, before it is asked to by a signal
PATIENCE = 10.0  # seconds in which a server may do what it had put off


@attrs.frozen
class Tool:
    """A tool as a server offers it."""

    name: str
    arguments: frozenset[str]

    @classmethod
    def choose(cls, offered: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Tool:
        """Return the first of the names that is offered; raises `RuntimeError` if none is."""
        schemas = {tool["name"]: tool["inputSchema"] for tool in offered}
        for name in names:
            if name in schemas:
                return cls(name, frozenset(schemas[name].get("properties", ())))
        raise RuntimeError(f"offers none of {', '.join(names)}")

    def call(self, peer: peers.Peer, arguments: Mapping[str, Any]) -> str:
        known = {name: value for name, value in arguments.items() if name in self.arguments}
        content = peer.call(self.name, known)["result"]["content"]
        return "\n".join(part.get("text", "") for part in content)


@attrs.frozen
class Server:
    """A memory server at work."""

    adapter: Adapter
    peer: peers.Peer
    ready: float
    """Milliseconds until it had named its tools."""
    adding: Tool
    searching: Tool

    def add(self, note: Note) -> None:
        self.adding.call(self.peer, self.adapter.to_add(note))

    def search(self, note: Note) -> str:
        return self.searching.call(self.peer, self.adapter.to_search(note.question))

    def finds(self, note: Note) -> bool:
        return note.answer in self.search(note)


@contextmanager
def open_server(adapter: Adapter, folder: Path, limit: float) -> Iterator[Server]:
    """Start a server, and wait until all of it is gone.

    Raises `RuntimeError` if it ends by itself, fails at a tool or takes longer than the limit.
    """
    peer = peers.Peer.start(list(adapter.command), adapter.environment(folder), folder)
    try:
        with killed_after(peer, limit):
            peer.initialize()
            offered = peer.ask("tools/list", {})["result"]["tools"]
            ready = (time.perf_counter() - peer.spawned) * 1000
            tools = Tool.choose(offered, adapter.add), Tool.choose(offered, adapter.search)
            yield Server(adapter, peer, ready, *tools)
    finally:
        _, alive = psutil.wait_procs(peers.belongings(folder), timeout=10)
        kill(alive)


@contextmanager
def killed_after(peer: peers.Peer, seconds: float) -> Iterator[None]:
    """End a server that takes longer; whoever waits for its answer gets `RuntimeError`."""
    timer, nudge = Timer(seconds, peer.process.kill), Timer(GRACE, peer.process.terminate)
    timer.start()
    try:
        yield
        nudge.start()
        peer.close()
    except (RuntimeError, BrokenPipeError) as error:
        if time.perf_counter() - peer.spawned < seconds:
            raise
        raise RuntimeError(f"the server ended, for it took more than {seconds:g} s") from error
    finally:
        timer.cancel()
        nudge.cancel()
        if peer.process.returncode is None:
            peer.process.kill()
            peer.process.communicate()


def kill(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def missing_of(notes: Sequence[Note], server: Server) -> list[Note]:
    """Return the notes that a server does not find, though it is given time."""
    until = time.monotonic() + PATIENCE
    missing = [note for note in notes if not server.finds(note)]
    while missing and time.monotonic() < until:
        time.sleep(0.2)
        missing = [note for note in missing if not server.finds(note)]
    return missing


def warm_up(note: Note, server: Server) -> dict[str, float]:
    """Add the first note and ask for it; raises `RuntimeError` if it is not found."""
    times = Times()
    with times.one():
        server.add(note)
    with times.one():
        server.search(note)
    if missing_of([note], server):
        raise RuntimeError(f"does not find the only note, and says: {server.search(note)}")
    return {"ready ms": server.ready, "first add ms": times[0], "first search ms": times[1]}


def measure(adapter: Adapter, notes: Sequence[Note], limit: float) -> dict[str, Any]:
    """Do the work with one server; raises `RuntimeError` or `ValueError` if it cannot be done."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open_server(adapter, folder, limit) as server:
            figures: dict[str, Any] = {**warm_up(notes[0], server)}
            adds, searches, found = Times(), Times(), 0
            for note in notes[1:]:
                with adds.one():
                    server.add(note)
            for note in notes:
                with searches.one():
                    answer = server.search(note)
                found += note.answer in answer
            for work, times in {"add": adds, "search": searches}.items():
                figures |= {f"{work} {figure}": value for figure, value in times.figures().items()}
            resident = peers.resident_megabytes(peers.belongings(folder))
            return {**figures, "RSS MB": resident, "found": found / len(notes)}


def found_again(adapter: Adapter, notes: Sequence[Note], limit: float, *, killed: bool) -> float:
    """Return the share of notes that a server finds when it is started again; raises as `measure` does."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open_server(adapter, folder, limit) as server:
            for note in notes[:-1]:
                server.add(note)
            victims = peers.belongings(folder)  # looked for before the last note: it takes longer than many a write
            server.add(notes[-1])
            if killed:
                kill(victims)
        with open_server(adapter, folder, limit) as server:
            missing = missing_of(notes, server)
            if not killed and len(missing) == len(notes):
                raise RuntimeError(f"finds nothing after a restart, and says: {server.search(notes[-1])}")
    return 1 - len(missing) / len(notes)


def row_of(adapter: Adapter, notes: Sequence[Note], limit: float) -> dict[str, Any]:
    """Return what there is to say of a server; one that failed keeps the figures that it had until then."""
    row: dict[str, Any] = {"server": adapter.name}
    if shutil.which(adapter.command[0]) is None:
        return {**row, "state": "not installed"}
    remark = f" ({adapter.remark})" if adapter.remark else ""
    try:
        row |= measure(adapter, notes, limit)
        row["after restart"] = found_again(adapter, notes, limit, killed=False)
        row["after kill -9"] = found_again(adapter, notes, limit, killed=True)
    except (RuntimeError, ValueError, OSError, psutil.Error) as error:
        return {**row, "state": textwrap.shorten(f"failed: {error}", 200) + remark}
    return {**row, "state": "measured" + remark}


def main(arguments: Sequence[str]) -> None:
    names = [adapter.name for adapter in ADAPTERS]
    parser = argparse.ArgumentParser(prog="python -m bench compare", description=__doc__)
    parser.add_argument("--notes", type=int, default=200, help="how many are added, and then asked for")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one run of a server may take")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="the servers to measure")
    options = parser.parse_args(arguments)
    notes = [Note.make(number) for number in range(1, options.notes + 1)]
    rows = Rows()
    for adapter in ADAPTERS:
        if adapter.name in options.only:
            rows.add(row_of(adapter, notes, options.limit))
    report.show(f"{options.notes} notes of 1 KB, added and asked for", rows)
    name = report.name_of(parser, options)
    report.save(name, rows, notes=options.notes)
    bars = {
        f"{row['server']}: {work}": row[f"{work} p50 ms"]
        for row in rows
        for work in ("add", "search")
        if "found" in row
    }
    report.plot_bars(name, f"{options.notes} notes of 1 KB, p50", bars, "ms")
