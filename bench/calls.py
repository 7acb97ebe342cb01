"""What one call costs beyond its tool, against the SDK's own stdio transport; one at a time and many in flight."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

from bench import peers, report
from bench.report import Times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SDK = "SDK stdio"
TEXT = "a text of two hundred bytes or so, as a model might send one. " * 3


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench calls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that each is measured, in turns")
    parser.add_argument("--calls", type=int, default=400, help="calls in each measurement")
    options = parser.parse_args(arguments)
    commands = {SDK: peers.bare(), "zapomni": peers.ours_with_echo()}
    found: dict[str, dict[str, list[float]]] = {name: {} for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            peer = peers.Peer.start(command)
            peer.initialize()
            for figure, value in _measure(peer, options.calls).items():
                found[name].setdefault(figure, []).append(value)
            peer.end()
    rows = [_row(name, figures, found[SDK]) for name, figures in found.items()]
    name = report.name_of(parser, options)
    report.show(f"Calls of an echo tool, median of {options.rounds} rounds in turns", rows)
    report.save(name, rows, rounds=options.rounds, calls=options.calls)
    bars = {name: statistics.median(figures["p50 ms"]) for name, figures in found.items()}
    report.plot_bars(name, "One call, round trip", bars, "ms")


def _row(name: str, figures: Mapping[str, Sequence[float]], bases: Mapping[str, Sequence[float]]) -> dict[str, object]:
    row: dict[str, object] = {"transport": name}
    for figure, values in figures.items():
        row[figure] = round(statistics.median(values), 3)
        row[f"{figure} x"] = "1" if name == SDK else report.ratio(values, bases[figure])
    return row


def _measure(peer: peers.Peer, calls: int) -> dict[str, float]:
    for _ in range(50):
        peer.call("echo", {"text": TEXT})
    times = Times()
    for _ in range(calls):
        with times.one():
            peer.call("echo", {"text": TEXT})
    return {"p50 ms": statistics.median(times)} | {
        f"calls/s of {in_flight}": _rate(peer, calls, in_flight) for in_flight in (1, 4, 16, 64)
    }


def _rate(peer: peers.Peer, calls: int, in_flight: int) -> float:
    """Return how many calls a second are answered with so many of them on their way."""
    params = {"name": "echo", "arguments": {"text": TEXT}}
    started = time.perf_counter()
    waiting = {peer.request("tools/call", params) for _ in range(min(in_flight, calls))}
    for left in range(calls, 0, -1):
        answer = peer.receive()
        if answer.get("result", {"isError": True}).get("isError"):
            raise RuntimeError(f"a call failed: {answer}")  # which is quick, and would flatter the figures
        waiting.remove(answer["id"])
        if left - 1 > len(waiting):
            waiting.add(peer.request("tools/call", params))
    return calls / (time.perf_counter() - started)
