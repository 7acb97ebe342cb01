"""Memories as resources, which an application may attach to a conversation without a tool call.

A memory has one address whatever workspace it is in, since its id is unique. What can be listed is kept small: one
resource for each workspace, with its latest memories.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import attrs

from zapomni.errors import NotFoundError, ValidationError
from zapomni.server.requests import INVALID_PARAMS, RequestError
from zapomni.tools.get_memory import introduce
from zapomni.tools.list_memories import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zapomni.engine import MemoryEngine
    from zapomni.models import Memory
    from zapomni.server.dispatch import Method

MEMORY = "zapomni://memory/{id}"
RECENT = "zapomni://workspace/{name}/recent"
LATEST = 20
"""Memories in the list of a workspace's latest."""

_MEMORY = re.compile(r"zapomni://memory/([^/?#]+)")
_RECENT = re.compile(r"zapomni://workspace/([^/?#]+)/recent")
_TEXT = {"mimeType": "text/plain"}


@attrs.frozen
class Resources:
    """Lists and reads resources."""

    engine: MemoryEngine

    def methods(self) -> dict[str, Method]:
        return {
            "resources/list": self.list,
            "resources/templates/list": self.list_templates,
            "resources/read": self.read,
        }

    async def list(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "resources": [
                {
                    "uri": RECENT.format(name=quote(info.name, safe="")),
                    "name": f"recent-{info.name}",
                    "title": f"Latest memories in {info.name}",
                    "description": f"The {LATEST} memories that were stored last, of {info.memories:,}.",
                    **_TEXT,
                }
                for info in await self.engine.list_workspaces()
            ]
        }

    async def list_templates(self, _: Mapping[str, Any]) -> dict[str, Any]:
        about = (
            (MEMORY, "memory", "A memory", "One memory: its dates and metadata, and the whole text."),
            (RECENT, "recent", "Latest memories", f"The {LATEST} memories of a workspace that were stored last."),
        )
        return {
            "resourceTemplates": [
                {"uriTemplate": uri, "name": name, "title": title, "description": description, **_TEXT}
                for uri, name, title, description in about
            ]
        }

    async def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise ValidationError("uri must be a string")
        try:
            text = await self._text(uri)
        except NotFoundError as error:
            raise RequestError(INVALID_PARAMS, str(error), {"uri": uri}) from error
        return {"contents": [{"uri": uri, "text": text, **_TEXT}]}

    async def _text(self, uri: str) -> str:
        if match := _MEMORY.fullmatch(uri):
            memory = await self._memory(unquote(match[1]))
            return f"{introduce(memory)}\n\n{memory.text}"
        if match := _RECENT.fullmatch(uri):
            return describe(await self.engine.list_memories(limit=LATEST, workspace=unquote(match[1])))
        raise NotFoundError("there is no such resource")

    async def _memory(self, memory_id: str) -> Memory:
        try:
            return await self.engine.get_memory(memory_id)
        except NotFoundError:
            for info in await self.engine.list_workspaces():
                with contextlib.suppress(NotFoundError):
                    return await self.engine.get_memory(memory_id, workspace=info.name)
            raise
