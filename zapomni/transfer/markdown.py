"""Memories for people: a folder of Markdown files, one a memory, the text below a few lines about it.

::

    ---
    zapomni: 1
    id: "0198…"
    version: 1
    created_at: "2026-11-18T08:00:00.000000Z"
    metadata:
      source: "book"
      tags: ["tea", "Kyiv"]
    ---

    The text, as it was given.

Every value is written as JSON, which is YAML, too, so other programs read it and nothing loses its type; a person
may write plain YAML instead. The text begins after one empty line and ends before one last newline. Earlier
versions are left out: the lossless form is ``zapomni.jsonl``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zapomni.models import DEFAULT_WORKSPACE
from zapomni.transfer import frontmatter
from zapomni.transfer.records import Item, Problem, Record, checked, iso, moment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "zapomni.markdown"
VERSION = 1
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def encode(record: Record) -> bytes:
    """Return the file that stands for a record, without its history. Raises `ValueError` for a NaN."""
    about = {
        "zapomni": VERSION,
        "id": record.id,
        "key": record.key,
        "workspace": record.workspace,
        "version": record.version,
        "created_at": record.created_at and iso(record.created_at),
        "updated_at": record.updated_at and iso(record.updated_at),
    }
    lines = [f"{name}: {_dumps(value)}" for name, value in about.items() if value is not None]
    if record.metadata:
        lines.append("metadata:")
        lines += [f"  {_name(name)}: {_dumps(value)}" for name, value in sorted(record.metadata.items())]
    return "\n".join(["---", *lines, "---", "", record.text, ""]).encode()


def decode(text: str, where: str = "") -> Record:
    """Return the record that a file's text stands for. Raises `ValueError`."""
    values, body = frontmatter.split(text) or ({}, "")
    if not is_ours(values):
        raise ValueError("it does not begin with the lines that a memory has")
    if values.pop("zapomni") != VERSION:
        raise ValueError(f"it has another version than {VERSION}, which is what this program reads")
    names = ("id", "key", "workspace", "version", "created_at", "updated_at", "metadata")
    unknown = values.keys() - set(names)
    if unknown:
        raise ValueError(f"it has a field that is not known: {', '.join(sorted(unknown))}")
    name, key, workspace, version, created_at, updated_at, metadata = (values.get(field) for field in names)
    created, updated = moment_of(created_at), moment_of(updated_at)
    for field, given, moment in (("created_at", created_at, created), ("updated_at", updated_at, updated)):
        if given is not None and moment is None:
            raise ValueError(f"{field} is not a moment in ISO 8601")
    if version is not None and (not isinstance(version, int) or version < 1):
        raise ValueError("version is not a number from 1 on")
    if metadata is not None and not isinstance(metadata, dict):
        raise ValueError("metadata is not a list of names and values")
    return Record(
        text=body.removeprefix("\r").removeprefix("\n").removesuffix("\n"),
        metadata=metadata or {},
        id=None if name is None else str(name),
        key=None if key is None else str(key),
        workspace=None if workspace is None else str(workspace),
        version=version or 1,
        created_at=created,
        updated_at=updated,
        where=where,
    )


def file_name(record: Record) -> Path:
    """Return where in the folder a record belongs: its workspace, its first words, and what makes it unique."""
    unique = hashlib.sha256((record.id or record.key or record.text).encode()).hexdigest()[:16]
    words = _slug(record.text[:200])
    return Path(
        _slug(record.workspace or DEFAULT_WORKSPACE) or "_", f"{words}-{unique}.md" if words else f"{unique}.md"
    )


def read(path: Path) -> Iterator[Item]:
    """Read a file, or every Markdown file of a folder; files that are not ours are reported."""
    for where, file in files(path):
        text = file_text(where, file)
        if isinstance(text, Problem):
            yield text
            continue
        try:
            yield checked(decode(text, where))
        except ValueError as error:
            yield Problem(where, str(error))


def is_ours(values: dict[str, Any]) -> bool:
    """Tell whether a file's front matter marks it as a memory of ours."""
    return "zapomni" in values


def files(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield each Markdown file with its place, in order; hidden folders and links are passed over."""
    if path.is_file():
        yield path.name, path
        return
    for folder, below, names in os.walk(path, onerror=_raise):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            if name.endswith((".md", ".markdown")) and not name.startswith("."):
                file = Path(folder, name)
                yield str(file.relative_to(path)), file


def file_text(where: str, file: Path) -> str | Problem:
    """Return what a file holds, line ends as they are."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        return Problem(where, "it is not UTF-8 text")
    except OSError as error:
        return Problem(where, f"it cannot be read: {error.strerror or error}")


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True)


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _dumps(name)


def _slug(text: str) -> str:
    return "-".join(re.findall(r"[^\W_]+", text.lower()))[:40].strip("-")


def _raise(error: OSError) -> None:
    raise error
