"""How a memory is introduced to a reader, wherever one is shown."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from zapomni.models import tags_of


def caption(moment: datetime, metadata: Mapping[str, Any], *notes: str) -> str:
    """Return what a reader weighs a memory by: when it was, where it came from, how it is tagged."""
    about = [f"{moment:%Y-%m-%d %H:%M}"]
    if source := metadata.get("source"):
        about.append(f"source: {source}")
    if tags := tags_of(metadata):
        about.append("tags: " + ", ".join(tags))
    return f"[{'; '.join([*about, *notes])}]"


def on_one_line(text: str) -> str:
    """Return a preview for a list: line breaks and tabs become spaces."""
    return " ".join(text.split())


def iso(moment: datetime | None) -> str | None:
    """Return a moment as structured answers hold it."""
    return None if moment is None else moment.isoformat()
