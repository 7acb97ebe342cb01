"""What the words of a client mean as filters: dates above all."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED
from zapomni.errors import ValidationError
from zapomni.models import Filters
from zapomni.tools.filters import FilterArguments, filters_from


def test_nothing_asked_filters_nothing() -> None:
    assert not filters_from(FilterArguments())


def test_tags_source_and_metadata_are_taken_as_they_are() -> None:
    asked = FilterArguments(tags=("a",), all_tags=("b", "c"), source="chat", metadata={"mood": None})
    assert filters_from(asked) == Filters(tags=("a",), all_tags=("b", "c"), source="chat", metadata={"mood": None})


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("2026-05-01", datetime(2026, 5, 1, tzinfo=UTC)),
        ("20260501", datetime(2026, 5, 1, tzinfo=UTC)),
        ("2026-W18-5", datetime(2026, 5, 1, tzinfo=UTC)),
        ("2026-05-01T10:30", datetime(2026, 5, 1, 10, 30, tzinfo=UTC)),
        ("2026-05-01 10:30:00Z", datetime(2026, 5, 1, 10, 30, tzinfo=UTC)),
        ("2026-05-01T10:30:00+02:00", datetime(2026, 5, 1, 8, 30, tzinfo=UTC)),
    ],
)
def test_a_start_is_read_in_any_iso_form(text: str, start: datetime) -> None:
    assert filters_from(FilterArguments(date_from=text)).date_from == start


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2026-05-31", datetime(2026, 6, 1, tzinfo=UTC)),
        ("2026-05-31T00:00", datetime(2026, 5, 31, 0, 0, 0, 1, tzinfo=UTC)),
        ("2026-05-31T23:59:59Z", datetime(2026, 5, 31, 23, 59, 59, 1, tzinfo=UTC)),
        ("9999-12-31", datetime.max.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_an_end_takes_in_the_day_or_the_moment_that_it_names(text: str, end: datetime) -> None:
    assert filters_from(FilterArguments(date_to=text)).date_to == end


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "2026-13-01", "2026-02-30", "01.05.2026", "1714521600", "0001-01-01T00:00+05:00", "٢٠٢٦-٠٥-٠١"],
)
@pytest.mark.parametrize("name", ["date_from", "date_to"])
def test_what_is_no_date_is_named(name: str, text: str) -> None:
    asked = FilterArguments(date_from=text) if name == "date_from" else FilterArguments(date_to=text)
    with pytest.raises(ValidationError, match=f"^{name} must be an ISO 8601 date or time, such as 2026-05-01$"):
        filters_from(asked)


def test_one_day_may_be_both_start_and_end() -> None:
    filters = filters_from(FilterArguments(date_from="2026-05-01", date_to="2026-05-01"))
    assert filters.date_to == datetime(2026, 5, 2, tzinfo=UTC)


def test_an_end_before_its_start_is_refused() -> None:
    with pytest.raises(ValidationError, match="date_from must be before date_to"):
        filters_from(FilterArguments(date_from="2026-05-02", date_to="2026-05-01"))


@AT_ANY_SPEED
@given(st.text(max_size=20) | st.dates().map(str) | st.datetimes().map(str))
def test_any_text_is_a_moment_or_a_refusal(text: str) -> None:
    try:
        filters = filters_from(FilterArguments(date_from=text, date_to=text))
    except ValidationError:
        with pytest.raises(ValueError, match=r"isoformat|must be in|out of range"):
            datetime.fromisoformat(text)
    else:
        assert filters.date_from is not None
        assert filters.date_to is not None
        assert filters.date_from <= filters.date_to


@AT_ANY_SPEED
@given(day=st.dates(max_value=date(9999, 12, 30)), second=st.integers(0, 86_399))
def test_every_second_of_the_last_day_is_taken_in(day: date, second: int) -> None:
    end = filters_from(FilterArguments(date_to=day.isoformat())).date_to
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(seconds=second)
    assert end is not None
    assert moment < end <= moment + timedelta(days=1)


@AT_ANY_SPEED
@given(moment=st.datetimes(), offset=st.integers(-12, 14))
def test_a_moment_is_the_same_in_every_zone(moment: datetime, offset: int) -> None:
    assume(datetime(2, 1, 1) < moment < datetime(9998, 1, 1))
    here = moment.replace(tzinfo=UTC)
    there = here.astimezone(timezone(timedelta(hours=offset)))
    assert filters_from(FilterArguments(date_from=there.isoformat())) == filters_from(
        FilterArguments(date_from=here.isoformat())
    )
