"""The command line: help, versions, mistakes and exit codes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import attrs
import pytest

import zapomni
from zapomni.cli import CHOOSING, build_parser, main
from zapomni.cli.serve import FLAGS
from zapomni.config import Settings

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the real command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "zapomni", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def usage_error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_the_version_is_told() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"zapomni {zapomni.__version__}\n", "")


def test_the_help_names_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "Long-term memory for AI agents" in done.stdout
    assert "serve" in done.stdout


def test_the_help_is_there_without_the_heavy_imports() -> None:
    script = (
        "import sys; from zapomni.cli import build_parser; build_parser().format_help();"
        "print(*{'mcp', 'numpy', 'falkordb', 'redis', 'httpx', 'pydantic', 'trio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_the_help_of_serve_explains_every_flag_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", "--help"])
    assert caught.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name in FLAGS:
        assert f"--{name.replace('_', '-')} " in shown
        assert Settings.option(name).metadata["help"] in shown
    assert "seconds that one call may take (default 60)" in shown
    assert '{"mcpServers": {"zapomni": {"command": "zapomni", "args": ["serve"]}}}' in shown


def test_every_flag_of_serve_is_a_setting() -> None:
    assert set(FLAGS) <= {field.name for field in attrs.fields(Settings)}
    options = build_parser().parse_args(["serve"])
    assert all(getattr(options, name) is None for name in FLAGS), "a flag that was not given must not speak"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["serve", "--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["serve", "--log-level", "loud"], "invalid choice: 'loud'"),
        (["serve", "--request-timeout"], "expected one argument"),
        (
            ["serve", "--request-timeout", "soon"],
            "argument --request-timeout: request_timeout must be a number; it is 'soon'",
        ),
        (["serve", "--request-timeout", "inf"], "request_timeout must be finite, not inf"),
        (["serve", "--max-concurrent", "0"], "max_concurrent must be greater than 0, not 0"),
        (["search", "x", "--data-dir", ""], "argument --data-dir: data_dir must be a path; it is ''"),
        (["serve", "now"], "unrecognized arguments: now"),
    ],
)
def test_a_mistake_in_the_command_line_is_named(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = usage_error_of(capsys, *arguments)
    assert words in shown
    assert shown.startswith("usage: zapomni")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--embedding-api-key", "hunter2"], "unrecognized arguments: --embedding-api-key;"),
        (["serve", "--embedding-api-key=hunter2", "now"], "unrecognized arguments: --embedding-api-key;"),
        (["--embedding-api-key", "hunter2", "serve"], "unrecognized arguments: --embedding-api-key;"),
        (["list", "--falkordb-url", "falkor://:hunter2@db"], "unrecognized arguments: --falkordb-url;"),
        (["serve", "--password", "hunter2"], "unrecognized arguments: --password\n"),
        (["serve", "-phunter2", "--quiet"], "unrecognized arguments: -p --quiet\n"),
        (["workspace", "--embedding-api-key", "hunter2", "list"], "unrecognized arguments: --embedding-api-key;"),
        (["workspace", "--embedding-api-key=hunter2", "list"], "unrecognized arguments: --embedding-api-key;"),
        (["config", "-p", "hunter2", "show"], "unrecognized arguments: -p\n"),
        (["completion", "--password", "hunter2"], "unrecognized arguments: --password\n"),
    ],
)
def test_an_unknown_option_is_named_without_its_value(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = usage_error_of(capsys, *arguments)
    assert words in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize("arguments", [["--", "--help"], ["--", "workspace", "-h"], ["config", "--he"]])
def test_dashes_before_a_command_and_a_call_for_help_are_no_unknown_options(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: zapomni")


def test_a_command_that_goes_on_with_one_of_a_few_words_is_known_as_such() -> None:
    choosing = []
    for action in build_parser()._actions:
        for name, inner in (action.choices or {}).items() if isinstance(action.choices, dict) else ():
            if any(each.choices and not each.option_strings for each in inner._actions):
                choosing.append(name)
    assert sorted(choosing) == sorted(CHOOSING), "what stands there may be the value of an option that nobody knows"


def test_a_setting_that_has_no_flag_is_told_where_it_can_stand(capsys: pytest.CaptureFixture[str]) -> None:
    shown = usage_error_of(capsys, "serve", "--embedding-api-key", "x")
    assert "embedding_api_key is set in the settings file or as ZAPOMNI_EMBEDDING_API_KEY\n" in shown


def test_a_flag_for_a_secret_warns_of_the_list_of_processes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "other users see a password here in the list of processes, but not in ZAPOMNI_FALKORDB_URL" in shown


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ZAPOMNI_REQUEST_TIMEOUT", "soon", "ZAPOMNI_REQUEST_TIMEOUT (environment) must be a number; it is 'soon'"),
        ("ZAPOMNI_MAX_CONCURRENT", "0", "max_concurrent must be greater than 0, not 0"),
        ("ZAPOMNI_QUERY_TIMEOUT", "inf", "query_timeout must be finite, not inf"),
        ("ZAPOMNI_CONFIG", "/nowhere/zapomni.toml", "the settings file /nowhere/zapomni.toml does not exist"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(
    variable: str, value: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    assert main(["serve"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"zapomni: {words}\n"


def test_a_misspelt_setting_of_the_file_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "zapomni.toml"
    file.write_text("log_levle = 'info'\n")
    done = run("serve", "--config", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"zapomni: unknown setting log_levle (file {file}); did you mean log_level?\n"


def test_a_terminal_without_a_command_gets_the_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: zapomni")


def test_an_interrupt_has_its_own_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("zapomni.cli.serve.run", interrupted)
    assert main(["serve"]) == 130


def test_streams_that_are_missing_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unconnected(options: object) -> int:
        raise ConnectionError("stdin is closed")

    monkeypatch.setattr("zapomni.cli.serve.run", unconnected)
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == "zapomni: stdin is closed\n"
