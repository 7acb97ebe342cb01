"""The lines between two ``---`` at the top of a Markdown file: the part of YAML that people write there.

Understood are names with plain or quoted values, lists in brackets or as dashes, blocks of text, and names nested
by indentation. A value that is JSON is read as JSON, and everything else stays the text that it is: unlike YAML,
no date turns into an object and no country code into a truth value.
"""

from __future__ import annotations

import json
import re
from typing import Any

_NAME = re.compile(r"""("(?:[^"\\]|\\.)*"|[^\s:#"'\[{-][^:#]*?|-[^\s:][^:#]*?)\s*:(?:\s+|$)(.*)""", re.DOTALL)
_COMMENT = re.compile(r"\s+#.*", re.DOTALL)


def split(text: str) -> tuple[dict[str, Any], str] | None:
    """Return the values and the text behind them, or None if there are none. Raises `ValueError`."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if end is None:
        return None
    try:
        values = _mapping([line.rstrip("\r") for line in lines[1:end]])
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return values, "\n".join(lines[end + 1 :])


def _mapping(lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while lines:
        line = lines.pop(0)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _NAME.fullmatch(line)
        if match is None:
            raise ValueError(f"this line is not understood: {line.strip()}")
        block = []
        while lines and (not lines[0].strip() or lines[0][0] in " \t" or lines[0].startswith("- ")):
            block.append(lines.pop(0))
        name = json.loads(match[1]) if match[1].startswith('"') else match[1]
        found[name] = _value(match[2].strip(), block)
    return found


def _value(text: str, block: list[str]) -> Any:
    inner = [line for line in block if line.strip()]
    if not inner:
        return scalar(text) if text else None
    edge = len(inner[0]) - len(inner[0].lstrip())
    if text[:1] in ("|", ">"):
        return (" " if text[0] == ">" else "\n").join(line[edge:] for line in block).rstrip()
    if text:
        raise ValueError(f"this value goes on in a way that is not understood: {text}")
    if inner[0].lstrip().startswith("- "):
        return [scalar(line.strip().removeprefix("- ").strip()) for line in inner]
    return _mapping([line[edge:] for line in inner])


def scalar(text: str) -> Any:
    """Read one value."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        pass
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    plain = _COMMENT.sub("", text)
    if plain.startswith("[") and plain.endswith("]"):
        return [scalar(item.strip()) for item in plain[1:-1].split(",") if item.strip()]
    return plain if plain == text else scalar(plain)


def _refuse(name: str) -> None:
    raise ValueError(name)
