"""What one call costs beyond its tool, against the SDK's own stdio transport; one at a time and many in flight."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING

from bench import peers, report

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT = "a text of two hundred bytes or so, as a model might send one. " * 3


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench calls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that each is measured, in turns")
    parser.add_argument("--calls", type=int, default=400, help="calls in each measurement")
    options = parser.parse_args(arguments)
    commands = {"SDK stdio": peers.bare(), "zapomni": peers.ours_with_echo()}
    found: dict[str, dict[str, list[float]]] = {name: {} for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            peer = peers.Peer.start(command)
            peer.initialize()
            for figure, value in _measure(peer, options.calls).items():
                found[name].setdefault(figure, []).append(value)
            peer.end()
    rows = []
    for name, figures in found.items():
        row: dict[str, object] = {"transport": name}
        for figure, values in figures.items():
            value, base = statistics.median(values), statistics.median(found["SDK stdio"][figure])
            row[figure] = round(value, 3)
            row[f"{figure} x"] = round(value / base, 2)
        rows.append(row)
    report.show(f"Calls of an echo tool, median of {options.rounds} rounds in turns", rows)
    report.save("calls", rows, rounds=options.rounds, calls=options.calls)
    report.plot_bars(
        "calls", "One call, round trip", {str(r["transport"]): float(str(r["p50 ms"])) for r in rows}, "ms"
    )


def _measure(peer: peers.Peer, calls: int) -> dict[str, float]:
    for number in range(50):
        peer.call("echo", {"text": TEXT}, number)
    times = []
    for number in range(calls):
        started = time.perf_counter()
        peer.call("echo", {"text": TEXT}, number)
        times.append((time.perf_counter() - started) * 1000)
    figures = {"p50 ms": statistics.median(times)}
    for in_flight in (1, 4, 16, 64):
        started = time.perf_counter()
        sent = 0
        for _ in range(in_flight):
            peer.send("tools/call", {"name": "echo", "arguments": {"text": TEXT}}, sent)
            sent += 1
        for _ in range(calls):
            answer = peer.receive()
            if answer.get("result", {"isError": True}).get("isError"):
                raise RuntimeError(f"a call failed: {answer}")  # which is quick, and would flatter the figures
            if sent < calls:
                peer.send("tools/call", {"name": "echo", "arguments": {"text": TEXT}}, sent)
                sent += 1
        figures[f"calls/s of {in_flight}"] = calls / (time.perf_counter() - started)
    return figures


if __name__ == "__main__":
    main(sys.argv[1:])
