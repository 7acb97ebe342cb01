"""The demo shows what it says: the right answers, nothing of a cancelled call, nothing lost, and nothing left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil

from zapomni.cli.demo import MEMORIES, QUESTIONS

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "zapomni", "demo"]
ANSWERS = ("spare key", "пекарню", "Biscuit", "Lisboa", "牡丹", "parse_config")


def environment(home: Path, scratch: Path) -> dict[str, str]:
    """A machine where nothing is set up, but with settings that would break whatever heeds them."""
    settings = home / ".config" / "zapomni" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('falkordb_url = "redis://nowhere.invalid:1"\n')
    scratch.mkdir()
    return {"HOME": str(home), "TMPDIR": str(scratch), "PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"}


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return every process that was started for something below a folder."""
    everybody = psutil.process_iter(["cmdline"])
    return [process for process in everybody if str(folder) in " ".join(process.info["cmdline"] or ())]


def wait_until_gone(folder: Path) -> None:
    until = time.monotonic() + 20
    while left := processes_of(folder):
        assert time.monotonic() < until, left
        time.sleep(0.05)


def test_the_demo_keeps_every_promise_and_leaves_nothing(tmp_path: Path) -> None:
    environ = environment(tmp_path / "home", tmp_path / "scratch")
    done = subprocess.run(COMMAND, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for question, words in zip(QUESTIONS, ANSWERS, strict=True):
        (line,) = [line for line in lines if line.strip().startswith(question)]
        assert words in line
    assert f"  ok  {len(MEMORIES)} memories, {len(MEMORIES)} passages, 0 of them of that text" in lines
    assert f"  ok  {len(MEMORIES)} of {len(MEMORIES)} memories are there, word for word" in lines
    assert "passages stored" in done.stdout, "the call that was cancelled had begun to write"
    assert "\x1b" not in done.stdout
    wait_until_gone(tmp_path)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_demo_that_is_interrupted_leaves_nothing_either(tmp_path: Path) -> None:
    environ = environment(tmp_path / "home", tmp_path / "scratch")
    child = subprocess.Popen(COMMAND, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout is not None
        while b"Finding" not in child.stdout.readline():
            assert child.poll() is None, child.communicate()
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
        assert (child.returncode, err) == (130, b"")
    finally:
        child.kill()
        child.communicate()
    wait_until_gone(tmp_path)
    assert list((tmp_path / "scratch").iterdir()) == []
