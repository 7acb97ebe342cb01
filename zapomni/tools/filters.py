"""The filters that several tools take, and what the words of a client mean by them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import attrs

from zapomni.errors import ValidationError
from zapomni.models import Filters
from zapomni.tools.schema import argument

_LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


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
    start = None if request.date_from is None else _moment("date_from", request.date_from, end_of_day=False)
    end = None if request.date_to is None else _moment("date_to", request.date_to, end_of_day=True)
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


def _moment(name: str, text: str, *, end_of_day: bool) -> datetime:
    """Read a date or a time, in UTC unless it says otherwise; a bare date stands for that whole day."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValidationError(f"{name} must be an ISO 8601 date or time, such as 2026-05-01") from None
    if not end_of_day:
        return moment
    step = timedelta(days=1) if _is_bare_date(text) else timedelta(microseconds=1)
    # 9999-12-31 is how many say "no end", and there is no day after it.
    return moment + step if moment <= _LAST_MOMENT - step else _LAST_MOMENT


def _is_bare_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
