"""The processes that are measured: what is sent to them, and how they end."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from bench import calls, peers
from bench.texts import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Answers everything, and tells each time how often it was asked.
ECHO = """
import json, sys
for asked, line in enumerate(sys.stdin, 1):
    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"isError": False, "asked": asked}}
    print(json.dumps(answer), flush=True)
"""
GROWING = """
import sys, time
held = []
for _ in range(5):
    time.sleep(0.1)
    held.append(b"x" * 10_000_000)
sys.stdin.read()
"""


@pytest.fixture
def echo() -> Iterator[peers.Peer]:
    peer = peers.Peer.start([sys.executable, "-c", ECHO])
    yield peer
    peer.end()


def test_no_two_requests_have_the_same_id(echo: peers.Peer) -> None:
    ids = [echo.request("ping", {}) for _ in range(3)]
    assert len(set(ids)) == 3
    assert [echo.receive()["id"] for _ in ids] == ids


@pytest.mark.parametrize("in_flight", [1, 4, 64])
def test_as_many_calls_are_sent_as_are_answered(echo: peers.Peer, in_flight: int) -> None:
    assert calls._rate(echo, 10, in_flight) > 0
    assert echo.ask("ping", {})["result"]["asked"] == 11


def test_a_process_that_ends_in_order_is_timed() -> None:
    ended = peers.Peer.start([sys.executable, "-c", "import sys; sys.stdin.read()"]).end()
    assert ended.status == 0
    assert ended.seconds > 0
    assert ended.processor > 0


def test_a_bad_end_is_not_taken_for_a_quick_one() -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"]
    with pytest.raises(RuntimeError, match="the server ended with status 3"):
        peers.Peer.start(command).end()
    assert peers.Peer.start(command).close().status == 3


def test_a_process_that_was_killed_is_known() -> None:
    peer = peers.Peer.start([sys.executable, "-c", "import time; time.sleep(600)"])
    peer.process.kill()
    assert peer.close().status == -signal.SIGKILL


def test_a_process_is_idle_when_it_grows_no_more() -> None:
    peer = peers.Peer.start([sys.executable, "-c", GROWING])
    peer.settle()
    assert peer.resident_bytes() > 50_000_000
    peer.end()


def test_a_server_that_nobody_asks_starts_its_store_and_reports_progress_when_told_to(tmp_path: Path) -> None:
    peer = peers.Peer.start(peers.ours(tmp_path), {"ZAPOMNI_STORE_LINGER": "0"})
    peer.initialize()
    before = peer.resident_bytes()
    peers.wait_for_the_store_to_answer(tmp_path)
    peer.settle()
    assert peer.resident_bytes() > before
    assert peers.inhabitants(tmp_path)
    reports: list[dict[str, object]] = []
    peer.call("add_memory", {"text": text_of(300_000)}, reports)
    assert {report["method"] for report in reports} == {"notifications/progress"}
    peer.end()
    peers.wait_for_the_store_to_end(tmp_path)
