"""How a client starts our server: by an absolute path, since desktop programs do not share the shell's PATH."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_RUNNERS = ("uvx", "uv", "pipx", "env", "wsl")


@attrs.frozen
class Launch:
    """A command with its arguments and the variables that it needs."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def of_this_installation(cls, flags: Iterable[str] = (), env: Mapping[str, str] | None = None) -> Launch:
        """Return the command that serves with the very installation that is running now."""
        script = _script()
        command, lead = (str(script), ()) if script else (sys.executable, ("-m", "zapomni"))
        return cls(command, (*lead, "serve", *flags), env or {})

    def through_wsl(self, distribution: str) -> Launch:
        """Return the command by which a Windows program starts this one inside WSL.

        Windows hands no variables over, so they become part of the command.
        """
        setting = ("env", *(f"{name}={value}" for name, value in self.env.items())) if self.env else ()
        return Launch("wsl.exe", ("-d", distribution, "--exec", *setting, self.command, *self.args))


def starts_us(entry: Mapping[str, Any]) -> bool:
    """Tell whether an entry of a client starts our server: from whichever installation, and with whatever settings.

    What is called like us is not us yet: another language's package runner would fetch a package of somebody else's.
    """
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        return False
    words = [_name(word) for word in (command, *args)]
    known = words[0] == "zapomni" or words[0] in _RUNNERS or words[0].startswith("python")
    return known and any(word == "zapomni" and words[at + 1 :][:1] in ([], ["serve"]) for at, word in enumerate(words))


def _name(word: str) -> str:
    """Return what a word of a command names, without its folder, its ending and the version that it asks for."""
    return PureWindowsPath(word).name.lower().partition("@")[0].removesuffix(".exe")


def _script() -> Path | None:
    """Return the `zapomni` script of the running interpreter's installation.

    Symbolic links stay as they are: following a virtual environment's would lead out of it.
    """
    name = "zapomni.exe" if sys.platform == "win32" else "zapomni"
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    for folder in (Path(sysconfig.get_path("scripts", scheme)) for scheme in schemes):
        if os.access(folder / name, os.X_OK):
            return folder / name
    return None
