"""The README's two commands: they are what CI runs, and they work in an empty home."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TREE = Path(os.environ.get("SOURCE_TREE", Path(__file__).parent.parent))
README = (TREE / "README.md").read_text(encoding="utf-8")


def command_of(section: str) -> str:
    """Return the command that a section of the README shows."""
    (command,) = re.findall(rf"^## {section}\n.*?^```console\n\$ (.*?)\n```", README, re.DOTALL | re.MULTILINE)
    return str(command)


def test_ci_runs_the_command_for_tests_and_nothing_else() -> None:
    lines = (TREE / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert lines == ["#!/usr/bin/env bash", "set -euo pipefail", 'cd "$(dirname "$0")/.."', command_of("Tests")]


def fresh_copy(folder: Path) -> Path:
    ignored = shutil.ignore_patterns(".git", ".venv", ".tox", "__pycache__", ".*_cache", ".hypothesis", "out")
    return Path(shutil.copytree(TREE, folder / "zapomni", ignore=ignored))


def run(command: str, folder: Path, **more: str) -> str:
    home = folder / "home"
    home.mkdir()
    kept = {
        name: os.environ[name] for name in ("PATH", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "LANG") if name in os.environ
    }
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=fresh_copy(folder),
        env={**kept, "HOME": str(home), **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_command_to_run_works_in_an_empty_home(tmp_path: Path) -> None:
    assert "12 of 12 memories are there, word for word" in run(command_of("Run"), tmp_path)


@pytest.mark.slow
def test_the_command_for_tests_works_in_an_empty_home(tmp_path: Path) -> None:
    """One file of tests stands for all of them; lint and types are whole."""
    assert "congratulations" in run(command_of("Tests"), tmp_path, PYTEST_ADDOPTS="-k test_framing")
