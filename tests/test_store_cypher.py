"""What a user gave is a value to the database, whatever it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zapomni.errors import ValidationError
from zapomni.store.connection import open_connection
from zapomni.store.cypher import decode_text, literal, render, rows

if TYPE_CHECKING:
    from zapomni.config import Settings
    from zapomni.store.connection import Connection

NASTY = [
    "",
    "\\",
    '"',
    "'",
    "`",
    "\\u0041",
    '\\"',
    "$x",
    "//",
    "/*",
    "*/",
    "\n",
    "\r",
    "\u2028",
    "\x00",
    "\x1a",
    "\x1a0",
]
TEXTS = st.lists(st.one_of(st.text(), st.sampled_from(NASTY), st.characters(codec="utf-8")), max_size=12).map("".join)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=30))
async def test_every_text_comes_back_as_it_went_in(store_settings: Settings, texts: list[str]) -> None:
    query = render("UNWIND range(0, size($texts) - 1) AS i RETURN $texts[i]", texts=texts)
    async with open_connection(store_settings) as connection:
        reply = await connection.write("GRAPH.QUERY", "{zapomni:cypher-test}:graph", query)
    assert [decode_text(cell) for (cell,) in rows(reply)] == texts


async def test_every_character_comes_back_as_it_went_in(connection: Connection) -> None:
    texts = [chr(code) for code in (*range(0x3000), 0xFEFF, 0xFFFE, 0xFFFF, 0x1F600, 0x10FFFF)]
    query = render("UNWIND range(0, size($texts) - 1) AS i RETURN $texts[i]", texts=texts)
    reply = await connection.write("GRAPH.QUERY", "{zapomni:cypher-test}:graph", query)
    assert [decode_text(cell) for (cell,) in rows(reply)] == texts


async def test_numbers_and_nothing_come_back_as_they_went_in(connection: Connection) -> None:
    values = [0, -1, 2**63 - 1, -(2**63) + 1, None]
    query = render("RETURN $values[0], $values[1], $values[2], $values[3], $values[4]", values=values)
    assert rows(await connection.write("GRAPH.QUERY", "{zapomni:cypher-test}:graph", query)) == [values]


@pytest.mark.parametrize("value", [2**63, -(2**63), float("nan"), float("inf"), [1, [float("-inf")]]])
def test_a_number_that_the_database_would_change_is_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        literal(value)


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**62), 2**62) | TEXTS, st.lists, max_leaves=20))
def test_a_literal_never_ends_early(value: object) -> None:
    """Outside of strings only brackets, commas, numbers and three words are left."""
    rendered, outside, inside, escaped = literal(value), "", False, False  # type: ignore[arg-type]
    for character in rendered:
        if escaped:
            escaped = False
        elif inside and character == "\\":
            escaped = True
        elif character == '"':
            inside = not inside
        elif not inside:
            outside += character
    assert not inside
    assert not set(outside) - set("[],-0123456789nulltruefalse")
