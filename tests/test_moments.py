"""Written dates as moments: whose day it is, and how long."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED
from tests.zones import machine_in
from zapomni.moments import LAST_MOMENT, read_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

NEW_YORK = ZoneInfo("America/New_York")


@pytest.fixture(params=["given", "this machine's"])
def new_york(request: pytest.FixtureRequest) -> Iterator[ZoneInfo | None]:
    """A zone whose clocks change, named or as that of the machine."""
    if request.param == "given":
        yield NEW_YORK
        return
    with machine_in(NEW_YORK.key):
        yield None


@pytest.mark.parametrize(
    ("text", "begins", "hours"),
    [
        ("2026-01-15", datetime(2026, 1, 15, 5, tzinfo=UTC), 24),
        ("2026-07-15", datetime(2026, 7, 15, 4, tzinfo=UTC), 24),
        ("2026-03-08", datetime(2026, 3, 8, 5, tzinfo=UTC), 23),
        ("2026-11-01", datetime(2026, 11, 1, 4, tzinfo=UTC), 25),
    ],
)
def test_a_day_is_as_long_as_its_clocks_make_it(
    new_york: ZoneInfo | None, text: str, begins: datetime, hours: int
) -> None:
    assert read_moment(text, new_york) == begins
    assert read_moment(text, new_york, end=True) == begins + timedelta(hours=hours)


def test_a_time_follows_the_rules_of_its_own_day(new_york: ZoneInfo | None) -> None:
    assert read_moment("2026-01-15T12:00", new_york) == datetime(2026, 1, 15, 17, tzinfo=UTC)
    assert read_moment("2026-07-15T12:00", new_york) == datetime(2026, 7, 15, 16, tzinfo=UTC)
    assert read_moment("2026-07-15T12:00+02:00", new_york) == datetime(2026, 7, 15, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", ["9999-12-31", "9999-12-31T23:59:59", "9999-12-31T23:59:59.999999Z"])
def test_the_last_day_has_no_end(new_york: ZoneInfo | None, text: str) -> None:
    assert read_moment(text, new_york, end=True) == LAST_MOMENT


@pytest.mark.parametrize("end", [False, True])
def test_a_moment_that_utc_has_no_year_for_is_refused(end: bool) -> None:
    with pytest.raises((ValueError, OverflowError)):
        read_moment("0001-01-01T00:00+05:00", None, end=end)


@AT_ANY_SPEED
@given(st.dates(date(1800, 1, 1), date(2200, 1, 1)), st.sampled_from(["Asia/Tokyo", "America/Santiago", "Asia/Beirut"]))
def test_days_follow_each_other_without_a_gap(day: date, zone: str) -> None:
    following = day + timedelta(days=1)
    assert read_moment(str(day), ZoneInfo(zone), end=True) == read_moment(str(following), ZoneInfo(zone))
