"""Log lines: JSON, on the stream that was chosen, and never the cause of a failure."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.embedding_server import open_embedding_server
from tests.fakes import AT_ANY_SPEED, captured_log
from zapomni import log
from zapomni.config import Settings
from zapomni.embed import open_embedder

LEVELS = ["debug", "info", "warning", "error"]


def test_a_line_is_one_json_object_with_its_level_time_and_part() -> None:
    with captured_log() as captured:
        log.get_logger("store").info("opened", path="/data", count=3)
    (line,) = captured.text.splitlines(keepends=True)
    assert line.endswith("}\n")
    fields = json.loads(line)
    assert datetime.fromisoformat(fields.pop("timestamp")).tzinfo == UTC
    assert fields == {"event": "opened", "level": "info", "part": "store", "path": "/data", "count": 3}


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_below_the_level_is_not_logged(level: str) -> None:
    with captured_log(level) as captured:
        logger = log.get_logger("test")
        for each in LEVELS:
            getattr(logger, each)("spoken")
    assert [line["level"] for line in captured.lines] == LEVELS[LEVELS.index(level) :]


def test_a_logger_made_before_the_configuration_follows_it() -> None:
    logger = log.get_logger("early")
    with captured_log() as first:
        logger.info("one")
    with captured_log() as second:
        logger.info("two")
    assert [line["event"] for line in first.lines] == ["one"]
    assert [line["event"] for line in second.lines] == ["two"]


def test_what_is_bound_is_in_every_line() -> None:
    with captured_log() as captured, structlog.contextvars.bound_contextvars(request_id="r-1"):
        log.get_logger("one").info("inside")
        log.get_logger("other").info("inside")
    assert [line["request_id"] for line in captured.lines] == ["r-1", "r-1"]


def test_an_exception_is_logged_in_one_line_with_its_traceback() -> None:
    with captured_log() as captured:
        try:
            raise KeyError("missing")
        except KeyError as error:
            log.get_logger("test").error("failed", exc_info=error)
    (line,) = captured.lines
    assert captured.text.count("\n") == 1
    assert line["exception"].startswith("Traceback (most recent call last)")
    assert line["exception"].endswith("KeyError: 'missing'")


@AT_ANY_SPEED
@given(
    st.dictionaries(st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=10), st.text() | st.integers())
)
def test_whatever_is_logged_can_be_read_again(fields: dict[str, Any]) -> None:
    with captured_log() as captured:
        log.get_logger("test").info("event", **fields)
    assert captured.text.count("\n") == 1
    assert fields.items() <= captured.lines[0].items()


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x1b", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066", "\n"],
    ids=lambda each: f"{ord(each):04x}",
)
def test_what_a_terminal_obeys_is_escaped_and_can_be_read_again(character: str) -> None:
    with captured_log() as captured:
        log.get_logger("test").info("request", tool=f"запомни {character} 記憶")
    assert character not in captured.text.rstrip("\n")
    assert "запомни" in captured.text
    assert captured.lines[0]["tool"] == f"запомни {character} 記憶"


@pytest.mark.parametrize("level", LEVELS)
async def test_the_address_of_an_embedding_server_is_not_logged(level: str) -> None:
    with trio.fail_after(30), captured_log(level) as captured:
        async with open_embedding_server() as server:
            url = server.url.replace("://", "://me:hunter2@") + "?key=hunter2"
            async with open_embedder(Settings(embedder="ollama", embedding_model="m", embedding_url=url)) as embedder:
                await embedder.embed_documents(["a text"])
        assert server.requests
    assert "hunter2" not in captured.text
    assert "HTTP" not in captured.text, "headers may hold secrets, too"


def test_what_libraries_warn_of_is_logged() -> None:
    with captured_log() as captured:
        logging.getLogger("httpx").warning("something is wrong")
        logging.getLogger("elsewhere").warning("something is wrong")
    assert [line["part"] for line in captured.lines] == ["httpx", "elsewhere"]


class Full(io.StringIO):
    def write(self, text: str) -> int:
        raise BlockingIOError("nobody reads")

    def flush(self) -> None:
        raise BrokenPipeError("nobody is there")


def closed_stream() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize(
    "stream",
    [Full(), closed_stream(), io.TextIOWrapper(io.BytesIO(), encoding="ascii")],
    ids=["full", "closed", "ascii"],
)
def test_a_stream_that_takes_nothing_costs_the_line_and_nothing_else(stream: Any) -> None:
    with captured_log():  # for the configuration afterwards
        log.configure("info", stream)
        log.get_logger("test").info("лост")
        assert log.get_logger("test").info("again") is None


@pytest.mark.parametrize("stderr", ["sys.stderr", "None"])
def test_lines_go_to_stderr_and_never_to_stdout(stderr: str) -> None:
    script = (
        "import sys; from zapomni import log; log.configure('info');"
        f"sys.stderr = {stderr}; log.get_logger('test').info('hello')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    if stderr == "None":  # a process that was started without one
        assert done.stderr == ""
    else:
        assert json.loads(done.stderr)["event"] == "hello"
