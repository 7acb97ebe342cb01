"""How long until a client can work: spawn to the first answers, against a bare server on the SDK."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import peers, report

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="times that each is started, in turns")
    rounds = parser.parse_args(arguments).rounds
    found: dict[str, list[dict[str, float]]] = {"bare SDK server": [], "zapomni serve": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name, command in (("bare SDK server", peers.bare()), ("zapomni serve", peers.ours(Path(folder)))):
                found[name].append(_start(command))
    rows = []
    for name, runs in found.items():
        row: dict[str, object] = {"server": name}
        for figure in runs[0]:
            value = statistics.median(run[figure] for run in runs)
            base = statistics.median(run[figure] for run in found["bare SDK server"])
            row[figure] = round(value, 1)
            row[f"{figure} x"] = round(value / base, 2)
        rows.append(row)
    report.show(f"Start, median of {rounds} rounds in turns", rows)
    report.save("startup", rows, rounds=rounds)
    bars = {str(row["server"]): float(str(row["initialize ms"])) for row in rows}
    report.plot_bars("startup", "Spawn to the answer to initialize", bars, "ms")


def _start(command: list[str]) -> dict[str, float]:
    peer = peers.Peer.start(command)
    initialized = peer.initialize()
    peer.ask("tools/list", {}, 1)
    listed = time.perf_counter() - peer.spawned
    resident = peer.resident_bytes()
    gone, processor = peer.end()
    return {
        "initialize ms": initialized * 1000,
        "tools/list ms": listed * 1000,
        "gone after EOF ms": gone * 1000,
        "CPU ms": processor * 1000,
        "RSS MB": resident / 1e6,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
