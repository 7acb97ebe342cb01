"""What a client sent becomes a request object, strictly.

cattrs would make the text "5" of the number 5 and True of the text "false"; the hooks here refuse, in the words that
the specification of the tools uses. Null is taken as leaving an optional argument out, since many models send it so.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from cattrs import Converter
from cattrs.errors import AttributeValidationNote, BaseValidationError, ForbiddenExtraKeysError

from zapomni.errors import ValidationError
from zapomni.tools.schema import schema_of

LONGEST_NAME = 50
LARGEST_OBJECT = 1_000_000


def structure[T](arguments: object, cls: type[T]) -> T:
    """Convert a client's arguments, or raise one `ValidationError` that names everything wrong with them."""
    if not isinstance(arguments, Mapping):
        raise ValidationError(f"arguments must be an object/dict, not {_kind(arguments)}")
    given = {name: value for name, value in arguments.items() if value is not None or name in _required(cls)}
    try:
        return _CONVERTER.structure(given, cls)
    except BaseValidationError as error:
        raise ValidationError("; ".join(_complaints(error))) from error


def _required(cls: type[Any]) -> frozenset[str]:
    return frozenset(schema_of(cls).get("required", ()))


def _complaints(error: BaseException, field: str = "") -> list[str]:
    """Return one message per mistake; cattrs nests them in groups that carry the field's name as a note."""
    if isinstance(error, BaseValidationError):
        return [line for inner in error.exceptions for line in _complaints(inner, _field(inner, field))]
    if isinstance(error, ForbiddenExtraKeysError):
        return [f"unexpected field: {_shown(name)}" for name in sorted(error.extra_fields)]
    if isinstance(error, KeyError):
        return [f"field required: {field}"]
    if isinstance(error, ValidationError):  # a limit of the field, or a rule of the whole class: it names the field
        return [str(error)]
    return [f"{field} {error}"]


def _shown(name: str) -> str:
    """Repeat a name, and not a whole text that came in its place: what is refused goes to the log as well."""
    return name if len(name) <= LONGEST_NAME and name.isidentifier() else "(not a name)"


def _field(error: BaseException, outer: str) -> str:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return f"{outer}.{note.name}" if outer else note.name
    return outer


def _kind(value: object) -> str:
    """Name a value's type as a client would."""
    if value is None:
        return "null"
    names = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def _string(value: object, _: object) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise TypeError("must be valid Unicode, without lone surrogates") from None
    return value


def _integer(value: object, _: object) -> int:
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number: 10.0 is 10
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("must be a whole number")
    return value


def _number(value: object, _: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("must be a number")
    return float(value)


def _switch(value: object, _: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("must be true or false")
    return value


def _object(value: object, _: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"must be an object/dict, not {_kind(value)}")
    try:
        size = len(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError, RecursionError):
        raise TypeError("must be JSON-serializable (no functions, classes, etc.)") from None
    if size > LARGEST_OBJECT:  # every field of it can be filtered on, so it costs far more than a text of its size
        raise TypeError(f"exceeds maximum size of {LARGEST_OBJECT:,} bytes")
    return dict(value)


def _strings(value: object, _: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(f"must be an array of strings, not {_kind(value)}")
    try:
        return tuple(_string(item, str) for item in value)
    except TypeError:
        raise TypeError("must be an array of strings") from None


def _choice(value: object, wanted: Any) -> str:
    choices = get_args(wanted)
    if not isinstance(value, str) or value not in choices:
        raise TypeError(f"must be one of {', '.join(choices)}")
    return value


def _comes_from(origin: object, wanted: Any) -> bool:
    return get_origin(wanted) is origin


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, prefer_attrib_converters=False)
    for wanted, hook in ((str, _string), (int, _integer), (float, _number), (bool, _switch)):
        converter.register_structure_hook(wanted, hook)
    for origin, origin_hook in ((Literal, _choice), (Mapping, _object), (tuple, _strings)):
        converter.register_structure_hook_func(functools.partial(_comes_from, origin), origin_hook)
    return converter


_CONVERTER = _converter()
