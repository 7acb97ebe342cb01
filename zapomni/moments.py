"""What a written date or time stands for.

A date without a time is somebody's day: when it begins depends on the zone, and where clocks change it is not 24 hours
long. So whoever reads one says whose it is, and a day is counted on before it becomes a moment.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo

LAST_MOMENT = datetime.max.replace(tzinfo=UTC)


def read_moment(text: str, zone: tzinfo | None, *, end: bool = False) -> datetime:
    """Return the moment, in UTC, of an ISO 8601 date or time, which is in `zone` unless it names its own.

    The zone None is this machine's. With `end`, return the first moment after the day or the time that is named.
    Raises `ValueError` for what is neither, and `OverflowError` where UTC has no such year.
    """
    moment = datetime.fromisoformat(text)
    last = end and moment.year == LAST_MOMENT.year
    try:
        if end:
            moment += timedelta(days=1) if _is_bare_date(text) else timedelta(microseconds=1)
        if moment.tzinfo is None and zone is not None:
            moment = moment.replace(tzinfo=zone)
        return moment.astimezone(UTC)  # what has no zone is taken for local time, by the rules of its own day
    except (ValueError, OverflowError):
        if last:  # 9999-12-31 is how many say "no end", and there is no day after it
            return LAST_MOMENT
        raise


def _is_bare_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
