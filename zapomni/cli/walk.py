"""Finding the files of a folder that are worth remembering: what git would not ignore, and no hidden ones.

A folder that cannot be read is told, never taken for an empty one.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

from zapomni.cli.ignore import Rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RULES = ".gitignore"
REPOSITORIES = frozenset({".git", ".hg", ".svn", ".jj"})


@attrs.frozen
class Found:
    """A file, and what its folder says of it."""

    path: Path
    size: int
    modified: float


@attrs.frozen
class Skipped:
    """A path that was passed over; the reason completes "it …"."""

    path: Path
    reason: str
    unread: bool = False
    """What is below it, or in it, is not known: none of that may be taken for deleted, nor all for done."""


type Layers = tuple[tuple[bytes, Rules], ...]
"""Rules with the folders that they are about, the innermost at the end."""


def walk(roots: Iterable[Path], *, hidden: bool = False) -> Iterator[Found | Skipped]:
    """Yield each file once, in the order of names. A file that is named itself is taken whatever it is called.

    Raises `OSError` for a root that does not exist or cannot be looked at.
    """
    seen: set[Path] = set()
    for root in (root.resolve(strict=True) for root in roots):
        about = root.stat()
        items = _below(root, _outer(root), hidden) if stat.S_ISDIR(about.st_mode) else iter([_judged(root, about)])
        for item in items:
            if item.path not in seen:
                seen.add(item.path)
                yield item


def _below(root: Path, layers: Layers, hidden: bool) -> Iterator[Found | Skipped]:
    todo = [(root, root.stat(), layers)]
    while todo:
        path, about, layers = todo.pop()
        if not stat.S_ISDIR(about.st_mode):
            yield _judged(path, about)
            continue
        try:
            own = _rules(path / RULES)
            with os.scandir(path) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            yield Skipped(path, f"cannot be read: {error.strerror}", unread=True)
            continue
        layers = (*layers, (os.fsencode(path), own)) if own.rules else layers
        for entry in entries:
            if entry.name in REPOSITORIES or (entry.name.startswith(".") and not hidden):
                continue
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError as error:
                yield Skipped(path / entry.name, f"cannot be read: {error.strerror}", unread=True)
                continue
            if not _ignored(path / entry.name, layers, folder=stat.S_ISDIR(found.st_mode)):
                todo.append((path / entry.name, found, layers))


def _judged(path: Path, about: os.stat_result) -> Found | Skipped:
    if stat.S_ISREG(about.st_mode):
        return Found(path, about.st_size, about.st_mtime)
    return Skipped(path, "is a link" if stat.S_ISLNK(about.st_mode) else "is no ordinary file")


def _ignored(path: Path, layers: Layers, *, folder: bool) -> bool:
    name = os.fsencode(path)
    for base, rules in reversed(layers):
        verdict = rules.ignores(name[len(base) :].lstrip(b"/"), folder=folder)
        if verdict is not None:
            return verdict
    return False


def _outer(root: Path) -> Layers:
    """Return the rules from above a folder, up to the repository that it is in, if it is in one."""
    above = [root, *root.parents]
    top = next((place for place in above if (place / ".git").exists()), None)
    if top is None:
        return ()
    folders = above[1 : above.index(top) + 1]
    layers = [(top, _readable(top / ".git" / "info" / "exclude"))]
    layers += [(folder, _readable(folder / RULES)) for folder in reversed(folders)]
    return tuple((os.fsencode(folder), rules) for folder, rules in layers if rules.rules)


def _readable(path: Path) -> Rules:
    with suppress(OSError):
        return _rules(path)
    return Rules()


def _rules(path: Path) -> Rules:
    try:
        return Rules.parse(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return Rules()
