"""The README's picture: a real run of ``zapomni demo`` on a terminal, drawn as SVG into docs/demo.svg.

``python docs/draw_demo.py``, from the working tree.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TREE = Path(__file__).parent.parent
PICTURE = TREE / "docs" / "demo.svg"
COLUMNS, LINE, MARGIN = 110, 19, 20
CHARACTER = 7.83  # the width of a monospaced letter of 13 pixels
CODES = re.compile(r"(\x1b\[[0-9;]*m)")
STYLES = {
    "1": 'font-weight="bold"',
    "2": 'fill="#8b949e"',
    "31": 'fill="#ff7b72"',
    "32": 'fill="#3fb950"',
    "33": 'fill="#d29922"',
    "36": 'fill="#79c0ff"',
}


def main() -> None:
    lines = ["$ zapomni demo", *_recorded().replace("\r", "").rstrip().split("\n")]
    PICTURE.write_text("\n".join(_drawn(lines)) + "\n", encoding="utf-8")
    print(f"drawn: {PICTURE}")


def _recorded() -> str:
    """Return what the demo writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "zapomni", "demo"]
    demo = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment, cwd=TREE)
    os.close(theirs)
    data = bytearray()
    try:
        while part := os.read(ours, 65536):
            data += part
    except OSError:  # how Linux tells that nobody has the other end any more
        pass
    os.close(ours)
    if demo.wait():
        raise SystemExit("the demo failed")
    return data.decode()


def _drawn(lines: Sequence[str]) -> Iterator[str]:
    longest = max(len(CODES.sub("", line)) for line in lines)
    width, height = int(longest * CHARACTER) + 2 * MARGIN, (len(lines) + 1) * LINE + 2 * MARGIN
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>'
    yield '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13" fill="#e6edf3">'
    for number, line in enumerate(lines, start=1):
        yield f'<text x="{MARGIN}" y="{MARGIN + number * LINE}" xml:space="preserve">{"".join(_styled(line))}</text>'
    yield "</g>"
    yield "</svg>"


def _styled(line: str) -> Iterator[str]:
    style = ""
    for part in CODES.split(line):
        if part.startswith("\x1b["):
            style = " ".join(STYLES[code] for code in part[2:-1].split(";") if code in STYLES)
        elif part:
            yield f"<tspan {style}>{escape(part)}</tspan>" if style else escape(part)


if __name__ == "__main__":
    main()
