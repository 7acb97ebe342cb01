"""A wall clock that a test can set, for processes that it starts and for their children."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import attrs

SOURCE = Path(__file__).with_name("clock.c")
DAY = 86_400


@attrs.frozen
class Clock:
    """Moves the time that processes see which are started with its `variables`."""

    offset: Path
    library: Path | None
    """None where the clock cannot be moved: there is no compiler, or the system lets nobody come before its clock."""

    @classmethod
    def make(cls, folder: Path) -> Clock:
        offset, library, compiler = folder / "offset", folder / "clock.so", shutil.which("cc")
        offset.write_bytes(struct.pack("q", 0))
        if compiler is None:
            return cls(offset, None)
        options = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", f'-DOFFSET="{offset}"']
        subprocess.run([compiler, *options, "-o", library, SOURCE, "-ldl"], check=False)
        clock = cls(offset, library)
        return clock if library.exists() and clock.moves() else cls(offset, None)

    @property
    def variables(self) -> dict[str, str]:
        return {} if self.library is None else {"LD_PRELOAD": str(self.library)}

    def move(self, seconds: int) -> None:
        """Let it be so much later than it is, or earlier."""
        with self.offset.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def moves(self) -> bool:
        """Tell whether a child sees the clock move: a system may ignore the library in silence."""
        self.move(DAY)
        try:
            asked = [sys.executable, "-c", "import time; print(time.time())"]
            told = subprocess.run(asked, check=True, capture_output=True, env={**os.environ, **self.variables}).stdout
        finally:
            self.move(0)
        return float(told) > time.time() + DAY / 2
