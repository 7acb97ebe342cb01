"""Clients that write, search, update and delete over the protocol, and go on whatever breaks."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio

from tests.wire import RawClient, call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.hard.ledger import Ledger

ROOT = Path(__file__).parent.parent.parent
LINGER = 1.0
CALL_SECONDS = 20.0
"""Within which every call must be answered; the server's own deadline is half of that."""
LARGE = 200_000
"""Characters of the large texts, which are written in several batches."""
WORDS = ("cat", "dog", "tea", "sofa", "garden", "music", "Rust", "Лондон", "снег", "память", "记忆", "茶", "🐈")


@attrs.define
class Tally:
    faults: Counter[str] = attrs.field(factory=Counter)
    starts: int = 0
    acknowledged: Counter[str] = attrs.field(factory=Counter)
    errors: Counter[str] = attrs.field(factory=Counter)
    unanswered: int = 0
    missed: list[str] = attrs.field(factory=list)
    """What a search should have found, and did not."""

    @property
    def kills(self) -> int:
        return sum(count for name, count in self.faults.items() if name.startswith("killed"))


class Client:
    """A client that uses its server until it breaks, and then starts another."""

    def __init__(
        self, number: int, data: Path, seed: int, ledger: Ledger, tally: Tally, variables: Mapping[str, str]
    ) -> None:
        self.number = number
        self.random = random.Random(f"{seed}-{number}")
        self.ledger = ledger
        self.tally = tally
        self.own: list[str] = []
        self.acknowledged: Counter[str] = Counter()
        flags = ["--data-dir", str(data), "--log-level", "error", "--request-timeout", str(CALL_SECONDS / 2)]
        server = [sys.executable, "-m", "zapomni", "serve", *flags]
        self.command = [sys.executable, "-m", "tests.hard.worker", *server]
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")}
        self.environment = {**ours, **variables, "ZAPOMNI_STORE_LINGER": str(LINGER)}

    async def use_for_ever(self) -> None:
        while True:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
                async with self.server() as server:
                    await server.initialize()
                    while True:
                        await self.act(server)

    @contextlib.asynccontextmanager
    async def server(self) -> AsyncIterator[RawClient]:
        self.tally.starts += 1
        process = await trio.lowlevel.open_process(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=self.environment
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield RawClient(process.stdin, process.stdout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def act(self, server: RawClient) -> None:
        kind, known = self.random.random(), self.ledger.promised()
        own = [word for word in self.own if self.ledger.entries[word].is_promised]
        if kind < 0.6 or not known:
            await self.add(server)
        elif kind < 0.8:
            await self.search(server, self.random.choice(known))
        elif kind < 0.9:
            await self.delete(server, self.random.choice(known))
        elif own:
            await self.update(server, self.random.choice(own))

    async def add(self, server: RawClient) -> None:
        word = f"w{self.number}x{len(self.own)}"
        self.own.append(word)
        text = self.text(word)
        entry = self.ledger.add(word, text)
        answer = await self.ask(server, "add_memory", text=text, metadata={"source": f"client {self.number}"})
        if answer is not None:
            entry.acknowledge(answer["memory_id"], text)

    async def search(self, server: RawClient, word: str) -> None:
        answer = await self.ask(server, "search_memory", query=word, limit=3)
        entry = self.ledger.entries[word]
        if answer is not None and entry.is_promised and entry.memory_id not in ids_in(answer):
            self.tally.missed.append(word)

    async def update(self, server: RawClient, word: str) -> None:
        """Change a memory of one's own: nobody else does, so the order of its texts is known."""
        entry, text = self.ledger.entries[word], self.text(word)
        entry.sent.append(text)
        answer = await self.ask(server, "update_memory", memory_id=entry.memory_id, text=text)
        if answer is not None:
            entry.acknowledge(answer["memory_id"], text)

    async def delete(self, server: RawClient, word: str) -> None:
        entry = self.ledger.entries[word]
        entry.deleting = True
        entry.deleted = await self.ask(server, "delete_memory", memory_id=entry.memory_id, confirm=True) is not None

    def text(self, word: str) -> str:
        text = f"{word} " + " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(3, 60)))
        mark = f" {self.random.random()}"  # else an update may be the text that is there, and the order unknown
        return text + (" more" * (LARGE // 5) if self.random.random() < 0.03 else "") + mark

    async def ask(self, server: RawClient, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the structured answer; None for an error. A server that is gone raises."""
        request_id = f"{tool} {self.random.random()}"
        with trio.move_on_after(CALL_SECONDS) as scope:
            await server.send(call(request_id, tool, **arguments))
            answer = await server.answer_to(request_id)
        if scope.cancelled_caught:
            self.tally.unanswered += 1
            raise EOFError("a call was not answered")
        result: dict[str, Any] = answer.get("result", {"isError": True})
        if result.get("isError"):
            self.tally.errors[tool] += 1
            return None
        self.tally.acknowledged[tool] += 1
        self.acknowledged[tool] += 1
        structured: dict[str, Any] = result["structuredContent"]
        return structured


def ids_in(answer: dict[str, Any]) -> set[str]:
    return {hit["memory_id"] for hit in answer["hits"]}
