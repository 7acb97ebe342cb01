"""The formats that can be read: which one a file has is told by what is in it, never by its name."""

from __future__ import annotations

import itertools
from contextlib import closing
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.errors import ValidationError
from zapomni.transfer import chats, exports, frontmatter, graph, jsonl, markdown, notes
from zapomni.transfer.documents import as_text, values
from zapomni.transfer.records import Item, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_HEAD = 1024 * 1024
_SAMPLES = 100


@attrs.frozen
class Format:
    """A format by name, with what tells it from others and how it is read."""

    name: str
    title: str
    read: Callable[[Path], Iterator[Item]]
    marks: Callable[[object], bool] | None = None
    """Judges a file's first JSON value."""
    front: Callable[[dict[str, Any]], bool] | None = None
    """Judges the front matter of a Markdown file."""


def _read_jsonl(path: Path) -> Iterator[Item]:
    with path.open("rb") as file:
        yield from jsonl.read(file)


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format(jsonl.NAME, "Zapomni's own JSON Lines", _read_jsonl, marks=jsonl.is_header),
        Format(markdown.NAME, "Zapomni's Markdown files", markdown.read, front=markdown.is_ours),
        Format(graph.NAME, "the official MCP memory server", graph.read, marks=graph.is_graph),
        Format(chats.CHATGPT, "conversations with ChatGPT", chats.read_chatgpt, marks=chats.is_chatgpt),
        Format(chats.CLAUDE, "conversations with Claude", chats.read_claude, marks=chats.is_claude),
        Format(
            exports.MEMORY_SERVICE, "mcp-memory-service", exports.read_memory_service, marks=exports.is_memory_service
        ),
        Format(exports.MEM0, "mem0 and OpenMemory", exports.read_mem0, marks=exports.is_mem0),
        Format(notes.NAME, "notes of basic-memory", notes.read, front=notes.is_note),
    )
}


def sniff(path: Path) -> Format | None:
    """Return the format of a file, an archive or a folder, or None if it is none of ours. Raises `OSError`."""
    if path.is_dir():
        return _sniff_values(path) or _sniff_front(path)
    with path.open("rb") as file, as_text(file) as decoded:
        head = decoded.read(_HEAD)
    if head.startswith("---"):
        return _sniff_front(path)
    found = _sniff_values(path)
    return FORMATS[graph.NAME] if found is None and graph.has_signs(head) else found


def read(path: Path, format: Format | None = None) -> Iterator[Item]:
    """Return an iterator over the records of a file and the problems with it, in order.

    Nothing about one entry ends the reading. Raises `OSError` if the file cannot be opened, at the latest when the
    first item is asked for, and `ValidationError` if no format is given and none is recognised.
    """
    format = format or sniff(path)
    if format is None:
        raise ValidationError(f"{path} is in none of the formats that can be imported: {', '.join(FORMATS)}")
    return format.read(path)


def _sniff_values(path: Path) -> Format | None:
    with closing(values(path)) as found:
        _, value = next(found, ("", None))
    return next((format for format in FORMATS.values() if format.marks and format.marks(value)), None)


def _sniff_front(path: Path) -> Format | None:
    for where, file in itertools.islice(markdown.files(path), _SAMPLES):
        text = markdown.file_text(where, file)
        if isinstance(text, Problem):
            continue
        try:
            parts = frontmatter.split(text)
        except ValueError:
            continue
        for format in FORMATS.values():
            if parts and format.front and format.front(parts[0]):
                return format
    return None
