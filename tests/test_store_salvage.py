"""A salvage that is ended at any moment loses nothing."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from zapomni.config import Settings
from zapomni.errors import DatabaseError
from zapomni.store import salvage

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
DAMAGED = WHOLE + bytes(4096) + WHOLE
NAME = "appendonly.aof.1.incr.aof"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return the files of a store, with damage in the middle of one."""
    folder = tmp_path / "store" / salvage.FILES
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(DAMAGED)
    (folder / "appendonly.aof.manifest").write_text(f"file {NAME} seq 1 type i\n")
    return folder


def copies(files: Path) -> list[bytes]:
    return [(folder / NAME).read_bytes() for folder in files.parent.glob("damaged-*")]


async def test_what_stands_before_the_damage_is_kept_and_all_of_it_copied(files: Path, tmp_path: Path) -> None:
    (files.parent / salvage.WORK).mkdir()  # one that was cut short
    (files.parent / salvage.WORK / "rest").touch()
    outcome = await salvage.salvage(Settings(data_dir=tmp_path))
    assert outcome.lost_bytes == len(DAMAGED) - len(WHOLE)
    assert (files / NAME).read_bytes() == WHOLE
    assert copies(files) == [DAMAGED]
    assert not (files.parent / salvage.WORK).exists()


@pytest.mark.parametrize("returncode", [0, 1])
async def test_nothing_is_changed_before_the_check_is_done(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, returncode: int
) -> None:
    original = subprocess.run

    def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
        done = original(*arguments, **options)
        if not returncode:
            raise InterruptedError
        return subprocess.CompletedProcess(done.args, returncode, b"cannot\nbe fixed", b"")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(InterruptedError if not returncode else DatabaseError):
        await salvage.salvage(Settings(data_dir=tmp_path))
    assert (files / NAME).read_bytes() == DAMAGED


@pytest.mark.parametrize("step", range(4))
async def test_a_salvage_that_cannot_be_and_is_killed_as_well_loses_nothing(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each removal and each copy may be the last thing that it does."""
    left = step

    def last(original: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            done, left = original(*arguments, **options), left - 1
            if left < 0:
                raise InterruptedError
            return done

        return wrapped

    failed = subprocess.CompletedProcess[bytes]([], 1, b"cannot be fixed", b"")
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", lambda *_, **__: failed)
        patch.setattr(shutil, "rmtree", last(shutil.rmtree))
        patch.setattr(shutil, "copytree", last(shutil.copytree))
        with pytest.raises((InterruptedError, DatabaseError)):
            await salvage.salvage(Settings(data_dir=tmp_path))
    assert (files / NAME).read_bytes() == DAMAGED
