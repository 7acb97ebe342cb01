"""The same work for other memory servers: notes of 1 KB are added, then one is asked for by the words it begins with.

Every server is driven over its stdin and stdout with a folder of its own, with its own defaults. One that is not
installed is named and left out; none is a dependency. "found" is the share of searches whose answer held the note that
was asked for, so that speed is not read without it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import attrs
import psutil

from bench import peers, report
from bench.report import Rows, Times
from bench.texts import WORDS, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


@attrs.frozen
class Note:
    """Something to remember, and how to know it again."""

    title: str
    question: str
    answer: str
    text: str

    @classmethod
    def make(cls, number: int) -> Note:
        question = " ".join(WORDS[number * step % len(WORDS)] for step in (7, 11, 13))
        answer = f"{WORDS[number % len(WORDS)]}{number}"
        return cls(f"note {number}", question, answer, f"{question} {answer}. {text_of(900)}")


@attrs.frozen
class Adapter:
    """How a memory server is started, and what its two tools are called.

    Names and arguments change between versions, so a tool has all the names it ever had, and of its arguments those are
    sent that its schema knows.
    """

    name: str
    command: Sequence[str]
    """The first is looked up in the path."""
    add: Sequence[str]
    search: Sequence[str]
    to_add: Callable[[Note], Mapping[str, Any]]
    to_search: Callable[[str], Mapping[str, Any]]
    environment: Callable[[Path], Mapping[str, str]]


ADAPTERS = (
    Adapter(
        name="zapomni",
        command=(sys.executable, "-m", "zapomni", "serve"),
        add=("add_memory",),
        search=("search_memory",),
        to_add=lambda note: {"text": note.text},
        to_search=lambda question: {"query": question, "limit": 5},
        environment=lambda folder: {"ZAPOMNI_DATA_DIR": str(folder), "ZAPOMNI_STORE_LINGER": "0"},
    ),
    Adapter(
        name="server-memory",  # npm install --global @modelcontextprotocol/server-memory
        command=("mcp-server-memory",),
        add=("create_entities",),
        search=("search_nodes",),
        to_add=lambda note: {"entities": [{"name": note.title, "entityType": "note", "observations": [note.text]}]},
        to_search=lambda question: {"query": question},
        environment=lambda folder: {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")},
    ),
    Adapter(
        name="mcp-memory-service",
        command=("memory", "server"),
        add=("memory_store", "store_memory"),
        search=("memory_search", "retrieve_memory"),
        to_add=lambda note: {"content": note.text},
        to_search=lambda question: {"query": question, "limit": 5, "n_results": 5},
        environment=lambda folder: {
            "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
            "MCP_MEMORY_SQLITE_PATH": str(folder / "memories.db"),
            "MCP_MEMORY_BACKUPS_PATH": str(folder / "backups"),
        },
    ),
    Adapter(
        name="basic-memory",
        command=("basic-memory", "mcp"),
        add=("write_note",),
        search=("search_notes",),
        to_add=lambda note: {
            "title": note.title,
            "content": note.text,
            "folder": "notes",
            "directory": "notes",
            "project": "main",
        },
        to_search=lambda question: {"query": question, "page_size": 5, "project": "main"},
        environment=lambda folder: {
            "HOME": str(folder),
            "BASIC_MEMORY_HOME": str(folder / "notes"),
            "BASIC_MEMORY_CONFIG_DIR": str(folder / "config"),
        },
    ),
)


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
        content = peer.call(self.name, known, 1)["result"]["content"]
        return "\n".join(part.get("text", "") for part in content)


@contextmanager
def killed_after(peer: peers.Peer, seconds: float) -> Iterator[None]:
    """End a server that takes longer; whoever waits for its answer gets `RuntimeError`."""
    timer = Timer(seconds, peer.process.kill)
    timer.start()
    try:
        yield
        peer.end()
    finally:
        timer.cancel()
        if peer.process.returncode is None:
            peer.process.kill()
            peer.process.communicate()


def inhabitants(folder: Path) -> list[psutil.Process]:
    """Return the processes that work in a folder, such as a store that outlives its server for a moment."""
    return [
        process
        for process in psutil.process_iter(["cwd"])
        if Path(process.info["cwd"] or "/").is_relative_to(folder.resolve())
    ]


def resident_bytes(peer: peers.Peer, folder: Path) -> int:
    """Return the memory of a server with its children and with what it started in its folder."""
    server = psutil.Process(peer.process.pid)
    return sum(
        process.memory_info().rss for process in {server, *server.children(recursive=True), *inhabitants(folder)}
    )


def measure(adapter: Adapter, notes: Sequence[Note], limit: float) -> dict[str, Any]:
    """Do the work with one server; raises `RuntimeError` or `ValueError` if it cannot be done."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        peer = peers.Peer.start(list(adapter.command), adapter.environment(folder))
        with killed_after(peer, limit):
            peer.initialize()
            offered = peer.ask("tools/list", {}, 1)["result"]["tools"]
            ready = (time.perf_counter() - peer.spawned) * 1000
            add, search = Tool.choose(offered, adapter.add), Tool.choose(offered, adapter.search)
            adds, searches, found = Times(), Times(), 0
            for note in notes:
                with adds.one():
                    add.call(peer, adapter.to_add(note))
            for note in notes:
                with searches.one():
                    answer = search.call(peer, adapter.to_search(note.question))
                found += note.answer in answer
            figures = {"ready ms": ready, "first add ms": adds[0]}
            for work, times in {"add": adds, "search": searches}.items():
                figures |= {f"{work} {figure}": value for figure, value in times.figures().items()}
            figures |= {"found": found / len(notes), "RSS MB": resident_bytes(peer, folder) / 1e6}
        psutil.wait_procs(inhabitants(folder), timeout=10)
        return figures


def main(arguments: Sequence[str]) -> None:
    names = [adapter.name for adapter in ADAPTERS]
    parser = argparse.ArgumentParser(prog="python -m bench compare", description=__doc__)
    parser.add_argument("--notes", type=int, default=200, help="how many are added, and then asked for")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one server may take for all of it")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="the servers to measure")
    options = parser.parse_args(arguments)
    notes = [Note.make(number) for number in range(options.notes)]
    rows = Rows()
    for adapter in ADAPTERS:
        if adapter.name not in options.only:
            continue
        if shutil.which(adapter.command[0]) is None:
            rows.add({"server": adapter.name, "state": "not installed"})
            continue
        try:
            rows.add({"server": adapter.name, "state": "measured", **measure(adapter, notes, options.limit)})
        except (RuntimeError, ValueError, OSError, psutil.Error) as error:
            rows.add({"server": adapter.name, "state": f"failed: {error}"[:100]})
    report.show(f"{options.notes} notes of 1 KB, added and asked for", rows)
    report.save("compare", rows, notes=options.notes)
    bars = {
        f"{row['server']}: {work}": row[f"{work} p50 ms"]
        for row in rows
        for work in ("add", "search")
        if "found" in row
    }
    report.plot_bars("compare", f"{options.notes} notes of 1 KB, p50", bars, "ms")


if __name__ == "__main__":
    main(sys.argv[1:])
