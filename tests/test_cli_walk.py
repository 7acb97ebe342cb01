"""Which files of a folder are taken: the same that git would take, minus what is hidden."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zapomni.cli.ignore import Rules
from zapomni.cli.walk import Found, Skipped, walk

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge")
AT_ANY_SPEED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = st.sampled_from(["a", "b", "ab", "a.py", "b.txt", "build", "x y", "é", "a-b", "[a]", "a ", "#a", "!a"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
WORDS = ("a", "b", "ab", "build", "py", "txt", ".", " ", "é", "#", "-", "\t")
SIGNS = ("*", "**", "?", "/", "/", "!", "\\", "\\ ", "**/", "/**", "/**/")
SETS = ("[ab]", "[!a]", "[^b-z]", "[a", "[[:alpha:]]", "[[:nothing:]]", "[]a]", "[a-]", "[\\]]")
PIECES = st.sampled_from([*WORDS, *SIGNS, *SETS])
LINES = st.lists(PIECES, max_size=5).map("".join) | PATHS
FILES = st.lists(LINES, max_size=4).map("\n".join)


def make(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def taken(root: Path, *, hidden: bool = True) -> list[str]:
    return [
        str(item.path.relative_to(root.resolve())) for item in walk([root], hidden=hidden) if isinstance(item, Found)
    ]


def git_takes(root: Path) -> list[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", *arguments], cwd=root, env=environ, check=True, capture_output=True).stdout

    git("init", "-q", ".")
    found = git("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    return sorted((os.fsdecode(name) for name in found if name), key=lambda name: name.split("/"))


@needs_git
@AT_ANY_SPEED
@given(st.sets(PATHS, min_size=1, max_size=8), st.dictionaries(st.just("") | PATHS, FILES, max_size=3))
@example({"a/b/c", "a/c", "b/a/c"}, {"": "a/**/c\n!/a/c"})
@example({"build/a", "b/build/a", "b/build"}, {"": "/build/\n", "b": "!build"})
@example({"a/b", "a/ab"}, {"": "a/*\n!a/b"})
@example({"a/b"}, {"": "a/\n!a/b"})
@example({"a "}, {"": "a\\ \n"})
@example({"ab"}, {"": "\ufeffa?\r\n"})
def test_the_files_taken_are_those_that_git_would_take(paths: set[str], rules: dict[str, str]) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        for path in sorted(paths):
            if not any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in paths - {path}):
                make(root, {path: "x"})
        for place, text in rules.items():
            if (root / place).is_dir():
                (root / place / ".gitignore").write_text(text, newline="")
        assert taken(root) == git_takes(root)


@needs_git
def test_the_rules_above_a_folder_count_up_to_its_repository(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*.txt", "repository/.gitignore": "*.log\n/deep/no"})
    make(tmp_path, dict.fromkeys(["repository/deep/a.txt", "repository/deep/a.log", "repository/deep/no"], "x"))
    make(tmp_path, {"repository/.git/info/exclude": "secret", "repository/deep/secret": "x"})
    assert taken(tmp_path / "repository" / "deep") == ["a.txt"]


def test_hidden_files_are_taken_only_when_asked_for(tmp_path: Path) -> None:
    make(tmp_path, dict.fromkeys([".env", ".hidden/a", "a", ".git/config"], "x"))
    assert taken(tmp_path, hidden=False) == ["a"]
    assert taken(tmp_path, hidden=True) == [".env", ".hidden/a", "a"]


def test_a_file_that_is_named_is_taken_whatever_the_rules_say_and_once(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "*", ".env": "x", "a": "x"})
    items = list(walk([tmp_path / ".env", tmp_path / "a", tmp_path, tmp_path / "a"]))
    assert [item.path.name for item in items] == [".env", "a"]


def test_links_and_pipes_are_passed_over_with_a_word(tmp_path: Path) -> None:
    make(tmp_path, {"b/a": "x"})
    (tmp_path / "link").symlink_to(tmp_path / "b")
    os.mkfifo(tmp_path / "pipe")
    skipped = [(item.path.name, item.reason) for item in walk([tmp_path]) if isinstance(item, Skipped)]
    assert skipped == [("link", "is a link"), ("pipe", "is no ordinary file")]


def test_a_folder_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    make(tmp_path, {"closed/a": "x", "open": "x"})
    (tmp_path / "closed" / ".gitignore").symlink_to(".gitignore")  # which even root cannot read
    closed, found = walk([tmp_path])
    assert isinstance(closed, Skipped)
    assert (closed.path, closed.unread) == ((tmp_path / "closed").resolve(), True)
    assert closed.reason.startswith("cannot be read: ")
    assert isinstance(found, Found)


def test_a_root_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(walk([tmp_path / "nowhere"]))


def test_a_pattern_cannot_make_the_search_explode() -> None:
    rules = Rules.parse(b"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b")
    assert rules.ignores(b"a" * 255, folder=False) is None
