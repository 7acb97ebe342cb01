"""What is in a file: one text to remember, or in a ``.jsonl`` file one in each line.

A line of JSON is an object with a ``text`` (or ``content``), and may have ``metadata`` and a ``key`` or ``id`` that
names it when the line changes. Texts are UTF-8, or UTF-16 with its mark, and are kept to the letter.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.cli.given import MOST_BYTES
from zapomni.cli.walk import Found, Skipped
from zapomni.models import MAX_TEXT_LENGTH
from zapomni.transfer.records import origin_key

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

ORIGIN = "file"
MARK = "ingested"
"""The metadata that tells memories of files from others. As a truth value it adds no word to what is searched."""
LONGEST_SOURCE = 512
_HEAD = 8192
_OURS = b'"format":"zapomni.jsonl"'
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LANGUAGES = {
    "bash": "sh bash",
    "c": "c h",
    "c++": "cc cpp cxx hpp hh",
    "c#": "cs",
    "css": "css scss less",
    "go": "go",
    "html": "html htm",
    "java": "java",
    "javascript": "js mjs cjs jsx",
    "json": "json jsonl",
    "kotlin": "kt kts",
    "lua": "lua",
    "markdown": "md markdown",
    "php": "php",
    "python": "py pyi",
    "restructuredtext": "rst",
    "ruby": "rb",
    "rust": "rs",
    "sql": "sql",
    "swift": "swift",
    "toml": "toml",
    "typescript": "ts tsx",
    "xml": "xml",
    "yaml": "yml yaml",
}
_SUFFIXES = {f".{suffix}": name for name, suffixes in _LANGUAGES.items() for suffix in suffixes.split()}


@attrs.frozen
class Document:
    """A text that is to be a memory, under a key that stays the same while the text changes."""

    key: str
    text: str
    digest: str
    metadata: dict[str, Any]


def documents(found: Found) -> Generator[Document | Skipped]:
    """Yield what is in a file; what cannot be a memory is told, not raised."""
    try:
        if found.path.suffix.lower() == ".jsonl":
            yield from _lines(found)
        else:
            yield _whole(found)
    except OSError as error:
        yield Skipped(found.path, f"cannot be read: {error.strerror}", unread=True)


def path_of(metadata: dict[str, Any]) -> str | None:
    """Return the path of the file that a memory was made of."""
    path = (metadata.get("origin") or {}).get("path")
    return path if isinstance(path, str) else None


def digest_of(metadata: dict[str, Any]) -> str | None:
    """Return the digest of what a memory was made of."""
    digest = (metadata.get("origin") or {}).get("sha256")
    return digest if isinstance(digest, str) else None


def shown(path: Path) -> str:
    """Return a path as text; a name that is none in UTF-8 gets replacement characters."""
    return os.fsencode(path).decode(errors="replace")


def _whole(found: Found) -> Document | Skipped:
    if found.size > MOST_BYTES:
        return _too_long(found)
    with found.path.open("rb") as file:
        content = file.read(_HEAD)
        if _is_binary(content):
            return Skipped(found.path, "is not text")
        content += file.read(MOST_BYTES)
    try:
        text = content.decode(_encoding(content))
    except UnicodeDecodeError:
        return Skipped(found.path, "is not UTF-8 text")
    if "\0" in text:
        return Skipped(found.path, "is not text")
    if not text.strip():
        return Skipped(found.path, "is empty")
    if len(text) > MAX_TEXT_LENGTH:
        return _too_long(found)
    return _document(found, origin_key(ORIGIN, str(found.path)), text, content, {})


def _lines(found: Found) -> Iterator[Document | Skipped]:
    with found.path.open("rb") as file:
        number = 0
        while line := file.readline(MOST_BYTES):
            number += 1
            if number == 1 and _OURS in line:
                yield Skipped(found.path, "is an export, which 'zapomni import' takes in")
                return
            if not line.endswith(b"\n") and len(line) == MOST_BYTES:
                yield Skipped(
                    found.path, f"has a line that is too long, line {number}; the rest was not read", unread=True
                )
                return
            if line.strip():
                yield _line(found, line, number)


def _line(found: Found, line: bytes, number: int) -> Document | Skipped:
    try:
        value = json.loads(line.decode("utf-8-sig"))
        if not isinstance(value, dict):
            raise ValueError("it is no object")
        text = value.get("text", value.get("content"))
        metadata = value.get("metadata") or {}
        if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT_LENGTH:
            raise ValueError('it has no "text" that can be remembered')
        if not isinstance(metadata, dict):
            raise ValueError('its "metadata" is no object')
    except (ValueError, RecursionError) as error:
        reason = "it is no JSON" if isinstance(error, UnicodeError | json.JSONDecodeError) else str(error)
        return Skipped(found.path, f"line {number} was passed over: {reason}")
    name = value.get("key") or value.get("id") or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return _document(found, origin_key(ORIGIN, str(found.path), str(name)), text, line, metadata)


def _document(found: Found, key: str, text: str, content: bytes, given: dict[str, Any]) -> Document:
    path, digest = shown(found.path), hashlib.sha256(content).hexdigest()
    language = _SUFFIXES.get(found.path.suffix.lower())
    metadata = {
        "source": path[-LONGEST_SOURCE:],
        **_moment(found.modified),
        **({"language": language} if language else {}),
        **given,
        MARK: True,
        "origin": {"path": path, "sha256": digest},
    }
    return Document(key, text, digest, metadata)


def _moment(modified: float) -> dict[str, str]:
    try:
        return {"timestamp": datetime.fromtimestamp(int(modified), UTC).isoformat()}
    except (ValueError, OverflowError, OSError):  # a clock that was far off
        return {}


def _encoding(content: bytes) -> str:
    return next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")


def _is_binary(head: bytes) -> bool:
    return b"\0" in head and _encoding(head) != "utf-16"


def _too_long(found: Found) -> Skipped:
    return Skipped(found.path, f"is longer than {MAX_TEXT_LENGTH:,} characters")
