"""``zapomni demo``: the promises, kept before your eyes, in a temporary directory and a few seconds.

Nothing is staged: the real server is started as a real client starts it, with the MCP SDK's own client, and what is
printed is what it answered.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.cli import EXIT_FAILED, EXIT_OK
from zapomni.cli.session import run as run_work
from zapomni.cli.text import counted, printable
from zapomni.errors import ConfigError

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

    from zapomni.cli.output import Console
    from zapomni.config import Settings

LIMIT = 120.0
"""Seconds after which something is wrong, however slow the machine."""
GONE_SECONDS = 10.0
ENOUGH = 200
"""Passages of the large text that are written before it is cancelled, so that there is something to take back."""

MEMORIES = (
    ("English", "The spare key is with Nadia on the third floor."),
    ("Russian", "Надя переехала в Тбилиси в марте и открыла там пекарню."),
    ("German", "Die Heizung im Keller wird jeden Oktober gewartet."),
    ("French", "Le chat de la voisine s'appelle Biscuit et il adore le thon."),
    ("Spanish", "El vuelo a Lisboa sale el 14 de mayo a las siete de la mañana."),
    ("Ukrainian", "Пароль від домашнього вайфаю лежить у синій папці."),
    ("Japanese", "歯医者の予約は来週の火曜日の午後三時です。"),
    ("Chinese", "妈妈最喜欢的花是白色的牡丹。"),
    ("Portuguese", "O contrato do apartamento termina em setembro."),
    ("Arabic", "تبدأ دروس العود كل يوم خميس في السادسة مساء."),
    ("Turkish", "Büyükannemin doğum günü 3 Ağustos."),
    ("English", "parse_config() reads settings from zapomni.toml before the environment."),
)
QUESTIONS = (
    "Who has the spare key?",
    "пекарни",
    "What is the neighbour's cat called?",
    "когда самолёт в Лиссабон?",
    "mother's favourite flower",
    "parse config",
)
RARE = "pomegranate"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "demo",
        help="see it work, in a few seconds",
        description=(
            "Start the real server in a temporary directory, remember a dozen things in many languages, find them,\n"
            "cancel a slow call, kill the database, and look what is left. Your own memories are not touched."
        ),
        epilog="examples:\n  zapomni demo",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # Whatever is set on this machine, the demo shows what the program does by itself.
    parser.set_defaults(run=run, config=Path(os.devnull), log_level="error")


def run(options: argparse.Namespace) -> int:
    """Show it, and return whether everything was as it should be."""

    async def work(settings: Settings, console: Console) -> int:
        import trio

        with tempfile.TemporaryDirectory(prefix="zapomni-demo-") as folder:
            demo = Demo(Path(folder), console)
            try:
                with trio.fail_after(LIMIT):
                    await demo.show()
            except trio.TooSlowError:
                raise ConfigError(f"the demo took more than {LIMIT:g} s; 'zapomni doctor' may know why") from None
            finally:
                with trio.move_on_after(GONE_SECONDS, shield=True):
                    await demo.wait_until_gone()
        console.line(f"Nothing is left, and it took {time.monotonic() - demo.began:.1f} s in all.")
        console.line()
        console.line(f"{console.paint('zapomni install', 'bold')} adds it to your client.")
        return EXIT_OK if demo.kept else EXIT_FAILED

    return run_work(options, work)


@attrs.define
class Demo:
    """One showing."""

    folder: Path
    console: Console
    kept: bool = True
    """Every promise that was shown so far."""
    began: float = attrs.field(factory=time.monotonic, init=False)
    _ids: dict[str, str] = attrs.field(factory=dict, init=False)

    @property
    def store(self) -> Path:
        return self.folder / "data" / "store"

    async def show(self) -> None:
        """Go through all of it, from the start of the server to its end."""
        import trio
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client
        from mcp.shared.exceptions import MCPError

        from zapomni.clients import Launch

        launch = Launch.of_this_installation(["--data-dir", str(self.folder / "data"), "--log-level", "error"])
        command = StdioServerParameters(
            command=launch.command,
            args=list(launch.args),
            env={"ZAPOMNI_CONFIG": os.devnull, "ZAPOMNI_STORE_LINGER": "0"},
            cwd=self.folder,
        )
        self._title("Starting the server as an MCP client does")
        with (self.folder / "server.log").open("w", encoding="utf-8") as log:
            try:
                async with Client(stdio_client(command, errlog=log)) as client:
                    tools = (await client.list_tools()).tools
                    self._done(f"{counted(len(tools), 'tool')}, ready after {self._seconds(self.began)}")
                    await self._remember(client)
                    await self._find(client)
                    await self._cancel(client)
                    await self._kill(client)
                    self._title("Closing the client")
                    closing = time.monotonic()
            except* MCPError as errors:
                said = (self.folder / "server.log").read_text(encoding="utf-8", errors="replace").strip()
                raise ConfigError(
                    f"the server ended: {said.splitlines()[-1] if said else 'without a word'}"
                ) from errors
        with trio.move_on_after(GONE_SECONDS):
            await self.wait_until_gone()
            self._done(f"server and database ended within {self._seconds(closing)}")
            return
        self.kept = False
        self._done("the database still runs")

    async def _remember(self, client: Client) -> None:
        languages = len({language for language, _ in MEMORIES})
        self._title(f"Remembering {len(MEMORIES)} things in {languages} languages")
        began = time.monotonic()
        for language, text in MEMORIES:
            stored = _content(await client.call_tool("add_memory", {"text": text, "metadata": {"language": language}}))
            self._ids[text] = stored["memory_id"]
        self._done(f"{self._seconds(began)}, each on disk before its id came back")

    async def _find(self, client: Client) -> None:
        self._title("Finding them again")
        self._done("by words, by meaning, and from one language to another")
        width = max(map(len, QUESTIONS))
        for question in QUESTIONS:
            began = time.monotonic()
            hits = _content(await client.call_tool("search_memory", {"query": question, "limit": 1}))["hits"]
            taken = f"{(time.monotonic() - began) * 1000:3.0f} ms"
            found = hits[0]["text"] if hits else "nothing"
            self.console.line(
                f"  {self.console.paint(question.ljust(width), 'cyan')}  {self.console.paint(taken, 'dim')}  {found}"
            )

    async def _cancel(self, client: Client) -> None:
        import trio

        text = " ".join(f"{RARE} {number}" for number in range(170_000))
        self._title(f"Cancelling a slow call, a text of {len(text) / 1e6:.0f} million characters")
        began = time.monotonic()
        reached = "nothing was written yet"
        with trio.CancelScope() as scope:

            async def note(progress: float, total: float | None, message: str | None) -> None:
                nonlocal reached
                reached = message or reached
                if progress >= ENOUGH:
                    scope.cancel()

            await client.call_tool("add_memory", {"text": text}, progress_callback=note)
        self._done(f"cancelled after {self._seconds(began)}: {reached}")
        stats = _content(await client.call_tool("get_stats"))
        found = _content(await client.call_tool("search_memory", {"query": RARE}))["hits"]
        parts = sum(RARE in hit["text"] for hit in found)
        self._check(
            scope.cancelled_caught and stats["total_memories"] == len(MEMORIES) and not parts,
            f"{stats['total_memories']} memories, {stats['total_chunks']} passages, {parts} of them of that text",
        )

    async def _kill(self, client: Client) -> None:
        process = _server_process(self.store)
        self._title(f"Killing the database, kill -9 {process}")
        os.kill(process, signal.SIGKILL)
        began = time.monotonic()
        found = 0
        for number, (text, memory_id) in enumerate(self._ids.items()):
            answer = await client.call_tool("get_memory", {"memory_id": memory_id})
            found += not answer.is_error and _content(answer)["text"] == text
            if number == 0:
                self._done(f"answered again after {self._seconds(began)}")
        self._check(found == len(MEMORIES), f"{found} of {len(MEMORIES)} memories are there, word for word")

    async def wait_until_gone(self) -> None:
        """Wait for the database, which follows its last client; the directory is not to be removed under it."""
        import trio

        from zapomni.store import reaper

        if not self.store.is_dir():
            return
        lock = reaper.open_lock(self.store, reaper.SERVER)
        try:
            while not reaper.try_lock(lock, fcntl.LOCK_EX):  # noqa: ASYNC110  # no event tells of another process
                await trio.sleep(0.02)
        finally:
            os.close(lock)

    def _title(self, text: str) -> None:
        print(self.console.paint(text, "bold"), end=" … ", flush=True)

    def _done(self, text: str) -> None:
        self.console.line(printable(text))

    def _check(self, right: bool, text: str) -> None:
        self.kept &= right
        mark = self.console.paint("ok", "green") if right else self.console.paint("NOT AS IT SHOULD BE", "red")
        self.console.line(f"  {mark}  {text}")

    @staticmethod
    def _seconds(since: float) -> str:
        return f"{time.monotonic() - since:.1f} s"


def _content(answer: CallToolResult) -> dict[str, Any]:
    content: dict[str, Any] | None = answer.structured_content
    if answer.is_error or content is None:
        said = " ".join(getattr(block, "text", "") for block in answer.content)
        raise ConfigError(f"the server answered: {said}")
    return content


def _server_process(store: Path) -> int:
    """Ask the database for its process id, as only whoever can open its socket may."""
    from zapomni.store import reaper

    connection = reaper.connect(store)
    found = None
    if connection is not None:
        with connection:
            found = re.search(rb"process_id:(\d+)", reaper.ask(connection, b"INFO server"))
    if found is None:
        raise ConfigError("the database cannot be found")
    return int(found[1])
