"""The part of a memory's metadata that means something to the engine; everything is kept as given."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.errors import ValidationError
from zapomni.moments import read_moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


@attrs.frozen
class Recognised:
    """What can be filtered on."""

    tags: tuple[str, ...] = ()
    source: str | None = None
    timestamp: datetime | None = None


def recognise(metadata: Mapping[str, Any]) -> Recognised:
    """Read tags, source and timestamp. Raises `ValidationError` where one of them is not what it must be."""
    return Recognised(
        _tags(metadata.get("tags")), _source(metadata.get("source")), _timestamp(metadata.get("timestamp"))
    )


def _tags(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(tag, str) for tag in value):
        return tuple(dict.fromkeys(value))
    raise ValidationError("metadata.tags must be an array of strings")


def _source(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    raise ValidationError("metadata.source must be a string")


def _timestamp(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        return read_moment(value, UTC)  # type: ignore[arg-type]  # what is no text is a TypeError
    except (TypeError, ValueError, OverflowError):
        raise ValidationError("metadata.timestamp must be an ISO 8601 date or time, such as 2026-05-01T09:30") from None
