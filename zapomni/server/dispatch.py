"""Methods and their answers, as plain dicts: what a request means, before any wire."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.errors import BlockedError, ConfigError, DatabaseError, NotFoundError, ValidationError
from zapomni.log import get_logger
from zapomni.server.requests import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    TIMED_OUT,
    Request,
    RequestError,
    Requests,
)
from zapomni.tools.base import UNAVAILABLE

if TYPE_CHECKING:
    from zapomni.tools import MCPTool, ToolRegistry
    from zapomni.tools.call import Reporter

RequestId = str | int | None

CONSTANT = frozenset({"prompts/list", "prompts/get", "resources/templates/list"})
"""Methods that ask nothing of the engine."""
Method = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a request from its params, as they came. Raises `RequestError` and the errors of `zapomni.errors`."""

log = get_logger("server")


@attrs.frozen
class Dispatcher:
    """Answers requests: for tools with those of a registry, for anything else with the method of that name.

    Everything that it does raises `RequestError` and nothing else.
    """

    registry: ToolRegistry
    requests: Requests
    methods: Mapping[str, Method] = attrs.field(factory=dict)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, request_id: RequestId = None, reporter: Reporter | None = None
    ) -> dict[str, Any]:
        """Answer ``tools/call``. A tool that took too long is an answer, too, since the model should read it."""
        tool = self.registry.get_tool(name)
        request = Request("tools/call", name, request_id, getattr(tool, "timeout", None), reporter)
        try:
            return await self.requests.run(request, functools.partial(self._execute, tool, name, arguments))
        except RequestError as error:
            if error.code != TIMED_OUT:
                raise
            return {"content": [{"type": "text", "text": f"Error: {error.message}"}], "isError": True}

    async def _execute(self, tool: MCPTool | None, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool is None:
            raise RequestError(
                METHOD_NOT_FOUND, f"Tool not found: {name}", {"available_tools": self.registry.list_tools()}
            )
        return await tool.execute(arguments)

    async def list_tools(self, *, request_id: RequestId = None) -> dict[str, Any]:
        """Answer ``tools/list``, in the order of registration."""
        return await self.requests.run(Request("tools/list", request_id=request_id, waits=False), self._list_tools)

    async def _list_tools(self) -> dict[str, Any]:
        return {"tools": [_describe(tool) for tool in self.registry]}

    async def answer(self, method: str, params: Mapping[str, Any], *, request_id: RequestId = None) -> dict[str, Any]:
        """Answer a request that is not about tools."""
        work = functools.partial(_explained, method, self.methods[method], params)
        return await self.requests.run(Request(method, request_id=request_id, waits=method not in CONSTANT), work)

    async def handle(self, request: object) -> dict[str, Any]:
        """Answer a request that came as a dict and not over the wire."""
        fields = request if isinstance(request, dict) else {}
        method, params, request_id = fields.get("method"), fields.get("params") or {}, fields.get("id")
        if method == "tools/list":
            return await self.list_tools(request_id=request_id)
        if isinstance(method, str) and method in self.methods and isinstance(params, dict):
            return await self.answer(method, params, request_id=request_id)
        name = params.get("name") if isinstance(params, dict) else None
        if method == "tools/call" and isinstance(name, str) and "arguments" in params:
            return await self.call_tool(name, params["arguments"], request_id=request_id)
        refusal = functools.partial(_refuse, method, params, self.methods)
        return await self.requests.run(Request(str(method), request_id=request_id, waits=False), refusal)


async def _explained(method: str, work: Method, params: Mapping[str, Any]) -> dict[str, Any]:
    """Put the errors that the caller should understand into the protocol's terms."""
    try:
        return await work(params)
    except (ValidationError, NotFoundError) as error:
        raise RequestError(INVALID_PARAMS, str(error)) from error
    except (ConfigError, DatabaseError) as error:
        log.error("request_failed", method=method, exc_info=error)
        words = str(error) if isinstance(error, ConfigError | BlockedError) else UNAVAILABLE
        raise RequestError(INTERNAL_ERROR, words) from error


async def _refuse(method: object, params: object, methods: Container[str]) -> dict[str, Any]:
    if not isinstance(method, str) or not method:
        raise RequestError(INVALID_REQUEST, "Invalid request: missing method field")
    if method != "tools/call" and method not in methods:
        raise RequestError(METHOD_NOT_FOUND, f"Method not found: {method}")
    if not isinstance(params, dict):
        raise RequestError(INVALID_PARAMS, "Invalid params: params must be an object")
    if not isinstance(params.get("name", ""), str):
        raise RequestError(INVALID_PARAMS, "Invalid params: tool name must be a string")
    missing = "arguments" if "name" in params else "tool name"
    raise RequestError(INVALID_PARAMS, f"Invalid params: missing {missing}")


def _describe(tool: MCPTool) -> dict[str, Any]:
    listing: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }
    if output_schema := getattr(tool, "output_schema", None):
        listing["outputSchema"] = output_schema
    if annotations := getattr(tool, "annotations", None):
        listing["title"] = annotations.title
        hints = {"readOnlyHint": annotations.read_only, "openWorldHint": False}
        if not annotations.read_only:  # the others mean nothing where nothing is written
            hints |= {"destructiveHint": annotations.destructive, "idempotentHint": annotations.idempotent}
        listing["annotations"] = hints
    return listing
