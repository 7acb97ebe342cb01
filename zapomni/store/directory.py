"""The embedded server's directory: made by us, ours alone, and closed to everybody else.

It lies inside the data directory, which may hold other things and may be open to others: that is the user's affair.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

from zapomni.errors import ConfigError
from zapomni.store import reaper

FULL = (errno.ENOSPC, errno.EDQUOT)
SOCKET = "server.sock"
SOCKET_PATH_BYTES = 100  # the kernel takes 108 on Linux, 104 on macOS


def prepare(directory: Path) -> None:
    """Make the directory, or check that it is ours and that we can write to it.

    Raises `ConfigError`, and `OSError` only when the disk is full.
    """
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        _check_private(directory)
        os.close(reaper.open_lock(directory, reaper.CLIENTS))
    except (NotADirectoryError, FileExistsError) as error:
        raise ConfigError(f"data_dir must be a directory: {error.filename} is a file") from error
    except OSError as error:
        if error.errno in FULL:
            raise  # there is nothing wrong with the directory
        raise ConfigError(f"the data directory cannot be used: {error.strerror}: {error.filename}") from error


def _check_private(directory: Path) -> None:
    """Refuse a directory that another user made, and close our own to others."""
    for found in (directory.lstat(), directory.stat()):
        if found.st_uid != os.geteuid():
            raise ConfigError(f"{directory} belongs to another user (uid {found.st_uid}); choose another data_dir")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(0, "not a directory", str(directory))
    if stat.S_IMODE(found.st_mode) != 0o700:
        directory.chmod(0o700)


def choose_socket(directory: Path) -> str:
    """Return a path that is short enough for a socket, in a directory that nobody else can enter."""
    if len(os.fsencode(directory / SOCKET)) <= SOCKET_PATH_BYTES:
        return SOCKET
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    shared = Path(tempfile.gettempdir()) / f"zapomni-{os.geteuid()}"
    base = Path(runtime) / "zapomni" if runtime and os.path.isdir(runtime) else shared
    with contextlib.suppress(FileExistsError):
        base.mkdir(mode=0o700)
    _check_private(base)
    path = str(base / reaper.short_name(directory))
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise ConfigError(f"the path of the data directory is too long for a socket; choose a shorter one: {directory}")
    return path
