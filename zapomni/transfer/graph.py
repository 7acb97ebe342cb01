"""The official MCP memory server's file: a graph of entities, one memory each.

One JSON object a line: ``{"type":"entity","name":…,"entityType":…,"observations":[…]}`` or
``{"type":"relation","from":…,"to":…,"relationType":…}``. Older versions wrote the file without a lock, so objects
run into each other, commas and scraps stand between them, the end is missing, or one entity comes twice. Each
object is therefore looked for by itself: what a line break should separate but does not is separated, an object
that is cut off is closed after its last whole value, and entities of one name are joined. What had to be mended is
reported, and so is what was lost.

An object with ``entities`` and ``relations``, which is what its ``read_graph`` tool answers, is read as well. The
graph is held whole, as the server itself does at every call.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.transfer.documents import as_text, sound
from zapomni.transfer.records import Item, Problem, Record, checked, describe, origin_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "server-memory"

_BETWEEN = re.compile(r"[\s,\[\]]*")
_NEXT = re.compile(r"^[ \t]*\{|\{\s*\"type\"\s*:\s*\"(?:entity|relation)\"", re.MULTILINE)
_SIGN = re.compile(r"^\{\s*\"type\"\s*:\s*\"(?:entity|relation)\"", re.MULTILINE)
_ATTEMPTS = 64


@attrs.define
class _Entity:
    where: str
    kind: str = ""
    # Dictionaries, since they keep the order and know at once what they have.
    observations: dict[str, None] = attrs.Factory(dict)
    relations: dict[tuple[str, str], None] = attrs.Factory(dict)


def is_graph(value: object) -> bool:
    """Tell whether a file's first value is a part of such a graph, or the whole of one."""
    if not isinstance(value, dict):
        return False
    return value.get("type") in ("entity", "relation") or (
        isinstance(value.get("entities"), list) and isinstance(value.get("relations"), list)
    )


def has_signs(head: str) -> bool:
    """Tell whether the beginning of a damaged file still looks like such a graph."""
    return _SIGN.search(head) is not None


def read(path: Path) -> Iterator[Item]:
    """Read a file, mending what can be mended."""
    entities: dict[str, _Entity] = {}
    with path.open("rb") as file, as_text(file) as decoded:
        text = decoded.read()
    for where, found in _objects(text):
        if isinstance(found, Problem):
            yield found
            continue
        whole = isinstance(found.get("entities"), list)
        parts = [*found["entities"], *(found.get("relations") or [])] if whole else [found]
        for part in parts:
            if not (isinstance(part, dict) and _take(part, where, entities)):
                yield Problem(where, "it is neither an entity nor a relation")
    origin = str(path.resolve())
    for name, entity in entities.items():
        yield checked(_memory(name, entity, origin))


def _take(part: dict[str, Any], where: str, entities: dict[str, _Entity]) -> bool:
    name, start, end, relation = (part.get(field) for field in ("name", "from", "to", "relationType"))
    if isinstance(start, str) and isinstance(end, str) and isinstance(relation, str):
        entities.setdefault(start, _Entity(where)).relations[relation, end] = None
        return True
    observations = part.get("observations", [])
    if not isinstance(name, str) or not isinstance(observations, list):
        return False
    entity = entities.setdefault(name, _Entity(where))
    entity.kind = entity.kind or str(part.get("entityType") or "")
    entity.observations |= dict.fromkeys(text for text in observations if isinstance(text, str))
    return True


def _memory(name: str, entity: _Entity, origin: str) -> Record:
    lines = [f"{name} ({entity.kind})" if entity.kind else name]
    lines += [f"- {observation}" for observation in entity.observations]
    lines += [f"{name} {relation} {end}" for relation, end in entity.relations]
    relations = [{"relation": relation, "to": end} for relation, end in entity.relations]
    given = {"entity": name, **({"relations": relations} if relations else {})}
    return Record(
        text="\n".join(lines),
        metadata=describe(NAME, given=given, tags=[entity.kind]),
        key=origin_key(NAME, origin, name),
        where=entity.where,
    )


def _objects(text: str) -> Iterator[tuple[str, Any]]:
    """Yield every object of a text with its line, and a `Problem` for what lies broken between them."""
    decoder = json.JSONDecoder()
    at, line, counted, last = 0, 1, 0, 0
    while True:
        match = _BETWEEN.match(text, at)
        at = match.end() if match else at
        if at == len(text):
            return
        line, counted = line + text.count("\n", counted, at), at
        where = f"line {line}"
        try:
            value, end = decoder.raw_decode(text, at)
            if not isinstance(value, dict):
                raise ValueError
            value = sound(value)
        except (ValueError, RecursionError):
            found = _NEXT.search(text, at + 1)
            end = found.start() if found else len(text)
            part, reason = _closed(text[at:end])
            yield where, Problem(where, reason)
            if part is not None:
                yield where, sound(part)
        else:
            if line == last:
                yield where, Problem(where, "several objects stand on one line", lost=False)
            yield where, value
            last = line + text.count("\n", at, end)
        at = end


def _closed(scrap: str) -> tuple[dict[str, Any] | None, str]:
    """Return what can be had of an object that is cut off, and words for the rest."""
    ends = [place.end() for place in re.finditer(r'["\]}]', scrap)][: -_ATTEMPTS - 1 : -1]
    for end in ends if scrap.startswith("{") else ():
        for closing in ("}", "]}"):
            try:
                value = json.loads(scrap[:end] + closing)
            except (ValueError, RecursionError):
                continue
            if {"name", "observations"} <= value.keys() or {"from", "to", "relationType"} <= value.keys():
                return value, "it is cut off; its whole part has come in"
    shown = scrap.strip()
    return None, f"it cannot be read: {shown if len(shown) <= 40 else shown[:40] + '…'}"
