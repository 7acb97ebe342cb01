"""What a tool is, and how the tools of this package answer.

`MCPTool` is all that a server asks of a tool, so that anybody can write one. `Tool` is how ours are made: an attrs
class that holds the engine, names its request class, and turns a request into an `Answer`. Everything around that,
from the arguments to the words for an error, happens once, in `Tool.execute`.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import attrs
import structlog

from zapomni.errors import (
    BlockedError,
    ConfigError,
    DatabaseError,
    EmbeddingError,
    NotFoundError,
    ValidationError,
)
from zapomni.log import get_logger
from zapomni.tools.arguments import structure
from zapomni.tools.attempt import Failure, attempt
from zapomni.tools.call import current_call
from zapomni.tools.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zapomni.engine import MemoryEngine

UNAVAILABLE = "Database temporarily unavailable. Please retry in a few seconds."
_NO_EMBEDDER = "The embedding model is unavailable, and nothing was changed. Start it, or set ZAPOMNI_EMBEDDER=bundled."

log = get_logger("tool")


@runtime_checkable
class MCPTool(Protocol):
    """A tool that an MCP client can call."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> dict[str, Any]: ...

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return ``{"content": [...], "isError": ...}`` for a client's arguments."""
        ...


@attrs.frozen
class Annotations:
    """What a client may assume of a tool before it calls it."""

    title: str
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


@attrs.frozen
class Answer:
    """A tool's good answer: text for the model, and the same as data for programs."""

    text: str
    data: object
    """An instance of the tool's result class."""
    facts: Mapping[str, object] = attrs.field(factory=dict)
    """What the log may know of it: ids and counts, never texts."""


@attrs.frozen
class Refusal:
    """An answer that nothing was done, since the caller has to say first that it is meant.

    It may quote what would be lost, so the log does not know its text.
    """

    text: str


@attrs.frozen
class Tool[R]:
    """Base of the tools in this package."""

    core_engine: MemoryEngine

    name: ClassVar[str]
    description: ClassVar[str]
    annotations: ClassVar[Annotations]
    request_class: ClassVar[type[Any]]
    result_class: ClassVar[type[Any]]
    failure: ClassVar[str] = "An internal error occurred while processing your request."
    timeout: ClassVar[float | None] = None
    """Seconds that a call may take, where the server's own limit does not suit."""
    core: ClassVar[bool] = False
    """Offered even where only the tools that matter most are."""

    @property
    def input_schema(self) -> dict[str, Any]:
        return schema_of(self.request_class)

    @property
    def output_schema(self) -> dict[str, Any]:
        return schema_of(self.result_class, closed=False)

    async def respond(self, request: R) -> Answer | Refusal:
        """Do the work. Raises the errors of `zapomni.errors`."""
        raise NotImplementedError

    async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer a client's arguments. Every error becomes an answer; cancellation passes through."""
        with _identified():
            log.debug("tool_started", tool=self.name)
            answer = await attempt(self._respond, arguments)
            if isinstance(answer, Failure):
                return _error_block(self._explain(answer.error))
            if isinstance(answer, Refusal):
                log.info("tool_unconfirmed", tool=self.name)
                return _error_block(answer.text)
            current_call().facts.update(answer.facts)
            log.debug("tool_succeeded", tool=self.name, **answer.facts)
            return {
                "content": [{"type": "text", "text": answer.text}],
                "structuredContent": _as_json(answer.data),
                "isError": False,
            }

    async def _respond(self, arguments: object) -> Answer | Refusal:
        request: R = structure(arguments, self.request_class)
        return await self.respond(request)

    def _explain(self, error: Exception) -> str:
        """Return the words for the caller; what they must not see goes to the log alone."""
        if isinstance(error, ValidationError | NotFoundError):
            # The words may repeat what the caller sent, which may be a text of a memory.
            log.warning("tool_refused", tool=self.name, error_type=type(error).__name__)
            log.debug("refusal", tool=self.name, error=str(error))
            return str(error)
        log.error("tool_failed", tool=self.name, error_type=type(error).__name__, exc_info=error)
        if isinstance(error, ConfigError | BlockedError):
            return str(error)
        if isinstance(error, DatabaseError):
            return UNAVAILABLE
        return _NO_EMBEDDER if isinstance(error, EmbeddingError) else self.failure


def _as_json(data: Any) -> dict[str, Any]:
    """Leave out what is None: the output schema says that a field may be missing, not that it may be null."""
    return attrs.asdict(
        data,
        filter=lambda _, value: value is not None,
        value_serializer=lambda _, __, value: list(value) if isinstance(value, tuple) else value,
    )


def _error_block(message: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"Error: {message}"}], "isError": True}


@contextlib.contextmanager
def _identified() -> Iterator[None]:
    """Give the log lines of a call a request id; the server's own, where a server is calling."""
    if "request_id" in structlog.contextvars.get_contextvars():
        yield
    else:
        with structlog.contextvars.bound_contextvars(request_id=uuid.uuid4().hex):
            yield
