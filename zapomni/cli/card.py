"""How a memory is shown: one line of it, and what stands under or over its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zapomni.cli.output import as_json
from zapomni.cli.text import on_one_line
from zapomni.models import tags_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from zapomni.cli.output import Console
    from zapomni.models import Memory


def row(memory_id: str, moment: datetime, text: str, console: Console) -> str:
    """Return a memory as the line that a pipe gets."""
    return "\t".join([memory_id, console.when(moment), on_one_line(text)])


def caption(memory_id: str, moment: datetime, metadata: Mapping[str, Any], console: Console, *notes: str) -> list[str]:
    """Return what a person weighs a memory by: when it was, where it came from, how it is tagged, and its id."""
    source = metadata.get("source")
    facts = [
        console.when(moment),
        on_one_line(str(source)) if source else "",
        *(f"#{on_one_line(tag)}" for tag in tags_of(metadata)),
        *notes,
    ]
    return [console.paint(f"  {' · '.join(filter(None, facts))}", "cyan"), console.paint(f"  {memory_id}", "dim")]


def heading(memory: Memory, console: Console) -> list[str]:
    """Return everything that is known of a memory but its text, a line for each."""
    facts = {
        "id": memory.id,
        "happened": console.when(memory.timestamp) if memory.timestamp else None,
        "stored": console.when(memory.created_at),
        "changed": console.when(memory.updated_at) if memory.updated_at else None,
        "deleted": console.when(memory.deleted_at) if memory.deleted_at else None,
        "version": str(memory.version) if memory.version > 1 else None,
        "key": memory.key,
        **{name: _value(name, value) for name, value in memory.metadata.items() if name != "timestamp"},
    }
    shown = {on_one_line(name): on_one_line(value) for name, value in facts.items() if value}
    return [f"{console.paint(f'{name}:', 'cyan')} {value}" for name, value in shown.items()]


def _value(name: str, value: Any) -> str:
    if name == "tags":
        return ", ".join(tags_of({"tags": value}))
    return value if isinstance(value, str) else " ".join(as_json(value).split())
