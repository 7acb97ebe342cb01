"""A request class describes its arguments once, and the JSON Schema that clients are shown follows from it.

Schemas are kept plain, without references and unions, because clients hand them to models of many makers. An
optional argument is advertised by its type alone and may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from zapomni.errors import ValidationError

_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number"}
_KEYWORDS = ("minLength", "maxLength", "minimum", "maximum", "maxItems")


def argument(
    description: str,
    *,
    default: Any = attrs.NOTHING,
    min_length: int | None = None,
    max_length: int | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    max_items: int | None = None,
) -> Any:
    """Define one argument: what clients read about it, and the limits that are enforced."""
    limits = {
        "minLength": min_length,
        "maxLength": max_length,
        "minimum": minimum,
        "maximum": maximum,
        "maxItems": max_items,
    }
    return attrs.field(
        default=default,
        validator=_within_limits,
        metadata={"description": description, **{name: value for name, value in limits.items() if value is not None}},
    )


def given(**options: Any) -> dict[str, Any]:
    """Return the options that a client gave; an engine has its own mind about the others."""
    return {name: value for name, value in options.items() if value is not None}


def result(description: str = "", *, default: Any = attrs.NOTHING) -> Any:
    """Define one field of a structured answer."""
    return attrs.field(default=default, metadata={"description": description} if description else {})


def _within_limits(_: object, field: attrs.Attribute[Any], value: Any) -> None:
    limits, name = field.metadata, field.name
    if value is None:
        return
    if isinstance(value, str):
        if len(value) < limits.get("minLength", 0):
            raise ValidationError(f"{name} must have at least {_count(limits['minLength'], 'character')}")
        if len(value) > limits.get("maxLength", len(value)):
            raise ValidationError(f"{name} exceeds maximum length of {_count(limits['maxLength'], 'character')}")
    elif isinstance(value, int | float):
        if value < limits.get("minimum", value):
            raise ValidationError(f"{name} must be at least {limits['minimum']}")
        if value > limits.get("maximum", value):
            raise ValidationError(f"{name} must be at most {limits['maximum']}")
    elif isinstance(value, Sequence) and len(value) > limits.get("maxItems", len(value)):
        raise ValidationError(f"{name} must have at most {_count(limits['maxItems'], 'item')}")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


_SCHEMAS: dict[tuple[type[Any], bool], dict[str, Any]] = {}


def schema_of(cls: type[Any], *, closed: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of an attrs class: an object that, when closed, allows no other properties.

    Requests are closed, so that a misspelt argument is an error. Answers are open, so that they may grow.
    What must be given comes first, and what a class shares with others last.
    """
    if (cls, closed) not in _SCHEMAS:
        fields = sorted(attrs.fields(attrs.resolve_types(cls)), key=_place)
        properties = {field.name: _property(field, closed) for field in fields}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required := [field.name for field in fields if field.default is attrs.NOTHING]:
            schema["required"] = required
        _SCHEMAS[cls, closed] = schema | ({"additionalProperties": False} if closed else {})
    return _SCHEMAS[cls, closed]


def _place(field: attrs.Attribute[Any]) -> tuple[bool, bool]:
    return field.default is not attrs.NOTHING, field.inherited  # type: ignore[attr-defined]  # missing in the stubs


def _property(field: attrs.Attribute[Any], closed: bool) -> dict[str, Any]:
    schema = _schema_of_type(field.type, closed)
    if description := field.metadata.get("description"):
        schema["description"] = description
    schema |= {word: field.metadata[word] for word in _KEYWORDS if word in field.metadata}
    if closed and isinstance(field.default, str | int | float) and field.default != "":
        schema["default"] = field.default
    return schema


def _schema_of_type(wanted: Any, closed: bool) -> dict[str, Any]:
    wanted = _without_none(wanted)
    origin, arms = get_origin(wanted), get_args(wanted)
    if attrs.has(wanted):
        return dict(schema_of(wanted, closed=closed))
    if origin is Literal:
        return {"type": "string", "enum": list(arms)}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _schema_of_type(arms[0], closed)}
    if origin in (dict, Mapping) or wanted in (dict, Mapping):
        return {"type": "object"} if arms[1:] in ((), (Any,)) else _map_schema(arms[1], closed)
    return {"type": _NAMES[wanted]}


def _map_schema(value: Any, closed: bool) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": _schema_of_type(value, closed)}


def _without_none(wanted: Any) -> Any:
    if get_origin(wanted) in (Union, UnionType):
        (wanted,) = (arm for arm in get_args(wanted) if arm is not NoneType)
    return wanted
