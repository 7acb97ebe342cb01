"""How a client starts our server: by an absolute path, since desktop programs do not share the shell's PATH."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
