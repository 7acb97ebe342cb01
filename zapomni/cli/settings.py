"""``zapomni config``: what the settings are, and why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.cli import EXIT_OK
from zapomni.cli.options import add_command, add_setting_flags, load_settings
from zapomni.cli.output import Console, add_json_flag
from zapomni.cli.text import columns, printable
from zapomni.config import CONFIG_VARIABLE, Settings, config_file

if TYPE_CHECKING:
    import argparse

    from zapomni.config import Loaded

HIDDEN = "(hidden)"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "config",
        help="show the settings and where they come from",
        description="Show the settings.",
        examples=(
            "zapomni config show",
            "zapomni config show --json",
        ),
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    showing = add_command(
        actions,
        "show",
        help="show each value and where it comes from",
        description=(
            "Show each setting, its value, and where that comes from: a flag goes before the environment, the "
            "environment before the settings file, the file before the default. Addresses and keys that may be secret "
            "are hidden."
        ),
        examples=(
            "zapomni config show",
            "zapomni config show --json | jq .settings.data_dir",
        ),
    )
    add_json_flag(showing)
    add_setting_flags(showing, ("workspace", "data_dir", "log_level"))
    showing.set_defaults(run=run_show)


def run_show(options: argparse.Namespace) -> int:
    """Show the settings; nothing is opened or started."""
    loaded = load_settings(options)
    console = Console.of(options)
    shown = values_of(loaded)
    if console.json:
        facts = {name: {"value": value, "origin": loaded.origins[name]} for name, value in shown.items()}
        console.data({"file": str(file_of(options)), "settings": facts})
        return EXIT_OK
    rows = [
        (console.paint(name, "cyan"), printable(_text(value)), _origin(loaded.origins[name], console))
        for name, value in shown.items()
    ]
    console.lines(columns(rows))
    if console.pretty:
        there = "" if file_of(options).exists() else " (not there)"
        console.lines(["", f"The settings file is {file_of(options)}{there}."])
    return EXIT_OK


def file_of(options: argparse.Namespace) -> Path:
    """Return the settings file that a command reads, whether or not it exists."""
    return options.config or Path(os.environ.get(CONFIG_VARIABLE) or config_file())


def values_of(loaded: Loaded) -> dict[str, Any]:
    """Return the value of each setting; what may be secret only tells that it is set."""
    values = {}
    for field in attrs.fields(Settings):
        value = getattr(loaded.settings, field.name)
        values[field.name] = HIDDEN if field.metadata["secret"] and value is not None else value
    return values


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _origin(origin: str, console: Console) -> str:
    return console.paint(printable(origin), "dim" if origin == "default" else "bold")
