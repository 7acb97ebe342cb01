"""What a client sent becomes a request, strictly, or one message that names every mistake."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # attrs resolves the annotations
from typing import Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED
from zapomni.errors import ValidationError
from zapomni.tools.add_memory import AddMemoryRequest
from zapomni.tools.arguments import structure
from zapomni.tools.schema import argument


@attrs.frozen
class Order:
    drink: str = argument("What.", min_length=1, max_length=10)
    cups: int = argument("How many.", default=1, minimum=1, maximum=9)
    strength: float = argument("How strong.", default=0.5, minimum=0, maximum=1)
    hot: bool = argument("Hot or not.", default=True)
    size: Literal["small", "large"] = argument("Which cup.", default="small")
    extras: tuple[str, ...] = argument("What else.", default=(), max_items=2)
    notes: Mapping[str, Any] | None = argument("Anything.", default=None)

    def __attrs_post_init__(self) -> None:
        if self.drink == "petrol":
            raise ValidationError("drink must be drinkable")


def complaint_about(arguments: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        structure(arguments, Order)
    return str(caught.value)


def test_arguments_become_a_request() -> None:
    given_notes = {"deep": [{"x": None}]}
    order = structure(
        {
            "drink": "tea",
            "cups": 2,
            "strength": 1,
            "hot": False,
            "size": "large",
            "extras": ["milk"],
            "notes": given_notes,
        },
        Order,
    )
    assert order == Order("tea", 2, 1.0, False, "large", ("milk",), given_notes)
    assert isinstance(order.strength, float)


def test_what_is_left_out_has_its_default() -> None:
    assert structure({"drink": "tea"}, Order) == Order("tea")


def test_null_stands_for_an_optional_argument_that_was_left_out() -> None:
    nothing = dict.fromkeys(["cups", "strength", "hot", "size", "extras", "notes"])
    assert structure({"drink": "tea", **nothing}, Order) == Order("tea")
    assert complaint_about({"drink": None}) == "drink must be a string"


def test_a_whole_number_may_be_written_with_a_point() -> None:
    order = structure({"drink": "tea", "cups": 3.0}, Order)
    assert (order.cups, type(order.cups)) == (3, int)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "field required: drink"),
        ({"drink": 5}, "drink must be a string"),
        ({"drink": "\ud800"}, "drink must be valid Unicode, without lone surrogates"),
        ({"drink": ""}, "drink must have at least 1 character"),
        ({"drink": "x" * 11}, "drink exceeds maximum length of 10 characters"),
        ({"drink": "petrol"}, "drink must be drinkable"),
        ({"drink": "tea", "cups": "2"}, "cups must be a whole number"),
        ({"drink": "tea", "cups": True}, "cups must be a whole number"),
        ({"drink": "tea", "cups": 1.5}, "cups must be a whole number"),
        ({"drink": "tea", "cups": float("inf")}, "cups must be a whole number"),
        ({"drink": "tea", "cups": 0}, "cups must be at least 1"),
        ({"drink": "tea", "cups": 10}, "cups must be at most 9"),
        ({"drink": "tea", "strength": "1"}, "strength must be a number"),
        ({"drink": "tea", "strength": False}, "strength must be a number"),
        ({"drink": "tea", "strength": 1.01}, "strength must be at most 1"),
        ({"drink": "tea", "hot": "false"}, "hot must be true or false"),
        ({"drink": "tea", "hot": 1}, "hot must be true or false"),
        ({"drink": "tea", "size": "huge"}, "size must be one of small, large"),
        ({"drink": "tea", "size": ["small"]}, "size must be one of small, large"),
        ({"drink": "tea", "extras": "milk"}, "extras must be an array of strings, not string"),
        ({"drink": "tea", "extras": {"milk": 1}}, "extras must be an array of strings, not object"),
        ({"drink": "tea", "extras": ["milk", None]}, "extras must be an array of strings"),
        ({"drink": "tea", "extras": ["a", "b", "c"]}, "extras must have at most 2 items"),
        ({"drink": "tea", "notes": []}, "notes must be an object/dict, not array"),
        ({"drink": "tea", "Cups": 2}, "unexpected field: Cups"),
        ("tea", "arguments must be an object/dict, not string"),
        (["tea"], "arguments must be an object/dict, not array"),
        (None, "arguments must be an object/dict, not null"),
        (5, "arguments must be an object/dict, not number"),
        (True, "arguments must be an object/dict, not boolean"),
    ],
)
def test_a_mistake_is_named(arguments: Any, words: str) -> None:
    assert complaint_about(arguments) == words


def test_every_mistake_is_named_at_once() -> None:
    complaint = complaint_about({"cups": "2", "hot": 1, "colour": "red", "brand": "x"})
    assert set(complaint.split("; ")) == {
        "field required: drink",
        "cups must be a whole number",
        "hot must be true or false",
        "unexpected field: brand",
        "unexpected field: colour",
    }


def test_nesting_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"deeper": deep}
    assert "JSON-serializable" in complaint_about({"drink": "tea", "notes": deep})
    while deep:  # or else the interpreter would take it apart in one deep recursion
        deep = deep.pop("deeper")


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    )


VALID_JSON = nested(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = nested(st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()))


@AT_ANY_SPEED
@given(JSON | st.dictionaries(st.sampled_from([field.name for field in attrs.fields(Order)]), JSON))
def test_whatever_is_sent_is_taken_or_refused_in_words(arguments: Any) -> None:
    try:
        outcome: object = structure(arguments, Order)
    except ValidationError as error:
        outcome = str(error)
    assert isinstance(outcome, Order | str)
    assert outcome


@AT_ANY_SPEED
@given(st.dictionaries(st.text(), VALID_JSON, max_size=4))
def test_metadata_is_kept_as_given(notes: dict[str, Any]) -> None:
    assert structure({"drink": "tea", "notes": notes}, Order).notes == notes


def test_metadata_has_a_size_that_a_store_can_index() -> None:
    with pytest.raises(ValidationError, match="metadata exceeds maximum size of 1,000,000 bytes"):
        structure({"text": "t", "metadata": {"blob": "x" * 1_000_001}}, AddMemoryRequest)
    assert structure({"text": "t", "metadata": {"blob": "x" * 900_000}}, AddMemoryRequest).metadata is not None
