"""What a shell offers behind a command that takes names which the parser does not check."""

from __future__ import annotations

import pytest

from zapomni.cli import build_parser
from zapomni.cli.completion import SCRIPTS, Command, commands_of
from zapomni.clients import CLIENTS

COMMANDS = {" ".join(command.path): command for command in commands_of(build_parser())}


@pytest.mark.parametrize("name", ["install", "uninstall"])
def test_clients_are_offered_by_name_and_more_than_once(name: str) -> None:
    command: Command = COMMANDS[name]
    assert command.words == tuple((client.name, client.title) for client in CLIENTS.values())
    assert command.once == ()
    script = SCRIPTS["fish"]([command])
    assert f"complete -c zapomni -n '__fish_seen_subcommand_from {name}' -f -a cursor -d 'Cursor'\n" in script


def test_what_is_named_once_is_not_offered_again() -> None:
    assert COMMANDS["completion"].once == ("bash", "zsh", "fish")
    assert COMMANDS["workspace"].once == ("list", "create", "delete", "use")
