"""Tables, JSON and plots: what every benchmark prints and leaves behind.

Absolute times on a shared machine mean little, so each benchmark measures its alternatives in turns in one run, and a
table shows ratios beside figures.
"""

from __future__ import annotations

import json
import platform
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OUT = Path(__file__).parent / "out"
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2")


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of some measurements."""
    if len(values) < 2:
        return values[0] if values else float("nan")
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as one aligned table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_shown(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[place]) for line in cells)) for place, name in enumerate(names)]
    print(f"\n{title}")
    print("  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)))
    print("  ".join("-" * width for width in widths))
    for line in cells:
        print("  ".join(_aligned(cell, width) for cell, width in zip(line, widths, strict=True)))


def save(name: str, rows: Sequence[Mapping[str, Any]], **facts: object) -> Path:
    """Write rows as JSON beside what is known of the machine; return where."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{name}.json"
    about = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **facts,
    }
    path.write_text(json.dumps({"about": about, "rows": list(rows)}, indent=1) + "\n", encoding="utf-8")
    return path


def plot_bars(name: str, title: str, bars: Mapping[str, float], unit: str) -> Path:
    """Draw one bar for each name, and return where."""
    OUT.mkdir(exist_ok=True)
    most = max(bars.values(), default=1.0) or 1.0
    height = 46 + 30 * len(bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" font-family="sans-serif">',
        f'<rect width="720" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="16">{_escaped(title)}</text>',
    ]
    for place, (label, value) in enumerate(bars.items()):
        top, width = 40 + 30 * place, 380 * value / most
        parts += [
            f'<text x="228" y="{top + 16}" text-anchor="end">{_escaped(label)}</text>',
            f'<rect x="236" y="{top}" width="{width:.1f}" height="22" fill="{_COLOURS[place % len(_COLOURS)]}"/>',
            f'<text x="{242 + width:.1f}" y="{top + 16}">{value:.3g} {_escaped(unit)}</text>',
        ]
    path = OUT / f"{name}.svg"
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
    return path


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _aligned(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
