"""A backup that cannot be: told in one line, in the words that a person typed, and before a store is started."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from zapomni.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZAPOMNI_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["backup", "{}/no/x"], "the backup {}/no/x cannot be written: No such file or directory"),
        (["backup", "{}/file/x"], "the backup {}/file/x cannot be written: {}/file is no folder"),
        (["backup", "{}/link"], "the backup {}/link cannot be written: No such file or directory"),
        (["restore", "{}/nope"], "the backup {}/nope cannot be read: No such file or directory"),
        (["restore", "{}/file/x"], "the backup {}/file/x cannot be read: Not a directory"),
        (["restore", "{}"], "the backup {} cannot be read: {} is a folder"),
    ],
)
def test_a_place_that_is_none_is_told_in_one_line_and_starts_no_store(
    arguments: list[str], told: str, tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("no/x")
    assert main([argument.replace("{}", str(tmp_path)) for argument in arguments]) == 1
    assert capsys.readouterr() == ("", f"zapomni: {told.replace('{}', str(tmp_path))}\n")
    assert not data.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everywhere")
def test_a_right_that_is_missing_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed, file = tmp_path / "closed", tmp_path / "file"
    closed.mkdir(0o500)
    file.touch(0o200)
    for command, path, done in (("backup", closed / "x", "written"), ("restore", file, "read")):
        assert main([command, str(path)]) == 1
        assert capsys.readouterr().err == f"zapomni: the backup {path} cannot be {done}: Permission denied\n"
