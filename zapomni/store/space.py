"""One workspace as the store's modules see it: where it is, what is recorded about it, who works on it."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import attrs
import trio

from zapomni.errors import ConfigError, DatabaseError, NotFoundError, ZapomniError
from zapomni.models import EmbeddingModel
from zapomni.store import reaper
from zapomni.store.cypher import Value, render, rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from zapomni.store.connection import Connection, Reader
    from zapomni.store.names import Keys
    from zapomni.store.wire import Command, Word

SCHEMA = 1
UPKEEP_SECONDS = 60
UPKEEP_WAIT = 20.0
CLEANUP_SECONDS = 5.0


@attrs.frozen
class About:
    """What is recorded about a workspace, seldom changed, and watched by every write."""

    schema: int
    incarnation: str = ""
    """Another each time that a workspace of this name is made: its chunks are numbered from the beginning again."""
    generation: int = 1
    """Which vector set is searched."""
    model: EmbeddingModel | None = None
    """What made its vectors; None until the first comes."""
    next_model: EmbeddingModel | None = None
    """What the vector set of the next generation is being made by, if it is."""

    @property
    def sets(self) -> dict[int, EmbeddingModel | None]:
        """Every vector set there is, by generation."""
        current = {self.generation: self.model}
        return current if self.next_model is None else {**current, self.generation + 1: self.next_model}

    @classmethod
    def parse(cls, reply: list[bytes], workspace: str) -> About:
        """Read the record; raises `NotFoundError` when there is none, `ConfigError` when it is too new for us."""
        record = dict(zip(reply[::2], reply[1::2], strict=True))
        if b"schema" not in record or b"deleting" in record:
            raise NotFoundError(f"there is no workspace {workspace!r}")
        schema = int(record[b"schema"])
        if schema > SCHEMA:
            raise ConfigError(
                f"workspace {workspace!r} was written by a newer Zapomni (schema {schema}, this one knows {SCHEMA}): "
                "upgrade Zapomni"
            )
        return cls(
            schema,
            record.get(b"incarnation", b"").decode(),
            int(record.get(b"generation", 1)),
            _model(record, b"model", b"dimension"),
            _model(record, b"next_model", b"next_dimension"),
        )

    def set_for(self, model: EmbeddingModel) -> int:
        """Return the generation that vectors of a model belong to; raises `ConfigError` when none does."""
        for generation, known in self.sets.items():
            if known is None or known == model:
                return generation
        assert self.model is not None
        raise ConfigError(
            f"this workspace's vectors were made by {self.model.name} ({self.model.dimension} dimensions), not by "
            f"{model.name} ({model.dimension}): go back to that model, or run `zapomni reembed`"
        )


def _model(record: dict[bytes, bytes], name: bytes, dimension: bytes) -> EmbeddingModel | None:
    return EmbeddingModel(record[name].decode(), int(record[dimension])) if name in record else None


@attrs.frozen
class Space:
    """A workspace on a connection."""

    connection: Connection
    keys: Keys
    opened: set[str] = attrs.field(factory=set)
    """Names of the workspaces that this process has already prepared."""
    swept: set[str] = attrs.field(factory=set)
    """Names of those that it has already looked through for what others left unfinished."""
    fresh: bool = False
    """Read nothing from a replica, which may be behind: whoever writes has to know how things are."""
    generations: dict[EmbeddingModel, int] = attrs.field(factory=dict)
    """Which vector set was last seen to hold a model's vectors: a guess, to be confirmed with the answer."""

    @property
    def name(self) -> str:
        return self.keys.workspace

    async def about(self) -> About:
        return self.parse_about(await self.read("HGETALL", self.keys.about))

    def watched_about(self, reader: Reader) -> About:
        return self.parse_about(reader("HGETALL", self.keys.about))

    def parse_about(self, reply: list[bytes]) -> About:
        """Read the record; raises `NotFoundError`, and then the next call prepares the workspace again."""
        try:
            return About.parse(reply, self.name)
        except NotFoundError:
            self.opened.discard(self.name)
            raise

    def statement(self, query: str, /, **parameters: Value) -> Command:
        """Return a graph query that writes, as a command."""
        return ("GRAPH.QUERY", self.keys.graph, render(query, **parameters))

    def question(self, query: str, /, **parameters: Value) -> Command:
        """Return a graph query that reads, as a command."""
        return ("GRAPH.RO_QUERY", self.keys.graph, render(query, **parameters))

    async def ask(self, query: str, /, **parameters: Value) -> list[list[Any]]:
        """Run a graph query that reads, and return its rows."""
        return rows(await self.read(*self.question(query, **parameters)))

    async def read(self, *command: Word) -> Any:
        """Run one command that changes nothing."""
        return (await self.read_all([command]))[0]

    async def read_all(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands that change nothing, in one round trip."""
        return await self.connection.read_all(commands, fresh=self.fresh)

    @asynccontextmanager
    async def upkeep(self) -> AsyncIterator[str]:
        """Be the only one that works on the workspace as a whole; ordinary writes go on meanwhile.

        As long as the lock holds the string that this returns, it is ours.

        Raises `DatabaseError` when somebody else is at it for too long.
        """
        token = token_hex(8)
        try:
            with trio.move_on_after(UPKEEP_WAIT) as scope:
                # What is waited for happens in another process, which no event tells of.
                while not await self.connection.write("SET", self.keys.upkeep, token, "NX", "EX", UPKEEP_SECONDS):  # noqa: ASYNC110
                    await trio.sleep(0.02)
            if scope.cancelled_caught:
                raise DatabaseError(f"workspace {self.name!r} is busy with a backup or a clean-up; try again later")
            yield token
        finally:  # also of what was cancelled while it asked: the server may have said yes to nobody
            # Should it fail, the lock runs out by itself; what went wrong before is what the caller has to know.
            with trio.move_on_after(CLEANUP_SECONDS, shield=True), suppress(ZapomniError):
                await self.connection.optimistic([self.keys.upkeep], lambda reader: self._release(reader, token))

    async def keep_upkeep(self, token: str) -> None:
        """Go on being the only one; to be called now and then by work that takes long.

        Raises `DatabaseError` when that is over: the machine slept, say, and somebody else may be at work.
        """
        await self.as_keeper(token, [self.prolongation()])

    def prolongation(self) -> Command:
        """Return the command that keeps the upkeep for whoever has it."""
        return ("EXPIRE", self.keys.upkeep, UPKEEP_SECONDS)

    async def as_keeper(self, token: str, commands: Sequence[Command]) -> list[Any]:
        """Run commands as one transaction, provided that the upkeep is ours; raises `DatabaseError` when it is not."""

        def attempt(reader: Reader) -> Sequence[Command]:
            self.check_keeper(reader, token)
            return commands

        return await self.connection.optimistic([self.keys.upkeep], attempt)

    def check_keeper(self, reader: Reader, token: str) -> None:
        """Raise `DatabaseError` when the upkeep, which has to be watched, is not ours any more."""
        if reader("GET", self.keys.upkeep) != token.encode():
            raise DatabaseError(f"work on workspace {self.name!r} was held up until others took it over; try again")

    def note_removal(self) -> None:
        """Have what was removed for good leave the embedded server's files as well, when the store ends."""
        if self.connection.directory is not None:
            # It is gone from the store already; a disk that takes no mark must not make that look like a failure.
            with suppress(OSError):
                reaper.note_removal(self.connection.directory)

    async def within(self, incarnation: str, commands: Sequence[Command], *, token: str | None = None) -> bool:
        """Run commands as one transaction unless the workspace was removed meanwhile; return whether they ran.

        Whoever holds the upkeep goes on holding it. Raises `DatabaseError` when that is over.
        """

        def attempt(reader: Reader) -> Sequence[Command]:
            try:
                if self.watched_about(reader).incarnation != incarnation:
                    return []
            except NotFoundError:
                return []
            if token is None:
                return commands
            self.check_keeper(reader, token)
            return [*commands, self.prolongation()]

        watched = [self.keys.about] if token is None else [self.keys.about, self.keys.upkeep]
        return bool(await self.connection.optimistic(watched, attempt))

    def _release(self, reader: Reader, token: str) -> list[Command]:
        return [("DEL", self.keys.upkeep)] if reader("GET", self.keys.upkeep) == token.encode() else []
