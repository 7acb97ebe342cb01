"""A wall clock that a test can set, for processes that it starts and for their children."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import attrs

SOURCE = Path(__file__).with_name("clock.c")


@attrs.frozen
class Clock:
    """Moves the time that processes see which are started with its `variables`."""

    offset: Path
    library: Path | None
    """None where there is no compiler: then the clock cannot be moved."""

    @classmethod
    def make(cls, folder: Path) -> Clock:
        offset, library, compiler = folder / "offset", folder / "clock.so", shutil.which("cc")
        offset.write_bytes(struct.pack("q", 0))
        if compiler is None:
            return cls(offset, None)
        options = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", f'-DOFFSET="{offset}"']
        subprocess.run([compiler, *options, "-o", library, SOURCE, "-ldl"], check=True)
        return cls(offset, library)

    @property
    def variables(self) -> dict[str, str]:
        return {} if self.library is None else {"LD_PRELOAD": str(self.library)}

    def move(self, seconds: int) -> None:
        """Let it be so much later than it is, or earlier."""
        with self.offset.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))
