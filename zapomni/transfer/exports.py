"""Exports of other memory servers: mem0 with OpenMemory, and mcp-memory-service.

**mem0 and OpenMemory.** A list of memories, or an object that holds one as ``results``, ``memories`` or
``records``, or one memory a line. A memory has ``id``; its text as ``memory`` (mem0) or ``content`` (OpenMemory);
``metadata``; ``categories`` by name, or ``category_ids`` into the export's own list of ``categories``;
``created_at`` and ``updated_at`` in ISO 8601; ``user_id``, ``agent_id``, ``run_id``, ``app_id``, ``hash``; and in
OpenMemory a ``state``: active, paused, archived or deleted. The deleted ones are left out.

**mcp-memory-service.** An object with ``export_metadata`` (``source_machine``, ``export_timestamp``, …) and
``memories``, each with ``content``, ``content_hash``, ``tags`` (a list, or one text with commas), ``memory_type``,
``metadata``, and ``created_at`` and ``updated_at`` in seconds since 1970, ``…_iso`` beside them.

An object is read whole; a list, or lines, one memory at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zapomni.transfer.documents import values
from zapomni.transfer.records import Item, Problem, Record, checked, describe, moment_of, origin_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MEM0 = "mem0"
MEMORY_SERVICE = "mcp-memory-service"
_LISTS = ("results", "memories", "records")


def is_mem0(value: object) -> bool:
    """Tell whether a file's first value looks like mem0's or OpenMemory's."""
    sample = _sample(value)
    return (
        "content_hash" not in sample and _text(sample) is not None and bool(sample.keys() & {"id", "user_id", "hash"})
    )


def is_memory_service(value: object) -> bool:
    """Tell whether a file's first value looks like mcp-memory-service's."""
    sample = _sample(value)
    return "content_hash" in sample and isinstance(sample.get("content"), str)


def read_mem0(path: Path) -> Iterator[Item]:
    """Read a file, an archive or a folder of mem0 or OpenMemory."""
    for where, entry, around in _entries(path):
        if isinstance(entry, Problem):
            yield entry
            continue
        text = _text(entry)
        if text is None:
            yield Problem(where, "it has no text as memory or content")
        elif entry.get("state") == "deleted":
            yield Problem(where, "it was deleted there")
        else:
            categories = entry.get("categories") or [
                category.get("name")
                for category in _dicts(around.get("categories"))
                if category.get("id") in (entry.get("category_ids") or ())
            ]
            noted = ("id", "user_id", "agent_id", "run_id", "app_id", "app", "actor_id", "role", "state", "updated_at")
            metadata = describe(
                MEM0,
                given=entry.get("metadata"),
                tags=categories if isinstance(categories, list) else (),
                moment=moment_of(entry.get("created_at")),
                origin={name: entry.get(name) for name in noted},
            )
            key = origin_key(MEM0, str(entry.get("id") or text))
            yield checked(Record(text=text, metadata=metadata, key=key, where=where))


def read_memory_service(path: Path) -> Iterator[Item]:
    """Read a file or an archive of mcp-memory-service."""
    for where, entry, around in _entries(path):
        if isinstance(entry, Problem):
            yield entry
            continue
        text = entry.get("content")
        if not isinstance(text, str):
            yield Problem(where, "it has no text as content")
            continue
        tags = entry.get("tags") or []
        exported = around.get("export_metadata")
        machine = exported.get("source_machine") if isinstance(exported, dict) else None
        origin = {
            "machine": machine,
            **{name: entry.get(name) for name in ("content_hash", "memory_type", "updated_at")},
        }
        metadata = describe(
            MEMORY_SERVICE,
            given=entry.get("metadata"),
            tags=[tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags,
            moment=moment_of(entry.get("created_at")) or moment_of(entry.get("created_at_iso")),
            origin=origin,
        )
        key = origin_key(MEMORY_SERVICE, str(entry.get("content_hash") or text))
        yield checked(Record(text=text, metadata=metadata, key=key, where=where))


def _entries(path: Path) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    """Yield each memory, with its place and with the object that it was listed in."""
    for where, value in values(path):
        name = _list_of(value)
        if name is not None:
            for number, entry in enumerate(value[name], 1):
                place = f"{name} {number}"
                yield place, entry if isinstance(entry, dict) else Problem(place, "it is not an object"), value
        elif isinstance(value, dict | Problem):
            yield where, value, {}
        else:
            yield where, Problem(where, "it is not an object"), {}


def _list_of(value: object) -> str | None:
    names = (name for name in _LISTS if isinstance(value, dict) and isinstance(value.get(name), list))
    return next(names, None)


def _sample(value: Any) -> dict[str, Any]:
    name = _list_of(value)
    found = _dicts(value[name])[:1] if name else [value]
    return found[0] if found and isinstance(found[0], dict) else {}


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(entry: Mapping[str, Any]) -> str | None:
    return next((entry[name] for name in ("memory", "content") if isinstance(entry.get(name), str)), None)
