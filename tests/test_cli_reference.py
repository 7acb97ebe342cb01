"""What is made from the parser: the help, the reference pages, and the shells' completions."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from zapomni.cli import COMMANDS, EXITS, build_parser, main
from zapomni.cli.completion import SCRIPTS, commands_of
from zapomni.cli.reference import PAGES
from zapomni.config import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parent.parent / "docs" / "reference"


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield inner
                yield from parsers(inner)


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_the_one_that_the_code_makes(name: str) -> None:
    committed = (DOCS / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), "run: python -m zapomni.cli.reference docs/reference"


def test_the_pages_leave_nothing_out() -> None:
    commands, settings = PAGES["commands.md"](), PAGES["settings.md"]()
    assert all(f"## zapomni {command}\n" in commands for command in COMMANDS)
    assert all(f"| {code} | {told} |" in commands for code, told in EXITS.items())
    assert all(f"| `{field.name}` |" in settings for field in attrs.fields(Settings))


def test_every_command_explains_itself_and_its_arguments() -> None:
    for parser in parsers(build_parser()):
        assert parser.description, parser.prog
        assert "example" in (parser.epilog or ""), parser.prog
        for action in parser._actions:
            assert isinstance(action, argparse._SubParsersAction) or action.help, f"{parser.prog} {action.dest}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_the_same_alone_as_among_all(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for parser in (build_parser(command), build_parser()):
        with pytest.raises(SystemExit):
            parser.parse_args([command, "--help"])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert "example" in shown[0]


def test_help_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        main(["add", "--help"])
    prose, _, _ = capsys.readouterr().out.partition("examples:")
    assert max(map(len, prose.splitlines())) <= 60


def completed(line: str) -> list[str]:
    """Return what bash offers at the end of a command line."""
    script = SCRIPTS["bash"](list(commands_of(build_parser())))
    words = " ".join(f"'{word}'" for word in line.split(" "))
    ask = f'COMP_WORDS=({words}); COMP_CWORD={line.count(" ")}; _zapomni; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\n{ask}"], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("zapomni sea", ["search"]),
        ("zapomni workspace ", ["list", "create", "delete", "use", "-h", "--help"]),
        ("zapomni workspace delete --y", ["--yes"]),
        ("zapomni search word --lim", ["--limit"]),
        ("zapomni serve --embedder o", ["onnx", "ollama", "openai"]),
        ("zapomni completion ", ["bash", "zsh", "fish", "-h", "--help"]),
        ("zapomni search list --cur", []),
    ],
)
def test_bash_completes_commands_flags_and_values(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_can_read_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in COMMANDS)
    if (program := shutil.which(shell)) is not None:
        done = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_quotes_in_explanations_do_not_end_a_word_of_fish() -> None:
    parser = argparse.ArgumentParser(prog="zapomni")
    parser.add_argument("--flag", help="what's \\ this", action="store_true")
    assert "-l flag -d 'what\\'s \\\\ this'\n" in SCRIPTS["fish"](list(commands_of(parser)))
