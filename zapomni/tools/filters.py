"""The filters that several tools take, and what the words of a client mean by them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from zapomni.errors import ValidationError
from zapomni.models import Filters
from zapomni.moments import read_moment
from zapomni.tools.schema import argument


@attrs.frozen(kw_only=True)
class FilterArguments:
    """The part of a request class that filters."""

    tags: tuple[str, ...] = argument("With any of these tags.", default=())
    all_tags: tuple[str, ...] = argument("With all of these tags.", default=())
    source: str | None = argument("From this source.", default=None)
    date_from: str | None = argument("From this ISO 8601 date or time on.", default=None)
    date_to: str | None = argument("Up to this date (that whole day) or time.", default=None)
    metadata: Mapping[str, Any] | None = argument("With these metadata values.", default=None)


def filters_from(request: FilterArguments) -> Filters:
    """Read a request's filters. Raises `ValidationError` for a date that is none."""
    start = None if request.date_from is None else _moment("date_from", request.date_from)
    end = None if request.date_to is None else _moment("date_to", request.date_to, end=True)
    if start and end and start >= end:
        raise ValidationError("date_from must be before date_to")
    return Filters(
        tags=request.tags,
        all_tags=request.all_tags,
        source=request.source,
        date_from=start,
        date_to=end,
        metadata=dict(request.metadata or {}),
    )


def _moment(name: str, text: str, *, end: bool = False) -> datetime:
    """Read a date or a time, in UTC unless it says otherwise; a bare date stands for that whole day."""
    try:
        return read_moment(text, UTC, end=end)
    except (ValueError, OverflowError):
        raise ValidationError(f"{name} must be an ISO 8601 date or time, such as 2026-05-01") from None
