"""Tables, JSON and plots: what every benchmark prints and leaves behind.

Absolute times on a shared machine mean little, so alternatives are measured in one run, in turns where one of them is
over in a moment.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

OUT = Path(__file__).parent / "out"
_LETTER = 7.5  # pixels that one takes, more or less
_COLOURS = (
    "#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#db2777", "#65a30d", "#475569", "#92400e",
)  # fmt: skip
_FEWEST = {50: 1, 95: 20, 99: 100}  # calls that a percentile takes: of fewer, it is little but the slowest


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of some measurements."""
    if len(values) < 2:
        return values[0] if values else float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of growth: the slope of least squares through the logarithms; NaN if it has no slope.

    1 is growth in step with the size, 0 none at all. Raises `ValueError` for what has no logarithm.
    """
    if len(set(sizes)) < 2:
        return float("nan")
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(value) for value in values]).slope


def ratio(values: Sequence[float], bases: Sequence[float]) -> str:
    """Tell how many times the bases the values are: the median of the rounds' ratios, the lowest and the highest."""
    found = sorted(value / base for value, base in zip(values, bases, strict=True))
    return f"{statistics.median(found):.2f} ({found[0]:.2f}-{found[-1]:.2f})"


class Times(list[float]):
    """Durations in milliseconds."""

    @contextmanager
    def one(self) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.append((time.perf_counter() - begin) * 1000)

    def figures(self) -> dict[str, float]:
        """Return those percentiles that so many calls tell something of."""
        return {
            f"p{percent} ms": round(percentile(self, percent), 3)
            for percent, fewest in _FEWEST.items()
            if len(self) >= fewest
        }


class Rows(list[dict[str, Any]]):
    """The rows of a table that takes minutes to fill: each is told on stderr as it comes."""

    def note(self, what: str, /, **cells: object) -> None:
        self.add({"what": what, **cells})

    def add(self, row: dict[str, Any]) -> None:
        self.append(row)
        print("  ".join(f"{name}={_shown(value)}" for name, value in row.items()), file=sys.stderr, flush=True)


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as one aligned table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    widths = [max(len(name), *(len(_shown(row.get(name, ""))) for row in rows)) for name in names]
    print(f"\n{title}")
    print("  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)))
    print("  ".join("-" * width for width in widths))
    for row in rows:
        print("  ".join(_aligned(row.get(name, ""), width) for name, width in zip(names, widths, strict=True)))


def name_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return what to call the output of a command: the options are in it, so no small run overwrites a large one."""
    marks = [parser.prog.split()[-1]]
    for option, value in vars(options).items():
        if value != parser.get_default(option):
            values = value if isinstance(value, list) else [value]
            marks += [option.replace("_", "-"), *(Path(str(one)).name for one in values if one is not True)]
    return "-".join(marks)


def save(name: str, rows: Sequence[Mapping[str, Any]], **facts: object) -> Path:
    """Write rows as JSON beside what is known of the run and the machine; return where."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    about = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(sys.orig_argv),
        "commit": _commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        **facts,
    }
    path.write_text(json.dumps({"about": about, "rows": list(rows)}, indent=1) + "\n", encoding="utf-8")
    return path


def _commit() -> str | None:
    """Return which commit the benchmarks are of, if they are in a repository."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip()


def plot_bars(name: str, title: str, bars: Mapping[str, float], unit: str) -> Path:
    """Draw one bar for each name, and return where."""
    most = max(bars.values(), default=1.0) or 1.0
    left = 24 + int(_LETTER * max(map(len, bars), default=0))
    width, height = left + 500, 46 + 30 * len(bars)
    parts = []
    for place, (label, value) in enumerate(bars.items()):
        top, length = 40 + 30 * place, 360 * value / most
        parts += [
            f'<text x="{left - 8}" y="{top + 16}" text-anchor="end">{_escaped(label)}</text>',
            f'<rect x="{left}" y="{top}" width="{length:.1f}" height="22" fill="{_COLOURS[place % len(_COLOURS)]}"/>',
            f'<text x="{left + 6 + length:.1f}" y="{top + 16}">{value:.3g} {_escaped(unit)}</text>',
        ]
    return _draw(name, title, width, height, parts)


def plot_lines(name: str, title: str, lines: Mapping[str, Mapping[float, float]], *, across: str, unit: str) -> Path:
    """Draw one line for each name on two logarithmic scales, where a power is straight; return where."""
    left, top, width, height = 70, 40, 480, 320
    points = [point for line in lines.values() for point in line.items()]
    xs, ys = ([math.log10(value) for value in values] for values in zip(*points, strict=True))
    low_x, low_y = min(xs), math.floor(min(ys))
    high_x, high_y = max(xs), max(math.ceil(max(ys)), low_y + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        share_x = (math.log10(x) - low_x) / (high_x - low_x or 1)
        share_y = (math.log10(y) - low_y) / (high_y - low_y)
        return left + width * share_x, top + height * (1 - share_y)

    parts = [
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>',
        f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">{_escaped(across)}</text>',
    ]
    parts += [
        f'<text x="{place(x, 10.0**low_y)[0]:.1f}" y="{top + height + 18}" text-anchor="middle">{x:,.0f}</text>'
        for x in sorted({x for x, _ in points})
    ]
    for power in range(low_y, high_y + 1):
        y = place(10**low_x, 10.0**power)[1]
        parts += [
            f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#ddd"/>',
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} {_escaped(unit)}</text>',
        ]
    for number, (label, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = [place(x, y) for x, y in sorted(line.items())]
        parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in path)}" fill="none" stroke="{colour}"/>'
        )
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in path]
        parts.append(
            f'<text x="{left + width + 14}" y="{top + 16 + 20 * number}" fill="{colour}">{_escaped(label)}</text>'
        )
    return _draw(name, title, left + width + 24 + int(_LETTER * max(map(len, lines))), top + height + 60, parts)


def _draw(name: str, title: str, width: int, height: int, parts: Sequence[str]) -> Path:
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.svg"
    width = max(width, 24 + int(1.25 * _LETTER * len(title)))  # whose letters are larger
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="16">{_escaped(title)}</text>',
    ]
    path.write_text("\n".join([*head, *parts, "</svg>"]) + "\n", encoding="utf-8")
    return path


def _shown(value: object) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _aligned(value: object, width: int) -> str:
    shown = _shown(value)
    return shown.rjust(width) if isinstance(value, int | float) else shown.ljust(width)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
