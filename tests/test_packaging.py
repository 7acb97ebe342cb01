"""What is handed on: the source archive holds everything that checks it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TREE = Path(__file__).parent.parent
ALWAYS = {"pyproject.toml"}  # the build adds it by itself


def test_the_source_archive_holds_what_tox_needs() -> None:
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))
    included = {path.removeprefix("/") for path in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    needed = set(re.findall(r"\{toxinidir\}/(\S+)", (TREE / "tox.ini").read_text(encoding="utf-8")))
    assert {"tests", "bench", ".ci"} <= needed
    assert needed - included - ALWAYS == set()
