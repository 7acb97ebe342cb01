"""A client that does anything in any order, against a model of what it must be answered.

The model is small: a request that was taken is answered exactly once, unless it was given up; a tool is refused to who
has not yet shaken hands, and never to who has, however often; garbage is answered with an error and harms nobody;
progress comes only to those who asked, and before the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.from_thread
import trio.testing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from tests.fakes import FakeEngine, SlowTool, SomeTool
from tests.wire import INITIALIZE, Message, RawClient, call, cancel, connected, request
from zapomni.config import Settings
from zapomni.server import MCPServer
from zapomni.tools.call import current_call

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from anyio.from_thread import BlockingPortal


AT_ONCE = Settings().max_concurrent


class ReportingTool(SomeTool):
    """Reports once, where somebody listens."""

    name = "reporting_tool"

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if (report := current_call().reporter) is not None:
            await report(1, 2, "half way")
        return await super().execute(arguments)


class ProtocolMachine(RuleBasedStateMachine):
    """Drives one connection; the loop runs in a thread of its own."""

    slow = Bundle("slow")

    def __init__(self) -> None:
        super().__init__()
        self._portal_context: AbstractContextManager[BlockingPortal] = anyio.from_thread.start_blocking_portal("trio")
        self.portal = self._portal_context.__enter__()
        self.tool = SlowTool()
        server = MCPServer(FakeEngine(), Settings(shutdown_grace=0, max_request_bytes=10_000))  # type: ignore[arg-type]
        server.register_all_tools()
        for tool in (self.tool, ReportingTool()):
            server.register_tool(tool)
        self._connection = self.portal.wrap_async_context_manager(connected(server, initialized=False))
        self.client: RawClient = self._connection.__enter__()
        self.asked = 0
        self.greeted = False
        self.running: set[int] = set()

    def teardown(self) -> None:
        self.portal.call(self.client.sink.aclose)
        self._connection.__exit__(None, None, None)
        self._portal_context.__exit__(None, None, None)

    def send(self, *messages: Any) -> None:
        self.portal.call(self.client.send, *messages)

    def receive(self) -> dict[str, Any]:
        message = self.portal.call(self.client.receive)
        assert message is not None, "the server ended"
        return message

    def next_id(self) -> int:
        self.asked += 1
        return self.asked

    def answer_to(self, request_id: object) -> dict[str, Any]:
        while (message := self.receive()).get("id") != request_id:
            assert "method" in message, f"nobody waits for {message}"
        return message

    def result_of(self, message: Message) -> Message | None:
        """Return what a tool answers; None where it is too early to call one."""
        self.send(message)
        answer = self.answer_to(message["id"])
        if self.greeted:
            return answer["result"]  # type: ignore[no-any-return]
        assert answer["error"]["code"] == -32602
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
        assert self.answer_to(number)["error"]["code"] == -32602

    @rule()
    def ping(self) -> None:
        number = self.next_id()
        self.send(request(number, "ping"))
        assert self.answer_to(number)["result"] == {}

    @precondition(lambda self: len(self.running) < AT_ONCE)  # else it waits for one that ends
    @rule(text=st.text(min_size=1, max_size=50))
    def add(self, text: str) -> None:
        result = self.result_of(call(self.next_id(), "add_memory", text=text))
        assert result is None or result["isError"] is (not text.strip())

    @rule(name=st.text(max_size=20).filter(lambda name: not name.endswith(("_tool", "_memory", "_stats"))))
    def call_what_does_not_exist(self, name: str) -> None:
        number = self.next_id()
        self.send(call(number, f"no {name}"))
        assert self.answer_to(number)["error"]["code"] == (-32601 if self.greeted else -32602)

    @rule(target=slow)
    def begin(self) -> Any:
        message = call(self.next_id(), "slow_tool")
        if not self.greeted:
            self.result_of(message)
            return multiple()
        self.send(message)
        self.running.add(message["id"])
        return message["id"]

    @rule(number=consumes(slow))
    def give_up(self, number: int) -> None:
        self.send(cancel(number))
        self.running.discard(number)

    @rule(number=st.integers(10_000, 20_000) | st.none() | st.text(max_size=5))
    def give_up_what_was_never_asked(self, number: object) -> None:
        self.send(cancel(number))

    @precondition(lambda self: len(self.running) < AT_ONCE)
    @rule(listening=st.booleans())
    def report(self, listening: bool) -> None:
        message = call(self.next_id(), "reporting_tool")
        if listening:
            message["params"]["_meta"] = {"progressToken": f"token {message['id']}"}
        self.send(message)
        seen = 0
        while (found := self.receive()).get("id") != message["id"]:
            if found.get("method") == "notifications/progress":
                assert found["params"]["progressToken"] == f"token {message['id']}"
                seen += 1
        assert seen == (listening and self.greeted)
        assert ("result" in found) is self.greeted

    @rule(line=st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"") + b"\xff"))
    def send_garbage(self, line: bytes) -> None:
        self.send(line)
        assert self.answer_to(None)["error"]["code"] == -32700

    @rule(extra=st.integers(1, 30_000))
    def send_too_much(self, extra: int) -> None:
        self.send(b"x" * (10_000 + extra))
        assert self.answer_to(None)["error"]["code"] == -32600

    @invariant()
    def what_runs_is_what_was_begun_and_not_given_up(self) -> None:
        assert self.portal.call(self._settled) == min(len(self.running), AT_ONCE)

    async def _settled(self) -> int:
        await trio.testing.wait_all_tasks_blocked()
        return self.tool.running


ProtocolMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestProtocol = ProtocolMachine.TestCase
