"""The schemas that clients are shown follow from the request classes, and say what is enforced."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import attrs
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import AT_ANY_SPEED, FakeEngine
from zapomni.errors import ValidationError
from zapomni.tools import ALL_TOOLS
from zapomni.tools.arguments import structure
from zapomni.tools.schema import argument, result, schema_of


@attrs.frozen
class Point:
    x: int = result("How far right.")
    y: int | None = result(default=None)


@attrs.frozen
class Everything:
    """One argument of every kind."""

    text: str = argument("A text.", min_length=2, max_length=5)
    whole: int = argument("A whole number.", minimum=-3, maximum=3)
    number: float = argument("A number.", default=1.5, minimum=0)
    switch: bool = argument("A switch.", default=False)
    choice: Literal["left", "right"] = argument("A choice.", default="left")
    words: tuple[str, ...] = argument("Words.", default=(), max_items=2)
    anything: Mapping[str, Any] | None = argument("Anything.", default=None)
    note: str | None = argument("A note.", default=None, max_length=4)


def test_a_class_becomes_an_object_that_allows_nothing_else() -> None:
    assert schema_of(Everything) == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "A text.", "minLength": 2, "maxLength": 5},
            "whole": {"type": "integer", "description": "A whole number.", "minimum": -3, "maximum": 3},
            "number": {"type": "number", "description": "A number.", "minimum": 0, "default": 1.5},
            "switch": {"type": "boolean", "description": "A switch.", "default": False},
            "choice": {
                "type": "string",
                "enum": ["left", "right"],
                "description": "A choice.",
                "default": "left",
            },
            "words": {"type": "array", "items": {"type": "string"}, "description": "Words.", "maxItems": 2},
            "anything": {"type": "object", "description": "Anything."},
            "note": {"type": "string", "description": "A note.", "maxLength": 4},
        },
        "required": ["text", "whole"],
        "additionalProperties": False,
    }


def test_classes_and_maps_may_be_nested() -> None:
    @attrs.frozen
    class Shape:
        points: tuple[Point, ...] = result()
        sizes: Mapping[str, Mapping[str, float]] = result()

    point = {
        "type": "object",
        "properties": {"x": {"type": "integer", "description": "How far right."}, "y": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    Shape.__annotations__.update(points=tuple[Point, ...], sizes=Mapping[str, Mapping[str, float]])
    properties = schema_of(Shape)["properties"]
    assert properties["points"] == {"type": "array", "items": point}
    assert properties["sizes"] == {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "number"}},
    }


@pytest.mark.parametrize("tool_class", ALL_TOOLS)
def test_the_schemas_of_our_tools_are_schemas_and_plain(tool_class: Any) -> None:
    tool = tool_class(FakeEngine())
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        text = json.dumps(schema)
        assert not [word for word in ("$ref", "$defs", "anyOf", "oneOf", "allOf") if word in text]
    assert tool.input_schema["additionalProperties"] is False
    assert "additionalProperties" not in tool.output_schema
    assert all(each["description"] for each in tool.input_schema["properties"].values())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def right_value(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    longest = min(schema.get("maxLength", 7), 7)
    lowest, highest = schema.get("minimum", -5), schema.get("maximum", 105)
    by_type: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(min_size=schema.get("minLength", 0), max_size=longest),
        "integer": st.integers(lowest, highest) | st.integers(lowest, highest).map(float),
        "number": st.integers(lowest, highest) | st.floats(lowest, highest),
        "boolean": st.booleans(),
        "array": st.lists(st.text(max_size=3), max_size=schema.get("maxItems", 4)),
        "object": st.dictionaries(st.text(max_size=3), JSON, max_size=3),
    }
    return by_type[schema["type"]]


def near_miss(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """A value of the right type that may be out of bounds, or any value at all."""
    if schema["type"] == "string":
        longest = schema.get("maxLength", 7)
        return st.sampled_from(["", "x" * longest, "x" * (longest + 1)] if longest < 1000 else [""]) | JSON
    if schema["type"] in ("integer", "number"):
        edges = [
            edge + step for edge in (schema.get("minimum", 0), schema.get("maximum", 0)) for step in (-1, 0, 0.5, 1)
        ]
        return st.sampled_from(edges) | JSON
    return st.lists(st.text(max_size=3) | st.integers(), max_size=5) | JSON


def arguments_for(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Arguments that are right, those that are wrong in one place, and anything else."""
    properties, required = schema["properties"], schema.get("required", [])
    right: st.SearchStrategy[Any] = st.fixed_dictionaries(
        {name: right_value(properties[name]) for name in required},
        optional={name: right_value(each) for name, each in properties.items() if name not in required},
    )
    wrong = st.one_of(*(st.fixed_dictionaries({name: near_miss(each)}) for name, each in properties.items()))
    unknown = st.dictionaries(st.text(max_size=5), JSON, max_size=1)
    return right | st.builds(lambda one, other: one | other, right, wrong | unknown) | JSON


def is_taken(arguments: Any, cls: type[Any]) -> bool:
    try:
        structure(arguments, cls)
    except ValidationError:
        return False
    return True


def as_we_read_them(arguments: Any, schema: dict[str, Any]) -> Any:
    """Leave out the nulls that we take for left-out arguments on purpose."""
    if not isinstance(arguments, dict):
        return arguments
    required = schema.get("required", ())
    return {name: value for name, value in arguments.items() if value is not None or name in required}


def check_agreement(arguments: Any, cls: type[Any]) -> None:
    schema = schema_of(cls)
    judged = jsonschema.Draft202012Validator(schema).is_valid(as_we_read_them(arguments, schema))
    blank = isinstance(arguments, dict) and any(
        isinstance(value := arguments.get(name), str) and not value.strip() for name in ("text", "query")
    )
    if blank and cls is not Everything:  # a text of spaces is refused by a rule that no schema can say simply
        assert not is_taken(arguments, cls)
    else:
        assert is_taken(arguments, cls) == judged


@AT_ANY_SPEED
@given(arguments_for(schema_of(Everything)))
def test_what_is_advertised_is_what_is_taken(arguments: Any) -> None:
    check_agreement(arguments, Everything)


@AT_ANY_SPEED
@given(data=st.data())
@pytest.mark.parametrize("tool_class", ALL_TOOLS)
def test_what_our_tools_advertise_is_what_they_take(tool_class: Any, data: st.DataObject) -> None:
    cls = tool_class.request_class
    check_agreement(data.draw(arguments_for(schema_of(cls))), cls)
