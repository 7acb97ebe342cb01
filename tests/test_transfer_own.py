"""Our own formats: out and in again, to the byte."""

from __future__ import annotations

import io
import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from zapomni.transfer import FORMATS, Problem, Record, Version, jsonl, markdown, read, sniff

if TYPE_CHECKING:
    from collections.abc import Iterable

AT_ANY_SPEED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

MOMENTS = st.datetimes(
    min_value=datetime(1970, 1, 2),  # hypothesis wants bounds without a zone
    timezones=st.just(UTC) | st.just(timezone(timedelta(hours=5, minutes=45))),
    max_value=datetime(9998, 1, 1),
)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
TEXTS = WORDS.filter(str.strip) | st.sampled_from(
    ["---\nx: 1\n---\n", "\u2028x\x85\x0b", "a\r\nb\n\n", "\ufeffx", "\n a"]
)
METADATA = st.dictionaries(
    WORDS,
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**40), 10**40)
        | st.floats(allow_nan=False, allow_infinity=False)
        | WORDS
        | st.sampled_from(["|", "- x", "# no", "[a, b]", "'q'", "2025-01-01", "yes"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)
VERSIONS = st.builds(Version, version=st.integers(1, 9), text=TEXTS, metadata=METADATA, created_at=st.none() | MOMENTS)
RECORDS = st.builds(
    Record,
    text=TEXTS,
    metadata=METADATA,
    id=st.none() | st.uuids().map(str),
    key=st.none() | WORDS,
    workspace=st.none() | WORDS,
    created_at=st.none() | MOMENTS,
    updated_at=st.none() | MOMENTS,
    version=st.integers(1, 2**31),
    history=st.lists(VERSIONS, max_size=2).map(tuple),
)


def written(records: Iterable[Record]) -> bytes:
    return jsonl.HEADER + b"".join(map(jsonl.encode, records))


def reread(content: bytes) -> list[Record | Problem]:
    return list(jsonl.read(io.BytesIO(content)))


@given(st.lists(RECORDS, max_size=4))
@AT_ANY_SPEED
def test_lines_come_back_equal_and_to_the_byte(records: list[Record]) -> None:
    content = written(records)
    again = reread(content)
    assert again == records
    assert written(record for record in again if isinstance(record, Record)) == content
    assert content.count(b"\n") == len(records) + 1


def test_a_line_is_what_the_description_says() -> None:
    record = Record(
        id="i",
        key="k",
        workspace="w",
        version=2,
        created_at=datetime(2026, 11, 18, 8, tzinfo=UTC),
        text="чай\n🍵",
        metadata={"b": 1.0, "a": {"z": 10**30, "y": None}},
        history=(Version(version=1, text="tea", metadata={}),),
    )
    assert jsonl.encode(record).decode() == (
        '{"id":"i","key":"k","workspace":"w","version":2,"created_at":"2026-11-18T08:00:00.000000Z",'
        '"text":"чай\\n🍵","metadata":{"a":{"y":null,"z":1000000000000000000000000000000},"b":1.0},'
        '"history":[{"version":1,"text":"tea","metadata":{}}]}\n'
    )


def test_the_order_of_names_in_metadata_changes_no_byte() -> None:
    one, two = ({"a": {"x": 1, "y": 2}, "b": 3}, {"b": 3, "a": {"y": 2, "x": 1}})
    assert jsonl.encode(Record(text="t", metadata=one)) == jsonl.encode(Record(text="t", metadata=two))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not valid JSON"),
        ('{"text":"a"} {"text":"b"}', "not valid JSON"),
        ("[]", "not an object"),
        ("{}", "no text"),
        ('{"text":5}', "text is not text"),
        ('{"text":" \\n"}', "no text in it"),
        ('{"text":"a","metadata":[]}', "metadata is not an object"),
        ('{"text":"a","metadata":{"x":NaN}}', "NaN"),
        ('{"text":"a","version":0}', "version is not a number"),
        ('{"text":"a","version":true}', "version is not a number"),
        ('{"text":"a","created_at":"soon"}', "created_at is not a moment"),
        ('{"text":"a","created_at":1700000000}', "created_at is not a moment"),
        ('{"text":"a","history":{}}', "history is not a list"),
        ('{"text":"a","history":[{}]}', "no text"),
        ('{"text":"a","colour":"red"}', "not known: colour"),
        ('{"text":"\\ud83d"}', "surrogate"),
        ('{"text":"a","metadata":{"\\uDE00":1}}', "surrogate"),
        ('{"text":' + "[" * 200_000, "nested"),
        ('{"text":"a","metadata":{"x":' + "9" * 5000 + "}}", "digits"),
    ],
)
def test_a_bad_line_is_reported_with_its_number_and_the_rest_comes_in(line: str, reason: str) -> None:
    good = Record(text="good")
    items = reread(written([good]) + line.encode() + b"\n\n" + jsonl.encode(good))
    assert items[::2] == [good, good]
    problem = items[1]
    assert isinstance(problem, Problem)
    assert problem.where == "line 3"
    assert reason in problem.reason


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert reread(jsonl.HEADER + b'{"text":"\\ud83c\\udf75"}') == [Record(text="🍵")]


def test_bytes_that_are_no_text_spoil_only_their_line() -> None:
    items = reread(jsonl.HEADER + b'{"text":"\xff"}\n{"text":"a"}\n')
    assert isinstance(items[0], Problem)
    assert items[1] == Record(text="a")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not valid JSON"),
        (b'{"text":"a"}\n', "header"),
        (b'{"format":"zapomni.jsonl","version":2}\n{"text":"a"}\n', "version 2"),
    ],
)
def test_without_its_header_nothing_is_guessed(content: bytes, reason: str) -> None:
    (problem,) = reread(content)
    assert isinstance(problem, Problem)
    assert reason in problem.reason


def test_a_line_without_end_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_LONGEST", 1000)
    items = reread(jsonl.HEADER + b'{"text":"' + b"x" * 5_000_000 + b'"}\n{"text":"a"}\n')
    assert isinstance(items[0], Problem)
    assert items[1] == Record(text="a")


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        jsonl.encode(Record(text="a", created_at=datetime(2026, 1, 1)))  # this is what is wrong


def peak_of_reading(path: Path, records: int) -> int:
    line = jsonl.encode(Record(text="word " * 400, metadata={"n": 1}))
    with path.open("wb") as file:
        file.write(jsonl.HEADER)
        file.writelines(line for _ in range(records))
    tracemalloc.start()
    try:
        assert sum(isinstance(item, Record) for item in read(path)) == records
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_file_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    short, long = (peak_of_reading(tmp_path / str(records), records) for records in (500, 5000))
    assert long < 2 * short


@pytest.mark.slow
def test_a_file_of_a_gigabyte_streams(tmp_path: Path) -> None:
    assert peak_of_reading(tmp_path / "big", 500_000) < 20 * 1024 * 1024


def without_history(record: Record) -> Record:
    return Record(
        text=record.text,
        metadata=record.metadata,
        id=record.id,
        key=record.key,
        workspace=record.workspace,
        created_at=record.created_at,
        version=record.version,
    )


@given(RECORDS)
@AT_ANY_SPEED
@example(Record(text="x", metadata={"a: b": 1, "- c": 2, "": 3, "d#": "e # f", '"': "\n"}))
def test_a_markdown_file_comes_back_equal_but_for_its_history(record: Record) -> None:
    record = without_history(record)
    content = markdown.encode(record)
    again = markdown.decode(content.decode())
    assert again == record
    assert markdown.encode(again) == content


def test_a_markdown_file_reads_well() -> None:
    record = Record(
        id="1f",
        workspace="work",
        created_at=datetime(2026, 11, 18, 8, tzinfo=UTC),
        text="Tea is ready.",
        metadata={"tags": ["tea", "Київ"], "place of birth": {"city": "Київ"}},
    )
    assert markdown.encode(record).decode() == (
        '---\nzapomni: 1\nid: "1f"\nworkspace: "work"\nversion: 1\ncreated_at: "2026-11-18T08:00:00.000000Z"\n'
        'metadata:\n  "place of birth": {"city": "Київ"}\n  tags: ["tea", "Київ"]\n---\n\nTea is ready.\n'
    )
    assert markdown.file_name(record) == Path("work", "tea-is-ready-20af2e45e35866cd.md")


def test_a_folder_of_markdown_is_recognised_and_read(tmp_path: Path) -> None:
    records = [Record(text=f"{word}\n", id=word, workspace="../Ä b") for word in ("one", "two", "三")]
    for record in records:
        path = tmp_path / markdown.file_name(record)
        assert tmp_path in path.resolve().parents
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(markdown.encode(record))
    (tmp_path / "readme.md").write_text("# hello")
    found = sniff(tmp_path)
    assert found is not None
    assert found.name == "zapomni.markdown"
    items = list(read(tmp_path))
    assert sorted(item.text for item in items if isinstance(item, Record)) == sorted(record.text for record in records)
    assert [item.where for item in items if isinstance(item, Problem)] == ["readme.md"]


@given(st.lists(st.tuples(TEXTS, WORDS), max_size=8, unique_by=lambda pair: pair[0]))
@AT_ANY_SPEED
def test_file_names_stay_inside_their_folder_and_apart(pairs: list[tuple[str, str]]) -> None:
    names = [markdown.file_name(Record(text=text, workspace=workspace)) for text, workspace in pairs]
    for name in names:
        assert len(name.parts) == 2
        assert not {"", ".", ".."} & set(name.parts)
        assert all(len(part.encode()) < 255 for part in name.parts)
    assert len({name.name for name in names}) == len(names)


HAND = """---
zapomni: 1
# written by hand
id: plain
created_at: 2026-11-18
metadata:
  tags:
  - a
  - b c
  note: >
    long
    text
  n: 5
---

body
"""


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_what_a_person_writes_is_understood(eol: str, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_bytes(HAND.replace("\n", eol).encode())
    (record,) = read(path)
    assert isinstance(record, Record)
    assert (record.id, record.text.strip()) == ("plain", "body")
    assert record.metadata == {"tags": ["a", "b c"], "note": "long text", "n": 5}


DEEP = "zapomni: 1\nmetadata:\n" + "\n".join(" " * depth + "a:" for depth in range(1, 3000))


@pytest.mark.parametrize(
    "front", ["zapomni: 2", "zapomni: 1\ncolour: red", "zapomni: 1\nversion: x", "zapomni: 1\ncreated_at: soon", DEEP]
)
def test_a_markdown_file_with_a_mistake_is_reported(front: str, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text(f"---\n{front}\n---\n\nbody\n")
    (problem,) = read(path, FORMATS["zapomni.markdown"])
    assert isinstance(problem, Problem)
    assert problem.where == "x.md"


def test_the_header_is_valid_json_and_marks_the_format(tmp_path: Path) -> None:
    header: dict[str, Any] = json.loads(jsonl.HEADER)
    assert header == {"format": "zapomni.jsonl", "version": 1}
    path = tmp_path / "anything.txt"
    path.write_bytes(written([Record(text="a")]))
    found = sniff(path)
    assert found is not None
    assert found.name == "zapomni.jsonl"
    assert list(read(path)) == [Record(text="a")]
