"""Commands and their flags; those that stand for settings follow from the one table in `zapomni.config`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import attrs

from zapomni.config import ENV_PREFIX, Loaded, Settings, load, value_of
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Help(argparse.HelpFormatter):
    """Wraps prose to the terminal and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def format_help(self) -> str:
        self._action_max_length += 2  # which argparse forgets for commands, so that longer names break the column
        return super().format_help()


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    *,
    help: str,  # the word of argparse
    description: str,
    examples: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """Add a command that explains itself: in a line, in a few sentences, and by examples."""
    return commands.add_parser(
        name,
        help=help,
        description=description,
        epilog="\n  ".join(["examples:", *examples]) if examples else None,
        formatter_class=Help,
    )


def add_setting_flags(
    parser: argparse.ArgumentParser, names: Iterable[str], told: Mapping[str, str] | None = None
) -> None:
    """Add a flag for each of these settings, and one for the settings file.

    `told` explains the ones that mean something else to this command than to the server.
    """
    group = parser.add_argument_group("settings", f"Each can also stand in the settings file or in {ENV_PREFIX}NAME.")
    group.add_argument("--config", type=Path, metavar="FILE", help="the settings file (TOML)")
    for name in names:
        field = Settings.option(name)
        flag = "--" + name.replace("_", "-")
        text = (told or {}).get(name) or f"{field.metadata['help']}{_shown_default(field.default)}"
        if field.metadata["secret"]:
            text += f"; other users see a password here in the list of processes, but not in {ENV_PREFIX}{name.upper()}"
        if field.type is bool:
            group.add_argument(flag, action="store_const", const=True, default=None, help=text)
        elif get_origin(field.type) is Literal:
            group.add_argument(flag, choices=get_args(field.type), default=None, help=text)
        else:
            metavar = name.split("_")[-1].upper()
            group.add_argument(flag, type=_reader(name), metavar=metavar, default=None, help=text)


def _reader(name: str) -> Callable[[str], Any]:
    """Return what reads a flag for argparse, so that a wrong value is as wrong a usage as a wrong flag."""

    def read(text: str) -> Any:
        try:
            return value_of(name, text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def unrecognized(words: Sequence[str]) -> str:
    """Say which arguments nobody knows, without what may be the value of an option.

    That may be a password, and what a server says here goes to its client's log.
    """
    names = [word.partition("=")[0] if word.startswith("--") else word[:2] for word in words if word.startswith("-")]
    known = {field.name for field in attrs.fields(Settings)}
    settings = [name for name in (name.removeprefix("--").replace("-", "_") for name in names) if name in known]
    places = (f"; {name} is set in the settings file or as {ENV_PREFIX}{name.upper()}" for name in settings)
    return f"unrecognized arguments: {' '.join(names or words)}{''.join(places)}"


def load_settings(options: argparse.Namespace) -> Loaded:
    """Gather the settings of a command line. Raises `ConfigError`."""
    known = {field.name for field in attrs.fields(Settings)}
    flags = {name: value for name, value in vars(options).items() if name in known}
    return load(flags, file=options.config)


def _shown_default(default: object) -> str:
    if isinstance(default, float):
        return f" (default {default:g})"
    return f" (default {default})" if isinstance(default, str | int) and not isinstance(default, bool) else ""
