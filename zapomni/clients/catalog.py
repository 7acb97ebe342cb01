"""The clients that Zapomni can be added to: where each keeps its settings, and how an entry looks there."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from zapomni.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zapomni.clients.launch import Launch

type Platform = Literal["linux", "macos", "windows"]

ENTRY = "zapomni"
"""The name that our server has in every client's table."""


@attrs.frozen
class Machine:
    """Whose settings are meant: the one that we run on, or the Windows side of a WSL machine."""

    platform: Platform
    home: Path
    environ: Mapping[str, str] = attrs.field(factory=dict)

    @classmethod
    def current(cls) -> Machine:
        platforms: dict[str, Platform] = {"darwin": "macos", "win32": "windows"}
        return cls(platforms.get(sys.platform, "linux"), Path.home(), os.environ)

    @property
    def settings(self) -> Path:
        """Where desktop programs keep their settings."""
        match self.platform:
            case "macos":
                return self.home / "Library" / "Application Support"
            case "windows":
                return self._named("APPDATA") or self.home / "AppData" / "Roaming"
            case "linux":
                return self._named("XDG_CONFIG_HOME") or self.home / ".config"

    def _named(self, variable: str) -> Path | None:
        """The folder that a variable names; a relative one is ignored, as the XDG rules demand."""
        value = self.environ.get(variable)
        return Path(value) if value and Path(value).is_absolute() else None

    def folder(self, variable: str, default: str) -> Path:
        """The folder that the variable names, else the default in the home directory."""
        return self._named(variable) or self.home / default


@attrs.frozen
class Client:
    """One client: `paths` lists where its settings may be; the first one that exists is meant, else the first."""

    name: str
    title: str
    paths: Callable[[Machine], tuple[Path, ...]]
    table: str = "mcpServers"
    syntax: Literal["json", "toml"] = "json"
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields that the client wants beside command and arguments."""
    signs: Callable[[Machine], tuple[Path, ...]] = lambda machine: ()
    """Folders that are there only when the client is, beside the one of its settings."""
    program: str | None = None

    def path(self, machine: Machine) -> Path:
        """Return the settings file, which need not exist."""
        paths = self.paths(machine)
        return next((path for path in paths if path.exists()), paths[0])

    def present(self, machine: Machine) -> bool:
        """Tell whether the client seems to be installed."""
        signs = (*self.paths(machine), *self.signs(machine))
        found = self.program is not None and shutil.which(self.program, path=machine.environ.get("PATH", ""))
        return bool(found) or any(path.exists() for path in signs)

    def entry(self, launch: Launch) -> dict[str, Any]:
        """Return what stands in the client's table for this way of starting the server."""
        env = {"env": dict(launch.env)} if launch.env else {}
        return {**self.extra, "command": launch.command, "args": list(launch.args), **env}


_CLINE = "saoudrizwan.claude-dev/settings/cline_mcp_settings.json"

CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-desktop",
            "Claude Desktop",
            lambda machine: (machine.settings / "Claude" / "claude_desktop_config.json",),
            signs=lambda machine: (machine.settings / "Claude",),
        ),
        Client(
            "claude-code",
            "Claude Code",
            lambda machine: (machine.folder("CLAUDE_CONFIG_DIR", "") / ".claude.json",),
            extra={"type": "stdio"},
            signs=lambda machine: (machine.folder("CLAUDE_CONFIG_DIR", ".claude"),),
            program="claude",
        ),
        Client(
            "cursor",
            "Cursor",
            lambda machine: (machine.home / ".cursor" / "mcp.json",),
            signs=lambda machine: (machine.home / ".cursor", machine.settings / "Cursor"),
            program="cursor",
        ),
        Client(
            "vscode",
            "VS Code",
            lambda machine: (machine.settings / "Code" / "User" / "mcp.json",),
            table="servers",
            extra={"type": "stdio"},
            signs=lambda machine: (machine.settings / "Code",),
            program="code",
        ),
        Client(
            "windsurf",
            "Windsurf",
            lambda machine: (machine.home / ".codeium" / "windsurf" / "mcp_config.json",),
            signs=lambda machine: (machine.home / ".codeium" / "windsurf", machine.settings / "Windsurf"),
            program="windsurf",
        ),
        Client(
            "cline",
            "Cline",
            lambda machine: (
                machine.settings / "Code" / "User" / "globalStorage" / _CLINE,
                machine.home / ".cline" / "data" / "settings" / "cline_mcp_settings.json",
            ),
            signs=lambda machine: (
                machine.settings / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev",
                machine.home / ".cline",
            ),
            program="cline",
        ),
        Client(
            "zed",
            "Zed",
            # On macOS, too, Zed keeps its settings in ~/.config.
            lambda machine: (
                machine.settings / "Zed" / "settings.json"
                if machine.platform == "windows"
                else machine.folder("XDG_CONFIG_HOME", ".config") / "zed" / "settings.json",
            ),
            table="context_servers",
            extra={"source": "custom"},
            program="zed",
        ),
        Client(
            "gemini-cli",
            "Gemini CLI",
            lambda machine: (machine.home / ".gemini" / "settings.json",),
            signs=lambda machine: (machine.home / ".gemini",),
            program="gemini",
        ),
        Client(
            "codex-cli",
            "Codex CLI",
            lambda machine: (machine.folder("CODEX_HOME", ".codex") / "config.toml",),
            table="mcp_servers",
            syntax="toml",
            signs=lambda machine: (machine.folder("CODEX_HOME", ".codex"),),
            program="codex",
        ),
    )
}


def find(name: str) -> Client:
    """Return the client of this name. Raises `ValidationError`."""
    if name in CLIENTS:
        return CLIENTS[name]
    close = difflib.get_close_matches(name.lower().replace(" ", "-"), CLIENTS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(CLIENTS)}"
    raise ValidationError(f"unknown client {name!r}; {hint}")
