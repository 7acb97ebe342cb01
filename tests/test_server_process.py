"""A server as its client sees it: a process with three streams that must start, answer and go."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import trio

from tests.wire import RawClient, call, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "tests.server_process", "--log-level", "info"]
GONE_SECONDS = 10
"""A bound for tests on a busy machine; what it takes on an idle one is measured in `bench/`."""


class ServerProcess(RawClient):
    """A raw client with its server's process."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(process.stdin, process.stdout)
        self.process = process

    async def wait_gone(self) -> int:
        with trio.fail_after(GONE_SECONDS):
            return await self.process.wait()

    async def log_lines(self) -> list[dict[str, object]]:
        assert self.process.stderr is not None
        text = bytearray()
        with trio.fail_after(GONE_SECONDS):
            async for data in self.process.stderr:
                text += data
        return [json.loads(line) for line in text.splitlines() if line.startswith(b"{")]


@contextlib.asynccontextmanager
async def started(*flags: str, initialized: bool = True) -> AsyncIterator[ServerProcess]:
    process = await trio.lowlevel.open_process(
        [*COMMAND, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    try:
        server = ServerProcess(process)
        if initialized:
            await server.initialize()
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        with trio.CancelScope(shield=True), trio.move_on_after(GONE_SECONDS):
            await process.wait()


async def test_it_answers_and_ends_with_its_input() -> None:
    async with started() as server:
        answer = await server.ask(call(1, "add_memory", text="remember"))
        assert "ID: id-1" in answer["result"]["content"][0]["text"]
        await server.sink.aclose()
        assert await server.receive() is None
        assert await server.wait_gone() == 0
        assert (await server.log_lines())[-1]["event"] == "server_stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_an_idle_server_cleanly(number: signal.Signals) -> None:
    async with started() as server:
        server.process.send_signal(number)
        assert await server.wait_gone() == 0
        assert [line["event"] for line in await server.log_lines()][-2:] == ["signal_received", "server_stopped"]


async def test_a_signal_gives_a_running_call_its_grace() -> None:
    async with started("--shutdown-grace", "5") as server:
        await server.send(call(1, "slow_tool", seconds=0.3), request(2, "ping"))
        await server.answer_to(2)
        server.process.send_signal(signal.SIGTERM)
        assert (await server.answer_to(1))["result"]["isError"] is False
        assert await server.wait_gone() == 0


async def test_a_call_that_outlasts_the_grace_does_not_hold_the_server() -> None:
    async with started("--shutdown-grace", "0.1") as server:
        await server.send(call(1, "slow_tool"), request(2, "ping"))
        await server.answer_to(2)
        server.process.send_signal(signal.SIGTERM)
        assert (await server.answer_to(1))["error"]["code"] == -32000
        assert await server.wait_gone() == 0


async def test_a_second_signal_ends_the_server_at_once() -> None:
    async with started("--shutdown-grace", "60") as server:
        await server.send(call(1, "slow_tool"), request(2, "ping"))
        await server.answer_to(2)
        server.process.send_signal(signal.SIGTERM)
        await until_logged(server, "signal_received")
        server.process.send_signal(signal.SIGTERM)
        assert await server.wait_gone() == -signal.SIGTERM


async def test_a_second_signal_ends_even_a_server_that_hangs() -> None:
    async with started() as server:
        await server.send(call(1, "blocking_tool", seconds=60))
        await until_logged(server, "about to block")
        server.process.send_signal(signal.SIGINT)
        await trio.sleep(0.2)  # nothing tells that a hanging process has seen its signal
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert await server.wait_gone() == -signal.SIGINT


async def until_logged(server: ServerProcess, event: str) -> None:
    assert server.process.stderr is not None
    text = bytearray()
    with trio.fail_after(GONE_SECONDS):
        while event.encode() not in text:
            text += await server.process.stderr.receive_some()


async def test_a_broken_stdout_ends_the_server_quietly() -> None:
    async with started() as server:
        await server.source.aclose()
        await server.send(request(1, "ping"))
        assert await server.wait_gone() == 0
        assert [line for line in await server.log_lines() if line["level"] == "error"] == []


async def test_a_peer_that_reads_nothing_cannot_hold_a_server_that_was_told_to_end() -> None:
    async with started("--shutdown-grace", "0.1") as server:
        blob = "x" * 100_000
        await server.send(*(call(number, "add_memory", text=blob) for number in range(20)))
        await server.send(*(request(f"p{number}", "tools/list") for number in range(100)))
        server.process.send_signal(signal.SIGTERM)
        assert await server.wait_gone() == 0


async def test_a_closed_stderr_costs_log_lines_and_nothing_else() -> None:
    async with started() as server:
        assert server.process.stderr is not None
        await server.process.stderr.aclose()
        for number in range(3):
            assert (await server.ask(call(number, "add_memory", text="still here")))["result"]["isError"] is False
        await server.sink.aclose()
        assert await server.wait_gone() == 0


async def test_a_client_that_does_not_read_stderr_loses_log_lines_and_nothing_else() -> None:
    async with started() as server:  # nobody reads its stderr, and a pipe holds some hundred lines
        for number in range(1500):
            assert "result" in await server.ask(call(number, "slow_tool", seconds=0))
        server.process.send_signal(signal.SIGTERM)
        assert await server.wait_gone() == 0


async def test_no_print_and_no_child_reaches_the_protocol() -> None:
    async with started() as server:
        answer = await server.ask(call(1, "printing_tool"))
        assert answer["result"]["content"][0]["text"] == "child read ''"
        assert (await server.ask(request(2, "ping")))["result"] == {}
        assert server.kept == []
        await server.sink.aclose()
        assert server.process.stderr is not None
        text = b"".join([data async for data in server.process.stderr])
    assert [word for word in (b"a stray print", b"another", b"from a child") if word not in text] == []


async def test_a_dead_parent_ends_the_server_though_its_input_stays_open() -> None:
    """The middle process dies; the test keeps both ends of the server's streams open."""
    code = f"import subprocess, time; subprocess.Popen({COMMAND!r}, cwd={str(ROOT)!r}); time.sleep(600)"
    middle = await trio.lowlevel.open_process(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        server = ServerProcess(middle)
        await server.initialize()
        (child,) = psutil.Process(middle.pid).children()
        os.kill(middle.pid, signal.SIGKILL)
        assert await server.receive() is None
        with trio.fail_after(GONE_SECONDS):
            while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110  # not our child
                await trio.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            middle.kill()
        await middle.wait()


@pytest.mark.parametrize(("redirection", "stream"), [("<&-", "stdin"), (">&-", "stdout")])
def test_a_missing_standard_stream_is_a_clear_error(redirection: str, stream: str) -> None:
    command = " ".join([*COMMAND, redirection])
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode != 0
    assert f"ConnectionError: {stream}" in done.stderr.decode()


def test_requests_from_a_file_are_answered_into_a_file(tmp_path: Path) -> None:
    lines = [request(1, "ping"), call(2, "no_such_tool")]
    (tmp_path / "in").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        subprocess.run(COMMAND, cwd=ROOT, stdin=source, stdout=sink, timeout=60, check=True, capture_output=False)
    answers = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    assert {answer["id"] for answer in answers} == {1, 2}


async def test_descriptors_and_threads_are_as_before_after_many_calls() -> None:
    async with started() as server:
        process = psutil.Process(server.process.pid)
        await server.ask(call("warm", "printing_tool"))
        before = (process.num_fds(), process.num_threads())
        for start in range(0, 300, 100):
            await server.send(*(call(number, "slow_tool", seconds=0.01) for number in range(start, start + 100)))
            for number in range(start, start + 100):
                await server.answer_to(number)
        assert process.num_fds() == before[0]
        assert process.num_threads() <= before[1]
