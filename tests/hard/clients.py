"""Clients that write, search, update and delete over the protocol, and go on whatever breaks."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from tests.wire import CutOff, RawClient, call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.hard.ledger import Ledger
    from tests.hard.tally import Tally

ROOT = Path(__file__).parent.parent.parent
LINGER = 0.5
CALL_SECONDS = 20.0
"""Within which every call must be answered; the server's own deadline is half of that."""
POLITE_SECONDS = 30.0
"""Within which a server must have ended whose input has; it may be stopped for half of that."""
LARGE = 200_000
"""Characters of the large texts, which are written in several batches."""
WORDS = ("cat", "dog", "tea", "sofa", "garden", "music", "Rust", "Лондон", "снег", "память", "记忆", "茶", "🐈")
SAYABLE = (
    re.compile(r"Error: Database temporarily unavailable\. Please retry in a few seconds\."),
    re.compile(rf"Error: \w+ timed out after {CALL_SECONDS / 2:g} s"),
    re.compile(r"Error: the disk that holds \S+ is full; make room and try again"),
    re.compile(r"Error: the data directory cannot be used: Permission denied: \S+"),
)
"""All that a call may be answered with instead of a result, whatever breaks; somebody can act on each of them."""
GONE = re.compile(r"Error: there is no memory \S+")


class UnansweredError(Exception):
    """A call had no answer in time."""


class Client:
    """A client that uses its server until it breaks, and then starts another; it can leave, and come back."""

    def __init__(
        self, number: int, data: Path, seed: int, ledger: Ledger, tally: Tally, variables: Mapping[str, str]
    ) -> None:
        self.number = number
        self.random = random.Random(f"{seed}-{number}")
        self.ledger = ledger
        self.tally = tally
        self.own: list[str] = []
        self.acknowledged: Counter[str] = Counter()
        self.log = data.parent.parent / f"client-{number}.log"
        flags = ["--data-dir", str(data), "--log-level", "error", "--request-timeout", str(CALL_SECONDS / 2)]
        server = [sys.executable, "-m", "zapomni", "serve", *flags]
        self.command = [sys.executable, "-m", "tests.hard.worker", *server]
        ours = {name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")}
        self.environment = {**ours, **variables, "ZAPOMNI_STORE_LINGER": str(LINGER)}
        self.politely = True
        self.welcome, self.left = trio.Event(), trio.Event()
        self.visit = trio.CancelScope()
        self.come_back()

    async def use_for_ever(self) -> None:
        while True:
            self.left.set()
            await self.welcome.wait()
            self.left = trio.Event()
            with trio.CancelScope() as self.visit:
                await self.use()

    async def leave(self, politely: bool) -> None:
        """Stop in the middle of whatever is being done: by closing the server's input, or by killing it."""
        self.politely = politely
        self.welcome = trio.Event()
        self.visit.cancel()
        await self.left.wait()

    def come_back(self) -> None:
        self.welcome.set()

    async def use(self) -> None:
        self.tally.starts += 1
        with self.log.open("wb") as log:
            process = await trio.lowlevel.open_process(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=ROOT, env=self.environment
            )
        assert process.stdin is not None
        assert process.stdout is not None
        server = RawClient(process.stdin, process.stdout)
        ended = "its client left"
        try:
            await server.initialize()
            while True:
                await self.act(server)
        except (UnansweredError, trio.TooSlowError) as error:
            ended = str(error) or "the handshake was not answered"
        except (trio.BrokenResourceError, EOFError) as error:
            ended = str(error) or "the pipe broke"
        finally:
            with trio.CancelScope(shield=True):
                if ended == "its client left" and self.politely:
                    ended = await self.drain(server, ended)
                await self.see_off(process, ended)

    async def drain(self, server: RawClient, ended: str) -> str:
        """Close a server's input and read what it has still to say, of which nothing may be half."""
        await server.sink.aclose()
        with trio.move_on_after(POLITE_SECONDS):
            try:
                while await server.receive() is not None:
                    pass
            except CutOff as error:
                return str(error)
        return ended

    async def see_off(self, process: trio.Process, ended: str) -> None:
        """Wait for a server's end, and note it unless a fault has killed it, or we do so as its client."""
        left = ended == "its client left"
        if self.politely or not left:
            with trio.move_on_after(POLITE_SECONDS if left else CALL_SECONDS / 4):
                await process.wait()
        ours = process.poll() is None
        if ours:
            process.kill()
        code = await process.wait()
        killed = process.pid in self.tally.killed and code == -signal.SIGKILL
        self.tally.killed.discard(process.pid)
        expected = killed or (left and (code == 0 if self.politely else ours))
        said = self.log.read_text("utf-8", "replace")
        lines = said.splitlines() if said.endswith("\n") or not (killed or ours) else said.splitlines()[:-1]
        if not expected:
            how = "had to be killed" if ours else f"ended with {code}"
            self.tally.wrong.append(f"server {self.number} {how} ({ended}); it said {said[-2000:]!r}")
        self.tally.wrong += [f"server {self.number} wrote {line!r}" for line in lines if not line.startswith("{")]

    async def act(self, server: RawClient) -> None:
        kind, known = self.random.random(), self.ledger.promised()
        own = [word for word in self.own if self.ledger.entries[word].is_promised]
        open_ends = [word for word in self.own if self.ledger.entries[word].memory_id is None]
        if kind < 0.6 or not known:
            again = open_ends and self.random.random() < 0.3
            await (self.add_again(server, self.random.choice(open_ends)) if again else self.add(server))
        elif kind < 0.8:
            await self.search(server, self.random.choice(known))
        elif kind < 0.9 or not own:
            await self.delete(server, self.random.choice(known))
        else:
            await self.update(server, self.random.choice(own))

    async def add(self, server: RawClient) -> None:
        word = f"w{self.number}x{len(self.own)}"
        self.own.append(word)
        self.ledger.add(word, self.text(word))
        await self.add_again(server, word)

    async def add_again(self, server: RawClient, word: str) -> None:
        """Send what had no good answer once more: it is stored now, or was before, and never twice."""
        entry = self.ledger.entries[word]
        metadata = {"source": f"client {self.number}"}
        answer = await self.ask(server, "add_memory", text=entry.sent[0], metadata=metadata)
        if answer is not None:
            entry.acknowledge(answer["memory_id"], entry.sent[0])

    async def search(self, server: RawClient, word: str) -> None:
        answer = await self.ask(server, "search_memory", query=word, limit=3)
        entry = self.ledger.entries[word]
        if answer is not None and entry.is_promised and entry.memory_id not in ids_in(answer):
            self.tally.missed.append(word)

    async def update(self, server: RawClient, word: str) -> None:
        """Change a memory of one's own: nobody else does, so the order of its texts is known."""
        entry, text = self.ledger.entries[word], self.text(word)
        entry.sent.append(text)
        answer = await self.ask(server, "update_memory", word, memory_id=entry.memory_id, text=text)
        if answer is not None:
            entry.acknowledge(answer["memory_id"], text)

    async def delete(self, server: RawClient, word: str) -> None:
        entry = self.ledger.entries[word]
        entry.deletions += 1
        answer = await self.ask(server, "delete_memory", word, memory_id=entry.memory_id, confirm=True)
        entry.deleted |= answer is not None

    def text(self, word: str) -> str:
        text = f"{word} " + " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(3, 60)))
        mark = f" {self.random.random()}"  # else an update may be the text that is there, and the order unknown
        return text + (" more" * (LARGE // 5) if self.random.random() < 0.03 else "") + mark

    async def ask(
        self, server: RawClient, tool: str, word: str | None = None, /, **arguments: Any
    ) -> dict[str, Any] | None:
        """Return the structured answer; None for an error. A server that is gone raises."""
        request_id = f"{tool} {self.random.random()}"
        with trio.move_on_after(CALL_SECONDS) as scope:
            await server.send(call(request_id, tool, **arguments))
            answer = await server.answer_to(request_id)
        if scope.cancelled_caught:
            raise UnansweredError(f"{tool} was not answered")
        result = answer.get("result")
        if result is None or result.get("isError"):
            said = str(answer) if result is None else result["content"][0]["text"]
            self.judge(tool, word, said)
            return None
        self.tally.acknowledged[tool] += 1
        self.acknowledged[tool] += 1
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    def judge(self, tool: str, word: str | None, said: str) -> None:
        """Take an error for what it is: one that may be, or one that nobody should be told."""
        if GONE.fullmatch(said):
            deletions = 0 if word is None else self.ledger.entries[word].deletions
            if deletions > (tool == "delete_memory"):  # somebody else's, or an earlier one
                return
        elif any(words.fullmatch(said) for words in SAYABLE):
            self.tally.errors[re.sub(r"/\S+", "…", said.split(": ")[1])] += 1
            return
        self.tally.wrong.append(f"{tool} was answered with {said!r}")


def ids_in(answer: dict[str, Any]) -> set[str]:
    return {hit["memory_id"] for hit in answer["hits"]}
