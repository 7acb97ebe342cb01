"""``zapomni completion``: what a shell needs to complete our commands, made from the parser itself."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import attrs

from zapomni.cli import EXIT_OK, build_parser
from zapomni.cli.options import add_command
from zapomni.cli.output import Console
from zapomni.clients import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.frozen
class Flag:
    """A flag with its spellings, longest last."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...] = ()


@attrs.frozen
class Command:
    """A command as a shell sees it: the words that lead to it, and what can follow them."""

    path: tuple[str, ...]
    flags: tuple[Flag, ...]
    words: tuple[tuple[str, str], ...] = ()
    """The words that can stand next, each with its explanation: sub-commands, or the choices of an argument."""
    once: tuple[str, ...] = ()
    """Those of them after which none of them can stand."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "completion",
        help="print a script that teaches a shell to complete our commands",
        description="Print a script that teaches a shell to complete commands, flags and their values.",
        examples=(
            "echo 'source <(zapomni completion bash)' >> ~/.bashrc",
            "echo 'source <(zapomni completion zsh)' >> ~/.zshrc",
            "zapomni completion fish > ~/.config/fish/completions/zapomni.fish",
        ),
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS), help="the shell")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    script = SCRIPTS[options.shell](list(commands_of(build_parser())))
    Console.of(options).lines(script.splitlines())
    return EXIT_OK


def commands_of(parser: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[Command]:
    """Return what a parser understands, the whole first and then each command."""
    flags, words, once = [], [], []
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = dict(action.choices)
            words += [(choice.dest, choice.help or "") for choice in action._choices_actions]
            once += list(below)
        elif not action.option_strings:
            found = _words(action)
            words += found
            once += [] if action.nargs in ("*", "+") else [word for word, _ in found]
        else:
            choices = tuple(map(str, action.choices or ()))
            names = tuple(sorted(action.option_strings, key=len))
            flags.append(Flag(names, (action.help or "") % vars(action), action.nargs != 0, choices))
    yield Command(path, tuple(flags), tuple(words), tuple(once))
    for name, inner in below.items():
        yield from commands_of(inner, (*path, name))


def _words(action: argparse.Action) -> list[tuple[str, str]]:
    """Return what can stand for an argument; clients are known by name, though the parser leaves them unchecked."""
    if action.dest == "clients":
        return [(client.name, client.title) for client in CLIENTS.values()]
    return [(str(choice), "") for choice in action.choices or ()]


def _bash(commands: list[Command]) -> str:
    cases = "\n".join(
        f'        "{" ".join(command.path)}") words="{" ".join(_bash_words(command))}" ;;' for command in commands
    )
    values = "\n".join(
        f'        {"|".join(flag)}) COMPREPLY=($(compgen -W "{" ".join(choices)}" -- "$current")); return ;;'
        for flag, choices in _choices(commands).items()
    )
    paths = " ".join(f'"{" ".join(command.path)}"' for command in commands if command.path)
    return f"""\
_zapomni() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" path="" word words known
    case "$previous" in
{values}
    esac
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        for known in {paths}; do
            [ "${{path:+$path }}$word" = "$known" ] && path="$known" && break
        done
    done
    case "$path" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _zapomni zapomni
"""


def _bash_words(command: Command) -> list[str]:
    return [word for word, _ in command.words] + [name for flag in command.flags for name in flag.names]


def _choices(commands: list[Command]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the flags whose values are known, which mean the same in every command."""
    return {flag.names: flag.choices for command in commands for flag in command.flags if flag.choices}


def _zsh(commands: list[Command]) -> str:
    """Zsh understands what bash does, which is all that is needed here."""
    ready = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
    return f"{ready}autoload -U +X bashcompinit && bashcompinit\n{_bash(commands)}"


def _fish(commands: list[Command]) -> str:
    lines = ["complete -c zapomni -n __fish_use_subcommand -f"]
    for command in commands:
        condition = _fish_condition(command)
        for word, told in command.words:
            lines.append(f"complete -c zapomni -n {_quoted(condition)} -f -a {word} -d {_quoted(told)}")
        for flag in command.flags:
            spelt = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in flag.names)
            value = f" -x -a {_quoted(' '.join(flag.choices))}" if flag.choices else " -r" if flag.takes_value else ""
            lines.append(f"complete -c zapomni -n {_quoted(condition)} {spelt}{value} -d {_quoted(flag.help)}")
    return "\n".join(lines) + "\n"


def _fish_condition(command: Command) -> str:
    if not command.path:
        return "__fish_use_subcommand"
    seen = " && ".join(f"__fish_seen_subcommand_from {word}" for word in command.path)
    if command.once and len(command.path) == 1:
        return f"{seen} && not __fish_seen_subcommand_from {' '.join(command.once)}"
    return seen


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
