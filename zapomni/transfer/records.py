"""What passes between a file and the store: records, and problems that say where and why."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from zapomni.models import MAX_TEXT_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "transfer.zapomni")
_MILLISECONDS_FROM = 100_000_000_000
"""A count of seconds this large lies after the year 5000: it counts milliseconds."""


@attrs.frozen(kw_only=True)
class Version:
    """What a memory held before it was updated."""

    version: int
    text: str
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    created_at: datetime | None = None
    """When this version was stored."""


@attrs.frozen(kw_only=True)
class Record:
    """A memory outside the store. When it happened stands in its metadata, as ``timestamp``."""

    text: str
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    id: str | None = None
    """The id that it had; only our own formats bring one."""
    key: str | None = None
    """Its own, or one derived from where it came from: to import it again replaces it, or changes nothing."""
    workspace: str | None = None
    created_at: datetime | None = None
    """When it was first stored; only our own formats bring it."""
    updated_at: datetime | None = None
    """When this version was stored, where it is not the first."""
    version: int = 1
    history: tuple[Version, ...] = ()
    """Earlier versions, the oldest first."""
    where: str = attrs.field(default="", eq=False)
    """The place it was read from, for whoever has to report it."""


@attrs.frozen
class Problem:
    """Something that could not be read as it should."""

    where: str
    reason: str
    lost: bool = True
    """False if it could be mended: then everything that was there has come in."""


type Item = Record | Problem


def checked(record: Record) -> Item:
    """Return the record, or why its text cannot be a memory."""
    if not record.text.strip():
        return Problem(record.where, "there is no text in it")
    if len(record.text) > MAX_TEXT_LENGTH:
        return Problem(record.where, f"its text has {len(record.text):,} characters; {MAX_TEXT_LENGTH:,} is the most")
    return record


def origin_key(origin: str, *parts: str) -> str:
    """Return the key of something from elsewhere: the same for the same origin, on every machine and day."""
    return f"{origin}:{uuid.uuid5(_NAMESPACE, json.dumps([origin, *parts]))}"


def describe(
    source: str,
    *,
    given: object = None,
    tags: Iterable[object] = (),
    moment: datetime | None = None,
    origin: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the metadata of something from elsewhere.

    What its owner gave it stays at the top, where filters find it. A recognised name that holds something else
    than we recognise moves to ``origin``, beside whatever the other program noted for itself.
    """
    metadata = dict(given) if isinstance(given, dict) else {}
    beside = {name: value for name, value in (origin or {}).items() if value not in (None, "", [], {})}
    words = metadata.get("tags", [])
    if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        beside["tags"] = metadata.pop("tags")
        words = []
    if "timestamp" in metadata and (not isinstance(metadata["timestamp"], str) or not moment_of(metadata["timestamp"])):
        beside["timestamp"] = metadata.pop("timestamp")
    for name in ("source", "language"):
        if name in metadata and not isinstance(metadata[name], str):
            beside[name] = metadata.pop(name)
    words = list(
        dict.fromkeys([*words, *(str(tag) for tag in tags if isinstance(tag, str | int) and str(tag).strip())])
    )
    metadata.setdefault("source", source)
    if words:
        metadata["tags"] = words
    if moment is not None:
        metadata.setdefault("timestamp", iso(moment))
    if beside:
        metadata["origin"] = {**beside, **metadata["origin"]} if isinstance(metadata.get("origin"), dict) else beside
    return metadata


def iso(moment: datetime) -> str:
    """Return a moment as text that sorts: in UTC, to the microsecond."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment_of(value: object) -> datetime | None:
    """Read a moment as other programs write it: ISO 8601, or seconds or milliseconds since 1970; else None."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return moment.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS_FROM else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
