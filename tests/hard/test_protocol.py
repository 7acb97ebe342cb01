"""A client that does anything in any order, against a model of what it must be answered.

The model is small: a request that was taken is answered exactly once, under its id and in that id's own type, unless it
was given up; a tool is refused to who has not yet shaken hands, and never to who has, however often; garbage is
answered with an error and harms nobody; progress comes only to those who asked, and before the answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio.from_thread
import attrs
import trio
import trio.testing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from tests.fakes import FakeEngine, SomeTool, captured_log
from tests.wire import INITIALIZE, Message, RawClient, call, cancel, connected, request
from zapomni.config import Settings
from zapomni.server import MCPServer
from zapomni.tools.call import current_call

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from anyio.from_thread import BlockingPortal


AT_ONCE = Settings().max_concurrent
LONGEST = 10_000
ANSWER_SECONDS = 5.0
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

ids = (
    st.integers(1_000_000, 2**53)
    | st.text(min_size=1, max_size=20)
    | st.sampled_from(["2", "3", "4", "", "null", "-1"])
)
no_ids: st.SearchStrategy[object] = st.sampled_from([None, 1.5, True, [], {}])
tokens = st.integers(-5, 2**53) | st.text(max_size=10)
numbers = st.integers(-5, 100)
garbage = (
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"") + b"\xff")
    | st.sampled_from([b"{", b"nonsense", b'{"jsonrpc": "2.0", "id": 1', b"\x00", b"[" * 3000, b'{"a":}', b"]"])
)  # fmt: skip
no_messages = st.sampled_from([b"{}", b"[]", b"0", b"null", b'"text"', b'{"id": null}', b'{"jsonrpc": "1.0"}'])


class HeldTool(SomeTool):
    """Holds its calls until they are let go, and knows which are held."""

    name = "held_tool"

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, trio.Event] = {}
        self.running = 0

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        event = self.held.setdefault(arguments["name"], trio.Event())
        self.running += 1
        try:
            await event.wait()
        finally:
            self.running -= 1
        return {"content": [{"type": "text", "text": arguments["name"]}], "isError": False}


class ReportingTool(SomeTool):
    """Reports once, where somebody listens."""

    name = "reporting_tool"

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if (report := current_call().reporter) is not None:
            await report(1, 2, "half way")
        return await super().execute(arguments)


@attrs.frozen
class Held:
    """A call that the tool holds, or will hold when there is room."""

    request_id: int | str
    name: str


class ProtocolMachine(RuleBasedStateMachine):
    """Drives one connection; the loop runs in a thread of its own."""

    slow = Bundle("slow")

    def __init__(self) -> None:
        super().__init__()
        self._quiet = captured_log("error")  # nobody reads the thousands of lines that refusals make
        self.log = self._quiet.__enter__()
        self._portal_context: AbstractContextManager[BlockingPortal] = anyio.from_thread.start_blocking_portal("trio")
        self.portal = self._portal_context.__enter__()
        self.tool = HeldTool()
        self.engine = FakeEngine()
        server = MCPServer(self.engine, Settings(shutdown_grace=0, max_request_bytes=LONGEST))  # type: ignore[arg-type]
        server.register_all_tools()
        for tool in (self.tool, ReportingTool()):
            server.register_tool(tool)
        self._connection = self.portal.wrap_async_context_manager(connected(server, initialized=False))
        self.client: RawClient = self._connection.__enter__()
        self.asked = 0
        self.greeted = False
        self.running: list[Held] = []
        """Begun, and neither answered nor given up: the first of them run, the others wait."""
        self.added: list[str] = []

    def teardown(self) -> None:
        """Let all go that is held; every call has its answer, and the server has nothing more to say."""
        try:
            self.ping()
            while self.running:
                self.let_finish(self.running[0])
            self.ping()
            self.portal.call(self._settled)
            assert [text for text, _ in self.engine.memories] == self.added
            self.portal.call(self.client.sink.aclose)
            assert self.portal.call(self._receive) is None
        finally:
            self._connection.__exit__(None, None, None)
            self._portal_context.__exit__(None, None, None)
            self._quiet.__exit__(None, None, None)
        assert self.log.text == ""

    def send(self, *messages: Any) -> None:
        self.portal.call(self.client.send, *messages)

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] | None = self.portal.call(self._receive)
        assert message is not None, "the server ended"
        return message

    async def _receive(self) -> dict[str, Any] | None:
        with trio.fail_after(ANSWER_SECONDS):
            return await self.client.receive()

    def next_id(self) -> int:
        self.asked += 1
        while self.is_taken(self.asked):
            self.asked += 1
        return self.asked

    def is_taken(self, request_id: object) -> bool:
        """Tell whether a request in flight has this id; 1 and "1" are one, since a cancel may say either."""
        return str(request_id) in {str(held.request_id) for held in self.running}

    def answer_to(self, request_id: object) -> dict[str, Any]:
        """Return the next message, which is the answer to this: nothing else is on its way."""
        message = self.receive()
        assert message.get("id", "none") == request_id, f"nobody waits for {message}"
        assert type(message["id"]) is type(request_id)
        assert message["jsonrpc"] == "2.0"
        assert ("result" in message) is not ("error" in message)
        return message

    def error_to(self, request_id: object) -> int:
        code: int = self.answer_to(request_id)["error"]["code"]
        return code

    def result_of(self, message: Message) -> Message | None:
        """Return what a tool answers; None where it is too early to call one."""
        self.send(message)
        answer = self.answer_to(message["id"])
        if self.greeted:
            return answer["result"]  # type: ignore[no-any-return]
        assert answer["error"]["code"] == INVALID_PARAMS
        return None

    @rule()
    def shake_hands(self) -> None:
        number = self.next_id()
        self.send(request(number, "initialize", INITIALIZE))
        assert self.answer_to(number)["result"]["protocolVersion"] == INITIALIZE["protocolVersion"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.greeted = True

    @rule(params=st.sampled_from([{}, {"protocolVersion": 1}, {"protocolVersion": "x", "capabilities": []}]))
    def shake_hands_badly(self, params: Message) -> None:
        number = self.next_id()
        self.send(request(number, "initialize", params))
        assert self.error_to(number) == INVALID_PARAMS

    @rule()
    def ping(self) -> None:
        number = self.next_id()
        self.send(request(number, "ping"))
        assert self.answer_to(number)["result"] == {}

    @rule(request_id=ids)
    def ping_with_an_id_of_any_kind(self, request_id: object) -> None:
        self.send(request(request_id, "ping"))
        if self.is_taken(request_id):
            assert self.error_to(request_id) == INVALID_REQUEST
        else:
            assert self.answer_to(request_id)["result"] == {}

    @rule(request_id=no_ids)
    def ask_with_what_is_no_id(self, request_id: object) -> None:
        self.send(request(request_id, "ping"))
        assert self.error_to(None) == INVALID_REQUEST

    @precondition(lambda self: len(self.running) < AT_ONCE)  # else it waits for one that ends
    @rule(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50))
    def add(self, text: str) -> None:
        result = self.result_of(call(self.next_id(), "add_memory", text=text))
        assert result is None or result["isError"] is (not text.strip())
        if result is not None and not result["isError"]:
            self.added.append(text.strip())

    @rule(name=st.text(max_size=20).filter(lambda name: not name.endswith(("_tool", "_memory", "_stats"))))
    def call_what_does_not_exist(self, name: str) -> None:
        number = self.next_id()
        self.send(call(number, f"no {name}".encode("utf-8", "replace").decode()))
        assert self.error_to(number) == (METHOD_NOT_FOUND if self.greeted else INVALID_PARAMS)

    @rule(method=st.sampled_from(["nonsense", "tools", "tools/call/x", "rpc.discover", "initialise", ""]))
    def ask_for_what_nobody_knows(self, method: str) -> None:
        number = self.next_id()
        self.send(request(number, method))
        assert self.error_to(number) == METHOD_NOT_FOUND

    @rule(method=st.sampled_from(["notifications/nonsense", "ping", "tools/call", "initialize", ""]))
    def notify_of_anything(self, method: str) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": {"x": 1}})

    @rule(request_id=ids | numbers, body=st.sampled_from([{"result": {}}, {"error": {"code": 1, "message": "no"}}]))
    def answer_what_nobody_asked(self, request_id: object, body: Message) -> None:
        self.send({"jsonrpc": "2.0", "id": request_id, **body})

    @rule(target=slow, request_id=st.none() | ids)
    def begin(self, request_id: int | str | None) -> Any:
        if request_id is None or self.is_taken(request_id):
            request_id = self.next_id()
        message = call(request_id, "held_tool", name=f"call {self.next_id()}")
        if not self.greeted:
            self.result_of(message)
            return multiple()
        self.send(message)
        self.running.append(Held(request_id, message["params"]["arguments"]["name"]))
        return self.running[-1]

    @rule(held=slow, as_text=st.booleans())
    def ask_again_under_an_id_that_is_taken(self, held: Held, as_text: bool) -> None:
        if held in self.running:
            request_id = str(held.request_id) if as_text else held.request_id
            self.send(call(request_id, "held_tool", name="never"))
            assert self.error_to(request_id) == INVALID_REQUEST
            assert "never" not in self.tool.held

    @rule(held=consumes(slow))
    def let_finish(self, held: Held) -> None:
        """It is answered once; one that waits for its turn is answered when it has had it."""
        if held in self.running[:AT_ONCE]:
            self.running.remove(held)
            self.portal.call(self._let_go, held.name)
            answer = self.answer_to(held.request_id)
            assert answer["result"]["content"][0]["text"] == held.name

    @rule(held=consumes(slow))
    def give_up(self, held: Held) -> None:
        if held in self.running:
            self.send(cancel(held.request_id))
            self.running.remove(held)

    @rule(number=st.integers(10_000, 20_000) | no_ids | st.text(max_size=5).map("never {}".format))
    def give_up_what_was_never_asked(self, number: object) -> None:
        self.send(cancel(number))

    @rule()
    def give_up_what_is_answered(self) -> None:
        self.ping()
        self.send(cancel(self.asked))

    @rule()
    def give_up_at_once(self) -> None:
        """Whoever gives up while the answer is on its way gets it, or not; nothing else."""
        number, after = self.next_id(), self.next_id()
        self.send(request(number, "tools/list"), cancel(number), request(after, "ping"))
        first = self.receive()
        if first["id"] == number:
            self.answer_to(after)
        else:
            assert first["id"] == after
            self.portal.call(self._settled)

    @precondition(lambda self: len(self.running) < AT_ONCE)
    @rule(token=st.none() | tokens)
    def report(self, token: int | str | None) -> None:
        message = call(self.next_id(), "reporting_tool")
        if token is not None:
            message["params"]["_meta"] = {"progressToken": token}
        self.send(message)
        found = self.receive()
        if token is not None and self.greeted:
            assert found["method"] == "notifications/progress"
            assert found["params"]["progressToken"] == token
            assert type(found["params"]["progressToken"]) is type(token)
            found = self.receive()
        assert found["id"] == message["id"]
        assert ("result" in found) is self.greeted

    @rule(line=garbage)
    def send_garbage(self, line: bytes) -> None:
        self.send(line)
        assert self.error_to(None) == PARSE_ERROR

    @rule(line=no_messages)
    def send_json_that_is_no_message(self, line: bytes) -> None:
        self.send(line)
        assert self.error_to(None) == INVALID_REQUEST

    @rule(count=st.integers(0, 3))
    def send_a_batch(self, count: int) -> None:
        """There are none since 2025-06-18; none of what is in one is done."""
        self.send(json.dumps([call(self.next_id(), "add_memory", text="in a batch") for _ in range(count)]).encode())
        assert self.error_to(None) == INVALID_REQUEST

    @rule(line=st.sampled_from([b"", b" ", b"\t", b"\r"]))
    def send_nothing(self, line: bytes) -> None:
        self.send(line)

    @rule(extra=st.integers(1, 30_000))
    def send_too_much(self, extra: int) -> None:
        self.send(b"x" * (LONGEST + extra))
        assert self.error_to(None) == INVALID_REQUEST

    @invariant()
    def what_runs_is_what_was_begun_and_not_given_up(self) -> None:
        assert self.portal.call(self._settled) == min(len(self.running), AT_ONCE)

    async def _let_go(self, name: str) -> None:
        await trio.testing.wait_all_tasks_blocked()
        self.tool.held[name].set()

    async def _settled(self) -> int:
        await trio.testing.wait_all_tasks_blocked()
        return self.tool.running


ProtocolMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestProtocol = ProtocolMachine.TestCase
