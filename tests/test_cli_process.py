"""The command as a process of its own: terminals, pipes, signals, and a machine that is not as it should be."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zapomni.config import Settings

SECONDS = 60.0


@attrs.frozen
class Shell:
    """Starts the real command with an environment of its own."""

    environ: dict[str, str]

    def run(self, *arguments: str, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "zapomni", *arguments],
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**self.environ, **environ},
        )

    def add(self, text: str) -> str:
        done = self.run("add", "-", stdin=text.encode())
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def on_terminal(self, *arguments: str, typed: bytes = b"", **environ: str) -> tuple[int, str]:
        """Run a command on a terminal of 60 columns; return its exit code and everything that the terminal got."""
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        process = subprocess.Popen(
            [sys.executable, "-m", "zapomni", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**self.environ, "COLUMNS": "60", "TERM": "xterm", **environ},
        )
        os.close(theirs)
        try:
            os.write(ours, typed)
            shown = b"".join(_until_closed(ours))
            return process.wait(SECONDS), shown.decode()
        finally:
            process.kill()
            process.wait()
            os.close(ours)


def _until_closed(terminal: int) -> Iterator[bytes]:
    until = time.monotonic() + SECONDS
    while True:
        assert select.select([terminal], [], [], until - time.monotonic())[0], "the command does not end"
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # how Linux says that the other side is closed
            return
        if not data:
            return
        yield data


@pytest.fixture(scope="module")
def shell(store_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    home = tmp_path_factory.mktemp("home")
    own = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "ZAPOMNI_DATA_DIR": str(store_settings.data_dir),
        "ZAPOMNI_STORE_LINGER": "0.1",
        "ZAPOMNI_WORKSPACE": "shell",
    }
    if store_settings.falkordb_url is not None:
        own["ZAPOMNI_FALKORDB_URL"] = store_settings.falkordb_url
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZAPOMNI_", "NO_COLOR"))}
    return Shell({**kept, **own})


@pytest.fixture
def lonely(shell: Shell, tmp_path: Path) -> Shell:
    """A shell whose data directory nobody has used."""
    environ = {**shell.environ, "ZAPOMNI_DATA_DIR": str(tmp_path / "data")}
    environ.pop("ZAPOMNI_FALKORDB_URL", None)
    return Shell(environ)


def test_the_text_alone_comes_back_to_the_byte(shell: Shell) -> None:
    text = "one\r\ntwo каждый 記憶\n\x1b[0m"
    added = shell.add(text)
    assert shell.run("get", added, "--text").stdout == text.encode()
    code, shown = shell.on_terminal("get", added, "--text")
    assert code == 0
    assert "\\x1b[0m" in shown
    assert "\x1b[0m" not in shown


def closed(shell: Shell, stream: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m zapomni "$@" {stream}&-', sys.executable, *arguments],
        capture_output=True,
        timeout=SECONDS,
        check=False,
        env=shell.environ,
    )


@pytest.mark.parametrize(("command", "what"), [("add", "the text"), ("import", "memories")])
def test_a_closed_standard_input_is_told_in_one_line(shell: Shell, command: str, what: str) -> None:
    done = closed(shell, "<", command, "-")
    told = f"zapomni: there is no standard input to read {what} from\n"
    assert (done.returncode, done.stderr.decode()) == (2, told)


@pytest.mark.parametrize(
    "arguments",
    [("get", "ID"), ("get", "ID", "--text"), ("export", "-"), ("list", "--json"), ("add", "y"), ("config", "show")],
)
def test_a_closed_standard_output_is_told_in_one_line_before_anything_is_done(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    added = shell.add("x")
    done = closed(shell, ">", *[added if argument == "ID" else argument for argument in arguments])
    told = b"zapomni: there is no standard output to write the answer to\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert b"\ty\n" not in shell.run("list").stdout


def test_a_script_for_a_shell_needs_somebody_to_read_it(shell: Shell) -> None:
    assert closed(shell, ">", "completion", "bash").returncode == 1


def test_a_terminal_gets_colour_and_wrapped_lines_and_no_foreign_escapes(shell: Shell) -> None:
    shell.add("The lighthouse keeper " + "counted every single ship that passed " * 4 + "\x1b]0;owned\x07")
    code, shown = shell.on_terminal("search", "lighthouse keeper", "-n", "1")
    assert code == 0
    assert "\x1b[36m" in shown
    assert "\x1b]" not in shown
    assert "\\x1b]0;owned\\x07" in shown
    assert "just now" in shown
    text, _, _ = shown.partition("\x1b[36m")
    assert all(len(line) <= 60 for line in text.splitlines())
    assert len(text.splitlines()) > 3


def test_no_color_means_no_escape_at_all(shell: Shell) -> None:
    shell.add("colourless")
    for arguments in (("list",), ("stats",), ("search", "colourless"), ("workspace", "list"), ("config", "show")):
        code, shown = shell.on_terminal(*arguments, NO_COLOR="1")
        assert code == 0
        assert "\x1b" not in shown


@pytest.mark.parametrize(("typed", "code", "told"), [(b"y\n", 0, "zapomni undelete"), (b"\n", 1, "Nothing was done.")])
def test_a_terminal_is_asked_before_a_memory_goes(shell: Shell, typed: bytes, code: int, told: str) -> None:
    added = shell.add(f"ask me first {code}")
    ended, shown = shell.on_terminal("delete", added, typed=typed)
    assert ended == code
    assert f"Delete “ask me first {code}”? [y/N]" in shown
    assert told in shown
    assert shell.run("get", added).returncode == (3 if code == 0 else 0)


def test_what_an_encoding_lacks_is_written_out(shell: Shell) -> None:
    added = shell.add("Ключ у Нади")
    done = shell.run("list", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u041a\u043b\u044e\u0447" in done.stdout
    exact = shell.run("get", added, "--json", PYTHONIOENCODING="ascii")
    assert json.loads(exact.stdout)["text"] == "Ключ у Нади"


def test_a_reader_that_goes_away_ends_the_command_quietly(shell: Shell) -> None:
    for number in range(3):
        shell.add(f"{number} " + "a long memory " * 20_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "zapomni", "search", "long memory", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shell.environ,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_with_nothing_half_done(shell: Shell, number: signal.Signals, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "zapomni", "delete", shell.add(f"kept after {number}"), "--log-level", "debug"],
        stdin=(terminal := pty.openpty())[1],
        stderr=terminal[1],
        stdout=subprocess.PIPE,
        env=shell.environ,
        process_group=0,
    )
    os.close(terminal[1])
    asked = b""
    for data in _until_closed(terminal[0]):
        asked += data
        if b"[y/N]" in asked:
            break
    process.send_signal(number)
    out, _ = process.communicate(timeout=SECONDS)
    os.close(terminal[0])
    assert (process.returncode, out) == (code, b"")
    assert f"kept after {number}".encode() in shell.run("list").stdout


UNWINDING = """
import sys, trio
from zapomni.cli import session

async def work():
    try:
        print("working", flush=True)
        await trio.sleep_forever()
    finally:
        print("unwinding", flush=True)
        with trio.CancelScope(shield=True):
            await trio.sleep(float(sys.argv[1]))
        print("released", flush=True)

session.GRACE_SECONDS = float(sys.argv[2])
sys.exit(trio.run(session._until_signalled, work))
"""


def interrupted(unwinding: float, grace: float, numbers: tuple[signal.Signals, ...], *, late: bool) -> tuple[int, str]:
    """Signal a command that takes its time to unwind, and again while it does; return its exit code and what it said.

    The signals but the first come at once, or late, when the grace is over.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", UNWINDING, str(unwinding), str(grace)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"working\n"
        process.send_signal(numbers[0])
        assert process.stdout.readline() == b"unwinding\n"
        if late:
            time.sleep(grace + 0.5)
        for number in numbers[1:]:
            process.send_signal(number)
        out, _ = process.communicate(timeout=SECONDS)
        return process.returncode, out.decode()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_twice_at_once_interrupts_no_clean_up(second: signal.Signals) -> None:
    ended = interrupted(0.5, 2 * SECONDS, (signal.SIGINT, second, second), late=False)
    assert ended == (130, "released\n"), "and the grace is not waited for"


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_after_the_grace_ends_at_once(second: signal.Signals) -> None:
    assert interrupted(2 * SECONDS, 0.1, (signal.SIGTERM, second), late=True) == (-second, "")


def test_a_data_directory_that_is_none_is_told_in_one_line(lonely: Shell, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    done = lonely.run("add", "x")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"zapomni: ")
    assert b"data_dir must be a directory" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_told_in_one_line(lonely: Shell, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = lonely.run("add", "x")
    tmp_path.chmod(0o700)
    assert done.returncode == 1
    assert done.stderr.startswith(b"zapomni: the data directory cannot be used: Permission denied")


def test_an_unreachable_database_is_told_in_one_line(lonely: Shell) -> None:
    done = lonely.run("search", "x", ZAPOMNI_FALKORDB_URL="falkor://:hunter2@127.0.0.1:1", ZAPOMNI_QUERY_TIMEOUT="1")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"zapomni: ")
    assert done.stderr.count(b"\n") == 1
    assert b"hunter2" not in done.stderr


def test_an_unreachable_embedder_is_told_in_one_line(shell: Shell) -> None:
    done = shell.run(
        "add",
        "x",
        ZAPOMNI_WORKSPACE="ollama",
        ZAPOMNI_EMBEDDER="ollama",
        ZAPOMNI_EMBEDDING_MODEL="m",
        ZAPOMNI_EMBEDDING_URL="http://127.0.0.1:1",
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"zapomni: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["a/b", " ", "x" * 65])
@pytest.mark.parametrize("origin", ["flag", "environment", "file"])
def test_a_server_does_not_start_for_a_workspace_that_no_call_could_use(
    lonely: Shell, tmp_path: Path, name: str, origin: str
) -> None:
    flags, environ = (("--workspace", name), {}) if origin == "flag" else ((), {"ZAPOMNI_WORKSPACE": name})
    if origin == "file":
        (tmp_path / "settings.toml").write_text(f'workspace = "{name}"\n')
        environ = {"ZAPOMNI_WORKSPACE": "", "ZAPOMNI_CONFIG": str(tmp_path / "settings.toml")}
    done = Shell({**lonely.environ, **environ}).run("serve", *flags)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith(f"zapomni: workspace ({origin}")
    assert f"is {name!r}: a workspace name " in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("arguments", [("serve",), ("config", "show"), ("list",), ("workspace", "use", "default")])
def test_a_settings_file_that_is_not_there_is_told_in_one_line(
    lonely: Shell, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = lonely.run(*arguments, "--config", str(tmp_path / "nope.toml"))
    told = f"zapomni: the settings file {tmp_path / 'nope.toml'} does not exist\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", told)


def test_a_full_disk_is_told_in_one_line(lonely: Shell) -> None:
    """The output's disk, that is: the store's own is tested with the store."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "zapomni", "config", "show"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
            env=lonely.environ,
        )
    assert (done.returncode, done.stderr) == (1, b"zapomni: No space left on device\n")


def test_the_exit_collects_nothing(shell: Shell) -> None:
    script = "import gc; from zapomni.cli import main; main({}); print(gc.get_freeze_count() > 0)"
    for arguments in (["list"], ["get", "nothing"]):  # done, and failed
        done = subprocess.run(
            [sys.executable, "-c", script.format(arguments)],
            capture_output=True,
            timeout=SECONDS,
            check=True,
            env=shell.environ,
        )
        assert done.stdout.endswith(b"True\n")


def test_a_search_does_without_what_serving_needs(shell: Shell) -> None:
    shell.add("light as a feather")
    script = (
        "import sys; from zapomni.cli import main; main(['search', 'feather', '--json']);"
        "print(*{'mcp', 'mcp_types', 'pydantic', 'httpx', 'tokenizers', 'onnxruntime', 'cattrs', 'falkordb'}"
        " & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=SECONDS, check=True, env=shell.environ
    )
    assert json.loads(done.stdout)["hits"][0]["text"] == "light as a feather"
    assert done.stderr == b"\n"
