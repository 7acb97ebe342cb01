"""What is in a file: one text to remember, or in a ``.jsonl`` file one in each line.

A line of JSON is an object with a ``text`` (or ``content``), and may have ``metadata``, what is recognised of that also
beside it, and a ``key`` or ``id`` that names it when the line changes. Anything else makes the line a problem: to drop
it in silence would be a loss. Texts are UTF-8, or UTF-16 with its mark, and are kept to the letter.
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
ABOUT = "origin"
"""The metadata that tells which file it was, and what was in it."""
LONGEST_SOURCE = 512
RECOGNISED = ("tags", "source", "timestamp", "language")
"""The metadata that filters know, which many programs write beside the text."""
_FIELDS = frozenset({"text", "content", "metadata", "key", "id", *RECOGNISED})
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
    line: int | None = None
    """Where it stands in a file that holds several."""


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
    path = (metadata.get(ABOUT) or {}).get("path")
    return path if isinstance(path, str) else None


def digest_of(metadata: dict[str, Any]) -> str | None:
    """Return the digest of what a memory was made of."""
    digest = (metadata.get(ABOUT) or {}).get("sha256")
    return digest if isinstance(digest, str) else None


def shown(path: Path) -> str:
    """Return a path as text; a name that is none in UTF-8 gets replacement characters."""
    return os.fsencode(path).decode(errors="replace")


def passed_over(path: Path, number: int, reason: str) -> Skipped:
    """Return what is told of a line; which memory it once was is not known, so that none may be taken for deleted."""
    return Skipped(path, f"line {number} was passed over: {reason}", unread=True)


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
        text, metadata = _text(value), _metadata(value)
        if unknown := value.keys() - _FIELDS:
            names = ", ".join(sorted(unknown))
            raise ValueError(f'it has a field that is not known: {names}; what is to be kept belongs into "metadata"')
    except RecursionError:
        return passed_over(found.path, number, "it is nested too deeply")
    except ValueError as error:
        reason = "it is no JSON" if isinstance(error, UnicodeError | json.JSONDecodeError) else str(error)
        return passed_over(found.path, number, reason)
    name = value.get("key") or value.get("id") or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    document = _document(found, origin_key(ORIGIN, str(found.path), str(name)), text, line, metadata)
    return attrs.evolve(document, line=number)


def _text(value: dict[str, Any]) -> str:
    texts = [value[name] for name in ("text", "content") if value.get(name) is not None]
    if len(texts) == 2 and texts[0] != texts[1]:
        raise ValueError('it has both a "text" and a "content"')
    if not texts or not isinstance(texts[0], str) or not texts[0].strip() or len(texts[0]) > MAX_TEXT_LENGTH:
        raise ValueError('it has no "text" that can be remembered')
    return texts[0]


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a line, with what stands beside it."""
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ValueError('its "metadata" is no object')
    if taken := [name for name in (MARK, ABOUT) if name in metadata]:
        raise ValueError(f'its "metadata" has the name "{taken[0]}", which is for what is known of the file')
    beside = {name: value[name] for name in RECOGNISED if value.get(name) is not None}
    if twice := [name for name in beside if metadata.get(name, beside[name]) != beside[name]]:
        raise ValueError(f'it has another "{twice[0]}" beside its "metadata" than in it')
    return {**metadata, **beside}


def _document(found: Found, key: str, text: str, content: bytes, given: dict[str, Any]) -> Document:
    path, digest = shown(found.path), hashlib.sha256(content).hexdigest()
    language = _SUFFIXES.get(found.path.suffix.lower())
    metadata = {
        "source": path[-LONGEST_SOURCE:],
        **_moment(found.modified),
        **({"language": language} if language else {}),
        **given,
        MARK: True,
        ABOUT: {"path": path, "sha256": digest},
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
