"""Our requests in the SDK's terms.

The SDK's low-level server speaks both forms of the protocol on one connection: the handshake of 2025-11-25 and
earlier, and the stateless requests of 2026-07-28; a client's first request decides. It correlates answers, cancels
the scope of a request whose client gave it up, and carries progress.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from zapomni import __version__
from zapomni.server.requests import RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from mcp.server.context import ServerRequestContext

    from zapomni.server.dispatch import Dispatcher
    from zapomni.tools.call import Reporter

    type Handler[Result] = Callable[[ServerRequestContext[Any, Any], object], Awaitable[Result]]

SEARCH_FIRST = (
    "Zapomni is the user's long-term memory. Search it before you answer anything that earlier conversations may have "
    "settled."
)
ADD_WHAT_MATTERS = "Add what is worth remembering: facts, preferences, decisions, in the user's own words."


def build_protocol(dispatcher: Dispatcher) -> Server[Any]:
    """Return an SDK server whose handlers are the dispatcher's."""

    async def list_tools(ctx: ServerRequestContext[Any, Any], _: types.PaginatedRequestParams | None) -> Any:
        with _as_protocol_errors():
            return types.ListToolsResult.model_validate(await dispatcher.list_tools(request_id=ctx.request_id))

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> Any:
        with _as_protocol_errors():
            answer = await dispatcher.call_tool(
                params.name, params.arguments or {}, request_id=ctx.request_id, reporter=_reporter_of(ctx)
            )
            return {"resultType": "complete", **answer}  # asked for since 2026-07-28; left out for those before

    def answer_with[Result: types.Result](method: str, result: type[Result]) -> Handler[Result]:
        async def answer(ctx: ServerRequestContext[Any, Any], _: object) -> Result:
            with _as_protocol_errors():
                found = await dispatcher.answer(method, ctx.params or {}, request_id=ctx.request_id)
                return result.model_validate(found)

        return answer

    server: Server[Any] = Server(
        "zapomni",
        version=__version__,
        title="Zapomni",
        description="Long-term memory for AI agents",
        instructions=_instructions(dispatcher),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=answer_with("resources/list", types.ListResourcesResult),
        on_list_resource_templates=answer_with("resources/templates/list", types.ListResourceTemplatesResult),
        on_read_resource=answer_with("resources/read", types.ReadResourceResult),
        on_list_prompts=answer_with("prompts/list", types.ListPromptsResult),
        on_get_prompt=answer_with("prompts/get", types.GetPromptResult),
        on_completion=answer_with("completion/complete", types.CompleteResult),
    )
    # Tracing has no exporter here, and a call whose client sends baggage that is no text would fail in it.
    server.middleware.clear()
    return server


def _instructions(dispatcher: Dispatcher) -> str:
    """Tell a model how to use the tools that it is offered."""
    can_add = dispatcher.registry.get_tool("add_memory") is not None
    return f"{SEARCH_FIRST} {ADD_WHAT_MATTERS}" if can_add else SEARCH_FIRST


def _reporter_of(ctx: ServerRequestContext[Any, Any]) -> Reporter | None:
    """Return where progress goes, if the client gave its request a token."""
    if not ctx.meta or ctx.meta.get("progress_token") is None:
        return None
    return ctx.session.report_progress


@contextlib.contextmanager
def _as_protocol_errors() -> Iterator[None]:
    """Raise our error answers in the SDK's form."""
    try:
        yield
    except RequestError as error:
        raise MCPError(error.code, error.message, dict(error.data) if error.data else None) from error
