"""A change to a settings file: worked out first, shown if asked, and then made without a moment of half a file."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from typing import TYPE_CHECKING

import attrs

from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BACKUP_SUFFIX = ".zapomni-backup"


@attrs.frozen
class Change:
    """What a file held and what it is to hold; `before` is None for a file that is not there yet."""

    path: Path
    before: bytes | None
    after: bytes
    hide: Callable[[str], str] = attrs.field(default=str, eq=False, repr=False)
    """Leaves out of a text what is nobody's business who is shown the change."""

    def __bool__(self) -> bool:
        return self.after != (self.before or b"")

    def diff(self) -> str:
        """Return the change as a unified diff of what may be shown, empty where nothing changes."""
        old, new = (
            self.hide(text.decode(errors="replace")).splitlines(keepends=True)
            for text in (self.before or b"", self.after)
        )
        name = "/dev/null" if self.before is None else str(self.path)
        lines = difflib.unified_diff(old, new, name, str(self.path))
        return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)

    def apply(self) -> Path | None:
        """Make the change and return the backup, if there was anything to keep. Raises `ConfigError`.

        A symbolic link stays one: the file that it leads to is replaced. Whoever changed the file since this was
        worked out wins; nothing is written then.
        """
        if not self:
            return None
        try:
            path = self.path.resolve()
            path.parent.mkdir(parents=True, exist_ok=True)
            if read(path) != self.before:
                raise ConfigError(f"{self.path} was changed by another program just now; please try again")
            backup = None if self.before is None else _back_up(path, self.before)
            _replace(path, self.after)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be changed: {error.strerror or error}") from error
        return backup


def read(path: Path) -> bytes | None:
    """Return what a file holds, or None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _back_up(path: Path, content: bytes) -> Path:
    """Write the content beside the file, under a name that no earlier backup has."""
    number = 0
    while True:
        backup = path.with_name(f"{path.name}{BACKUP_SUFFIX}{f'.{number}' if number else ''}")
        try:
            # Settings may hold keys, so nobody but the owner may ever open the copy before it has its mode.
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            number += 1
            continue
        _write(descriptor, backup, content, like=path)
        return backup


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = path.with_name(os.path.basename(name))
    try:
        _write(descriptor, temporary, content, like=path)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write(descriptor: int, path: Path, content: bytes, *, like: Path) -> None:
    """Write, with the mode and the owner of the file that this stands for, and wait for the disk."""
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    with contextlib.suppress(FileNotFoundError):  # a new file keeps the private mode that it was made with
        model = like.stat()
        if hasattr(os, "chown") and (model.st_uid, model.st_gid) != (path.stat().st_uid, path.stat().st_gid):
            with contextlib.suppress(PermissionError):
                os.chown(path, model.st_uid, model.st_gid)
        path.chmod(model.st_mode & 0o7777)
