"""The reference pages of the documentation, made from the parser and from the table of settings.

``python -m zapomni.cli.reference docs/reference`` writes them again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import attrs

from zapomni.cli import EXITS, build_parser
from zapomni.config import CONFIG_VARIABLE, ENV_PREFIX, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MADE = "<!-- Made by `python -m zapomni.cli.reference docs/reference`; a test compares. -->\n"


def commands_page() -> str:
    """Return docs/reference/commands.md."""
    exits = "\n".join(f"| {code} | {told} |" for code, told in EXITS.items())
    head = f"""\
# Commands

{MADE}
Answers go to standard output; questions, progress and errors go to standard error. On a terminal answers are coloured
(unless `NO_COLOR` is set), wrapped, and dates are as people say them; in a pipe they are plain, with dates in ISO 8601.
`--json` prints everything exactly as it is stored. Control characters inside memories never reach a terminal raw.

Commands can be used while servers run on the same data.

## Exit codes

| code | meaning |
|---|---|
{exits}
"""
    return "\n".join([head, *_sections(build_parser())])


def _sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield _section(command)
                yield from _sections(command)


def _section(parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    arguments = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    rows = [_row(action) for action in arguments if not isinstance(action, argparse._SubParsersAction)]
    table = ["| argument | meaning |", "|---|---|", *rows, ""] if rows else []
    epilog = ["```", parser.epilog, "```", ""] if parser.epilog else []
    short = usage.partition(" [-h]")[0]
    return "\n".join([f"## {short}", "", parser.description or "", "", *table, *epilog])


def _row(action: argparse.Action) -> str:
    name = action.metavar or action.dest
    value = "" if action.nargs == 0 else "{" + ",".join(map(str, action.choices)) + "}" if action.choices else str(name)
    if action.nargs in ("+", "*"):
        value += "…"
    spelt = [f"{flag} {value}".strip() for flag in action.option_strings[-1:]] or [value]
    shown = ", ".join(f"`{name}`" for name in [*action.option_strings[:-1], *spelt])
    told = ((action.help or "") % vars(action)).replace("|", "\\|")
    return f"| {shown} | {told} |"


def settings_page() -> str:
    """Return docs/reference/settings.md."""
    rows = "\n".join(_setting(field) for field in attrs.fields(Settings))
    return f"""\
# Settings

{MADE}
A flag goes before a variable of the environment, the variable before the settings file, the file before the default.
The file is TOML, one `name = value` for each line; `--config` or `{CONFIG_VARIABLE}` name it, else it is `config.toml`
in the platform's folder for settings (`~/.config/zapomni` on Linux, `~/Library/Application Support/zapomni` on macOS).
The variable of a setting is its name in capitals after `{ENV_PREFIX}`; an empty one counts as not set. A name that is
no setting is an error wherever it stands. `zapomni config show` prints each value and where it comes from.

`data_dir`, and `embedding_model` where it is a folder, may begin with `~`. A relative path in the settings file counts
from the folder that the file is in, and one of a flag from where the command is typed. In a variable it is refused: it
would be another memory in every folder. Paths inside `falkordb_url` should be absolute, too.

| setting | kind | default | meaning |
|---|---|---|---|
{rows}
"""


def _setting(field: attrs.Attribute[Any]) -> str:
    secret = "; never shown" if field.metadata["secret"] else ""
    return f"| `{field.name}` | {_kind(field.type)} | {_default(field)} | {field.metadata['help']}{secret} |"


def _kind(wanted: Any) -> str:
    if get_origin(wanted) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(wanted))
    if arms := [arm for arm in get_args(wanted) if arm is not type(None)]:
        return _kind(arms[0])
    return {bool: "true or false", int: "whole number", float: "number", str: "text", Path: "path"}[wanted]


def _default(field: attrs.Attribute[Any]) -> str:
    if field.name == "data_dir":
        return "the platform's folder for data"
    if field.default is None:
        return ""
    value = field.default
    return f"`{str(value).lower() if isinstance(value, bool) else f'{value:g}' if isinstance(value, float) else value}`"


PAGES: dict[str, Callable[[], str]] = {"commands.md": commands_page, "settings.md": settings_page}

if __name__ == "__main__":
    for page, render in PAGES.items():
        (Path(sys.argv[1]) / page).write_text(render(), encoding="utf-8")
