"""Text for people: nothing that a terminal obeys, measured as it is shown, dates and sizes as they are said."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.zones import machine_in
from zapomni.cli.output import as_json
from zapomni.cli.text import ago, clip, columns, counted, on_one_line, printable, size, width_of, wrap

NOW = datetime(2026, 11, 18, 9, 30, tzinfo=timezone(timedelta(hours=2)))  # a Wednesday
ANY_TEXT = st.text(st.characters())  # surrogates included, as a file's name or an argument may hold them


@given(ANY_TEXT)
def test_nothing_printable_is_a_control(text: str) -> None:
    shown = printable(text)
    assert all(unicodedata.category(character) not in ("Cc", "Cs") for character in shown if character not in "\n\t")
    shown.encode()  # no terminal has a byte for half a surrogate pair


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_what_is_harmless_stays(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("over\rwritten", "over\\x0dwritten"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("line\nand\ttab", "line\nand\ttab"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_a_terminal_obeys_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY_TEXT)
def test_one_line_is_one_line(text: str) -> None:
    assert len(on_one_line(text).splitlines()) <= 1


@pytest.mark.parametrize(("text", "width"), [("", 0), ("abc", 3), ("記憶", 4), ("e\u0301", 1), ("naïve", 5)])
def test_width_is_what_a_terminal_needs(text: str, width: int) -> None:
    assert width_of(text) == width


@given(ANY_TEXT.map(on_one_line), st.integers(2, 40))
def test_a_clipped_line_fits_and_begins_alike(text: str, width: int) -> None:
    shown = clip(text, width)
    assert width_of(shown) <= width
    assert shown == text or text.startswith(shown.removesuffix("…"))


@given(ANY_TEXT.map(printable), st.integers(2, 40))
def test_wrapped_lines_fit_and_lose_nothing_but_blanks(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(width_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_line_breaks_and_indents_of_a_text_stay() -> None:
    assert wrap("one\n\n  two three", 8) == ["one", "", "  two", "three"]


def test_columns_line_up_and_numbers_stand_at_the_right() -> None:
    assert columns([("a", "1"), ("記憶", "10")]) == ["a      1", "記憶  10"]
    assert columns([]) == []


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (NOW, "just now"),
        (NOW - timedelta(seconds=61), "1 minute ago"),
        (NOW - timedelta(minutes=59), "59 minutes ago"),
        (NOW - timedelta(hours=2), "today 07:30"),
        (NOW - timedelta(hours=10), "yesterday 23:30"),
        (NOW - timedelta(days=3), "Sunday 09:30"),
        (NOW - timedelta(days=30), "19 Oct"),
        (NOW - timedelta(days=400), "14 Oct 2025"),
        (NOW + timedelta(hours=2), "today 11:30"),
        (NOW + timedelta(days=30), "18 Dec"),
        (datetime(2026, 11, 17, 23, 0, tzinfo=UTC), "today 01:00"),
    ],
)
def test_dates_are_as_people_say_them(moment: datetime, said: str) -> None:
    assert ago(moment, NOW, NOW.tzinfo) == said


def test_a_date_is_told_in_the_time_of_its_own_season() -> None:
    january = datetime(2026, 1, 15, 12, tzinfo=UTC)
    with machine_in("America/New_York"):
        assert ago(datetime(2025, 7, 15, 4, tzinfo=UTC), january.astimezone()) == "15 Jul 2025"


def test_sizes_and_counts_are_as_people_say_them() -> None:
    assert [size(n) for n in (0, 999, 1500, 2_000_000, 3.2e9, 5e12)] == [
        "0 bytes", "999 bytes", "1.5 kB", "2.0 MB", "3.2 GB", "5.0 TB",
    ]  # fmt: skip
    assert [counted(1, "memory", "memories"), counted(2000, "memory", "memories")] == ["1 memory", "2,000 memories"]


@given(st.recursive(st.none() | st.booleans() | st.integers() | ANY_TEXT, lambda inner: st.lists(inner, max_size=3)))
def test_json_is_exact_and_no_terminal_obeys_it(value: object) -> None:
    for encoding in ("utf-8", "ascii"):
        text = as_json(value, encoding=encoding)
        assert json.loads(text) == value
        assert not any("\x7f" <= character <= "\x9f" or character == "\x1b" for character in text)
        text.encode(encoding)


def test_attrs_objects_are_json_objects() -> None:
    @attrs.frozen
    class Thing:
        name: str
        moment: datetime

    assert json.loads(as_json([Thing("a", NOW)])) == [{"name": "a", "moment": "2026-11-18T09:30:00+02:00"}]
