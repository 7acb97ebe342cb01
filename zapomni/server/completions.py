"""What a user may mean while typing an argument of a prompt or of a resource's address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from zapomni.errors import ValidationError
from zapomni.server.resources import MEMORY, RECENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zapomni.engine import MemoryEngine
    from zapomni.server.dispatch import Method
    from zapomni.server.prompts import Prompts

MOST = 100
"""Values of one answer; the protocol allows no more."""


@attrs.frozen
class Completions:
    """Proposes workspaces and tags that are in use."""

    engine: MemoryEngine
    prompts: Prompts

    def methods(self) -> dict[str, Method]:
        return {"completion/complete": self.complete}

    async def complete(self, params: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self._arguments_of(_object(params, "ref"))
        argument, context = _object(params, "argument"), _object(params, "context")
        name, typed = argument.get("name"), argument.get("value")
        if name not in arguments or not isinstance(typed, str):
            raise ValidationError(f"argument must be one of {', '.join(arguments)}, with a string as its value")
        if name in ("workspace", "name"):
            found = matching(typed, [info.name for info in await self.engine.list_workspaces()])
        elif name == "tags":
            workspace = _object(context, "arguments").get("workspace")
            found = await self._tags(typed, workspace if isinstance(workspace, str) else None)
        else:
            found = []
        return {"completion": {"values": found[:MOST], "total": len(found), "hasMore": len(found) > MOST}}

    def _arguments_of(self, ref: Mapping[str, Any]) -> list[str]:
        """Return the names of what can be filled in."""
        if ref.get("type") == "ref/prompt":
            return [argument.name for argument in self.prompts.find(ref.get("name")).arguments]
        if ref.get("type") == "ref/resource" and ref.get("uri") in (MEMORY, RECENT):
            return ["id"] if ref["uri"] == MEMORY else ["name"]
        raise ValidationError("ref must name a prompt or a resource template of this server")

    async def _tags(self, typed: str, workspace: str | None) -> list[str]:
        """Complete the last of several tags, leaving out those before it."""
        before, comma, last = typed.rpartition(",")
        chosen = {tag.strip() for tag in before.split(",")}
        tags = [tag for tag in await self.engine.tags(workspace=workspace or None) if tag not in chosen]
        start = f"{before}{comma} " if comma else ""
        return [start + tag for tag in matching(last.strip(), tags)]


def matching(typed: str, values: Iterable[str]) -> list[str]:
    """Return the values that contain what was typed, in whatever case; those that start with it come first."""
    typed = typed.casefold()
    containing = [value for value in values if typed in value.casefold()]
    return sorted(containing, key=lambda value: not value.casefold().startswith(typed))


def _object(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = params.get(name)
    return found if isinstance(found, dict) else {}
