"""Bytes to messages and back."""

from __future__ import annotations

import json

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from zapomni.server.framing import TOO_LONG, LineSplitter, decode, encode


def fed(splitter: LineSplitter, data: bytes, size: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    for start in range(0, len(data), size):
        found += splitter.feed(data[start : start + size])
    return found


@given(lines=st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line)), size=st.integers(1, 50))
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines: list[bytes], size: int) -> None:
    splitter = LineSplitter(limit=40)
    assert fed(splitter, b"".join(line + b"\n" for line in lines), size) == lines
    assert splitter.close() == b""


@given(
    lines=st.lists(st.integers(0, 60).map(lambda length: b"x" * length)),
    size=st.integers(1, 80),
    limit=st.integers(1, 30),
)
def test_each_line_over_the_limit_is_told_once_and_costs_no_other(lines: list[bytes], size: int, limit: int) -> None:
    splitter = LineSplitter(limit)
    expected = [line if len(line) <= limit else TOO_LONG for line in lines]
    assert fed(splitter, b"".join(line + b"\n" for line in lines), size) == expected


def test_a_line_over_the_limit_is_not_held() -> None:
    splitter = LineSplitter(limit=1000)
    for _ in range(100):
        list(splitter.feed(b"x" * 10_000))
        assert len(splitter._buffer) <= 1000
    assert list(splitter.feed(b"\nnext\n")) == [b"next"]


def test_a_last_line_without_a_break_is_kept() -> None:
    splitter = LineSplitter(limit=100)
    assert list(splitter.feed(b"one\ntwo")) == [b"one"]
    assert splitter.close() == b"two"


def error_of(line: bytes) -> tuple[object, int]:
    answer = decode(line)
    assert isinstance(answer, bytes)
    message = json.loads(answer)
    assert answer.endswith(b"\n")
    assert answer.count(b"\n") == 1
    return message["id"], message["error"]["code"]


@pytest.mark.parametrize("line", [b"nonsense", b"{", b'{"a":}', b"\xff\xfe", b'"\\ud800"', b"[" * 5000])
def test_what_is_no_json_is_a_parse_error(line: bytes) -> None:
    assert error_of(line) == (None, types.PARSE_ERROR)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (rb'{"text":"half \ud83d"}', "half of a surrogate pair"),
        (rb'{"text":"half \ud83d and more"}', "half of a surrogate pair"),
        (rb'{"text":"\ude00 the other half"}', "half of a surrogate pair"),
        (b'{"text":"\xed\xa0\xbd"}', "half of a surrogate pair"),
        (b'{"deep":' + b"[" * 300 + b"]" * 300 + b"}", "nested too deep"),
    ],
)
@pytest.mark.parametrize("request_id", [5, "five"])
def test_json_that_only_the_sdk_cannot_read_is_refused_under_its_id(
    params: bytes, words: str, request_id: int | str
) -> None:
    name = json.dumps(request_id).encode()
    answer = decode(b'{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":%s}' % (name, params))
    assert isinstance(answer, bytes)
    message = json.loads(answer)
    assert (message["id"], message["error"]["code"]) == (request_id, types.INVALID_REQUEST)
    assert words in message["error"]["message"]


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b"{}", None),
        (b"[]", None),
        (b"5", None),
        (b'"text"', None),
        (b"null", None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
        (b'{"id":7,"method":"ping"}', 7),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', "a"),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None),
    ],
)
def test_what_is_no_message_is_an_invalid_request_under_its_id(line: bytes, request_id: object) -> None:
    assert error_of(line) == (request_id, types.INVALID_REQUEST)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_message_or_gets_an_error(value: object) -> None:
    answer = decode(json.dumps(value).encode())
    assert isinstance(answer, SessionMessage) or json.loads(answer)["error"]["code"] in (-32700, -32600)


@given(st.binary())
def test_any_bytes_are_a_message_or_get_an_error(line: bytes) -> None:
    answer = decode(line)
    assert isinstance(answer, SessionMessage) or json.loads(answer)["error"]["code"] in (-32700, -32600)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_message_is_one_line_whatever_its_text(text: str) -> None:
    line = encode(types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": text}))
    assert line.count(b"\n") == 1
    assert json.loads(line)["result"]["text"] == text


def test_a_result_that_cannot_be_written_costs_one_error_answer() -> None:
    line = encode(types.JSONRPCResponse(jsonrpc="2.0", id=9, result={"text": "\ud800"}))
    message = json.loads(line)
    assert message["id"] == 9
    assert message["error"]["code"] == types.INTERNAL_ERROR


def test_a_notification_that_cannot_be_written_is_left_out() -> None:
    assert encode(types.JSONRPCNotification(jsonrpc="2.0", method="note", params={"text": "\ud800"})) == b""
