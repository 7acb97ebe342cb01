"""Folders of basic-memory: each note becomes one memory, its text as it stands.

A note is a Markdown file. Its front matter may have ``title`` (else the file's name), ``type`` (else note),
``tags`` (a list, or one text with commas), ``permalink``, and whatever else its owner put there. Anywhere in the
text, a list item ``[category] content #tag (context)`` is an observation and ``relation [[Other note]] (context)``
a relation; a relation's name of several words stands in quotes, and every other ``[[link]]`` means links_to.

The tags of observations join the note's own, and categories and relations go to the metadata; the text keeps all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from zapomni.transfer import frontmatter
from zapomni.transfer.markdown import file_text, files, is_ours
from zapomni.transfer.records import Item, Problem, Record, checked, describe, moment_of, origin_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "basic-memory"

_ITEM = re.compile(r"^[ \t]*[-*+][ \t]+(.*)$", re.MULTILINE)
# One-character brackets are tasks, and digits with a colon the time in a transcript.
_OBSERVATION = re.compile(r"\[(?![0-9:.,\s-]+\])([^\[\]()]{2,})\]\s+(.+)")
_RELATION = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s\["']+))\s*\[\[([^\[\]]+)\]\]\s*(?:\(([^()]*)\))?""")
_LINK = re.compile(r"\[\[([^\[\]]+)\]\]")
_TAG = re.compile(r"(?<!\S)#([^\s#()]+)")


def is_note(values: dict[str, Any]) -> bool:
    """Tell whether a file's front matter is that of a note of basic-memory."""
    return "permalink" in values or {"title", "type"} <= values.keys()


def read(path: Path) -> Iterator[Item]:
    """Read every note of a folder, or one."""
    root = str((path if path.is_dir() else path.parent).resolve())
    for where, file in files(path):
        text = file_text(where, file)
        if isinstance(text, Problem):
            yield text
            continue
        try:
            values, body = frontmatter.split(text) or ({}, text)
        except ValueError as error:
            yield Problem(where, f"its front matter stays in the text: {error}", lost=False)
            values, body = {}, text
        if is_ours(values):
            yield Problem(where, "it is a memory of Zapomni's and no note")
        else:
            yield _note(values, body, where, root, file.stem)


def _note(values: dict[str, Any], body: str, where: str, root: str, stem: str) -> Item:
    title = str(values.pop("title", None) or stem)
    kind, permalink, tags = values.pop("type", None), values.pop("permalink", None), values.pop("tags", None)
    observed, relations = _observations(body), _relations(body)
    words = [tag.strip().removeprefix("#") for tag in tags.split(",")] if isinstance(tags, str) else tags
    metadata = describe(
        NAME,
        given={**values, "title": title, **({"relations": relations} if relations else {})},
        tags=[*(words if isinstance(words, list) else []), *(tag for _, found in observed for tag in found)],
        moment=next(filter(None, (moment_of(values.get(name)) for name in ("created", "date", "modified"))), None),
        origin={
            "type": kind,
            "permalink": permalink,
            "path": where,
            "categories": list(dict.fromkeys(category for category, _ in observed if category)),
        },
    )
    text = body.strip("\r\n")
    heading = text.partition("\n")[0].strip()
    if text and heading.lstrip("# ").casefold() != title.casefold():
        text = f"# {title}\n\n{text}"
    return checked(
        Record(text=text, metadata=metadata, key=origin_key(NAME, root, str(permalink or where)), where=where)
    )


def _observations(body: str) -> list[tuple[str | None, list[str]]]:
    """Return category and tags of every list item that is an observation."""
    found = []
    for item in _ITEM.findall(body):
        match = _OBSERVATION.fullmatch(item.strip())
        tags = _TAG.findall(item)
        if match or tags:
            found.append((match[1].strip() if match else None, tags))
    return found


def _relations(body: str) -> list[dict[str, str]]:
    relations: list[dict[str, str]] = []
    for line in body.split("\n"):
        item = _ITEM.fullmatch(line)
        match = _RELATION.fullmatch(item[1].strip()) if item else None
        if match is None:
            found = [{"relation": "links_to", "to": target.strip()} for target in _LINK.findall(line)]
        else:
            context = {"context": match[5].strip()} if match[5] else {}
            found = [{"relation": match[1] or match[2] or match[3], "to": match[4].strip(), **context}]
        relations += [relation for relation in found if relation not in relations]
    return relations
