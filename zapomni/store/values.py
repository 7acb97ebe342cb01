"""What may be stored: checked before anything is sent, so that the database never has to refuse.

JSON and times are turned into what the database keeps, and back.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from zapomni.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zapomni.models import EmbeddingModel, NewChunk, NewMemory

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DEEPEST = 100
LONGEST_KEY = 512
MOST_CHUNKS = 1_000_000


def micros(moment: datetime) -> int:
    """Return microseconds since 1970."""
    if moment.tzinfo is None:
        raise ValidationError(f"a time needs its zone: {moment.isoformat()}")
    return (moment - EPOCH) // MICROSECOND


def moment(microseconds: int) -> datetime:
    return EPOCH + microseconds * MICROSECOND


def to_json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as text that `json.loads` turns into the same again; raises `ValidationError`."""
    check_json(metadata)
    try:
        text = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:  # an integer of more digits than Python prints
        raise ValidationError(f"the metadata cannot be stored: {error}") from error
    _check_text(text, "metadata")
    return text


def check_json(metadata: Mapping[str, Any]) -> None:
    """Raise `ValidationError` for what JSON cannot say."""
    _check_json(dict(metadata), "metadata", 0)


def storable(text: str) -> bool:
    """Tell whether a text can be in the store at all; what is looked for may be anything."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_json(value: Any, where: str, depth: int) -> None:
    if depth > DEEPEST:
        raise ValidationError(f"metadata is nested more than {DEEPEST} levels deep")
    match value:
        case None | bool() | int() | str():
            return
        case float():
            if not math.isfinite(value):
                raise ValidationError(f"{where} is not a number that JSON has: {value}")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise ValidationError(f"a key of {where} is not text: {key!r}")
                _check_json(item, f"{where}.{key}", depth + 1)
        case list():
            for item in value:
                _check_json(item, f"an item of {where}", depth + 1)
        case _:
            raise ValidationError(f"{where} is not JSON: {type(value).__name__}")


def _check_text(text: str, name: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValidationError(f"{name} holds half of a surrogate pair at position {error.start}") from error


def check_memory(memory: NewMemory) -> None:
    """Raise `ValidationError` for a memory that could not be kept as it is."""
    check_id(memory.id)
    if not memory.text:
        raise ValidationError("text cannot be empty")
    _check_text(memory.text, "text")
    for name, value in (("key", memory.key), ("source", memory.source), *(("tag", tag) for tag in memory.tags)):
        if value is None:
            continue
        if not 1 <= len(value) <= LONGEST_KEY:
            raise ValidationError(f"{name} must have 1 to {LONGEST_KEY} characters")
        _check_text(value, name)


def check_id(memory_id: str) -> None:
    try:
        canonical = str(UUID(memory_id))
    except ValueError as error:
        raise ValidationError(f"a memory's id is a UUID, not {memory_id!r}") from error
    if canonical != memory_id:
        raise ValidationError(f"a memory's id is a UUID in its usual form: {canonical}")


def check_chunks(memory: NewMemory, chunks: Sequence[NewChunk], begin: int) -> int:
    """Check that chunks continue the text from `begin`, and all that finds them; return where they end."""
    for chunk in chunks:
        if not chunk.start <= begin <= chunk.end <= len(memory.text) or chunk.start >= chunk.end or chunk.start < 0:
            raise ValidationError(f"a passage [{chunk.start}:{chunk.end}] leaves a gap after {begin}, or overruns")
        if chunk.length < 0 or any(frequency < 1 for frequency in chunk.terms.values()):
            raise ValidationError("a passage's length and frequencies are counts")
        for term in chunk.terms:
            _check_text(term, "a term")
        begin = chunk.end
    given = [chunk.vector for chunk in chunks if chunk.vector is not None]
    if given and memory.model is None:
        raise ValidationError("vectors come with the name of the model that made them")
    if given and memory.model is not None:
        check_vectors(given, memory.model)
    return begin


def check_vectors(vectors: Sequence[NDArray[np.float32]], model: EmbeddingModel) -> None:
    """Raise `ValidationError` for vectors that could not be compared."""
    if any(vector.shape != (model.dimension,) for vector in vectors):
        raise ValidationError(f"a vector of {model.name} has {model.dimension} dimensions")
    lengths = np.linalg.norm(np.asarray(vectors, np.float64), axis=1)
    if not np.all(np.isfinite(lengths)) or not np.all(lengths > 1e-30):
        raise ValidationError("a vector holds NaN or infinity, or is all zeros")
