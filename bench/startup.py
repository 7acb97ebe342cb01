"""How long until a client can work: spawn to the first answers, against a bare server on the SDK.

A server goes on working after it has answered: ours starts the store and loads the model. So its memory is taken at
once and again when it is idle, and it is idle when its input ends. The last rows go on to a first search, in an empty
store and in filled ones, with the store's process already running (another client has it open) and not.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from bench import peers, report
from bench.texts import fill_directory, query
from zapomni.config import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BARE = "bare SDK server"
NO_LINGER = {"ZAPOMNI_STORE_LINGER": "0"}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="times that each is started, in turns")
    parser.add_argument("--chunks", type=int, nargs="+", default=[0, 5_000], help="sizes of the store searched first")
    parser.add_argument("--huge", action="store_true", help="also 50,000 chunks, which takes minutes to fill")
    options = parser.parse_args(arguments)
    sizes = sorted({*options.chunks, *([50_000] if options.huge else [])})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ways: dict[str, Callable[[], dict[str, float]]] = {
            BARE: partial(_start, peers.bare()),
            "zapomni serve": partial(_start_unsearched, Path(folder, "unsearched")),
        }
        for size in sizes:
            data = Path(folder, str(size))
            trio.run(fill_directory, Settings(data_dir=data, store_linger=0.0), size)
            ways[f"{size:,} chunks, store not running"] = partial(_start_cold, data)
            ways[f"{size:,} chunks, store running"] = partial(_start_beside, data)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, start in ways.items():
                found[name].append(start())
        for data in Path(folder).iterdir():
            peers.wait_for_the_store_to_end(data)
    rows = [_row(name, runs, found[BARE]) for name, runs in found.items()]
    output = report.name_of(parser, options)
    report.show(f"Start, median of {options.rounds} rounds in turns", rows)
    report.save(output, rows, rounds=options.rounds)
    bars = {f"{name}: initialize": _median(found[name], "initialize ms") for name in (BARE, "zapomni serve")}
    bars |= {f"{name}: search": _median(found[name], "search ms") for name in list(ways)[2:]}
    report.plot_bars(output, "Spawn to the first answers", bars, "ms")


def _median(runs: Sequence[dict[str, float]], figure: str) -> float:
    return statistics.median(run[figure] for run in runs)


def _row(name: str, runs: Sequence[dict[str, float]], bare: Sequence[dict[str, float]]) -> dict[str, object]:
    row: dict[str, object] = {"server": name}
    for figure in runs[0]:
        row[figure] = round(_median(runs, figure), 1)
        if figure in bare[0]:
            values, bases = ([run[figure] for run in each] for each in (runs, bare))
            row[f"{figure} x"] = "1" if name == BARE else report.ratio(values, bases)
    return row


def _start_unsearched(data: Path) -> dict[str, float]:
    peers.wait_for_the_store_to_end(data)
    return _start(peers.ours(data), data, search=False)


def _start_cold(data: Path) -> dict[str, float]:
    peers.wait_for_the_store_to_end(data)
    return _start(peers.ours(data), data)


def _start_beside(data: Path) -> dict[str, float]:
    other = peers.Peer.start(peers.ours(data), NO_LINGER)
    other.initialize()
    other.call("search_memory", {"query": query()})
    figures = _start(peers.ours(data), data)
    other.end()
    return figures


def _start(command: list[str], data: Path | None = None, *, search: bool = True) -> dict[str, float]:
    """Start a server, search if it has data, wait until it is idle, and end it."""
    peer = peers.Peer.start(command, NO_LINGER)
    initialized = peer.initialize()
    peer.ask("tools/list", {})
    figures = {"initialize ms": initialized * 1000, "tools/list ms": (time.perf_counter() - peer.spawned) * 1000}
    memory = {"RSS MB at tools/list": peer.resident_bytes() / 1e6}
    if data is not None and search:
        peer.call("search_memory", {"query": query()})
        figures["search ms"] = (time.perf_counter() - peer.spawned) * 1000
    if data is not None:
        peers.wait_for_the_store_to_answer(data)
    peer.settle()
    memory["idle RSS MB"] = peer.resident_bytes() / 1e6
    store = {} if data is None else {"store RSS MB": peers.resident_megabytes(peers.inhabitants(data))}
    ended = peer.end()
    return {**figures, **memory, "gone after EOF ms": ended.seconds * 1000, "CPU ms": ended.processor * 1000, **store}
