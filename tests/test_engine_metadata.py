"""Metadata that means something, and latencies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from zapomni.engine.latency import KEPT, Latency
from zapomni.engine.metadata import Recognised, recognise
from zapomni.errors import ValidationError

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("metadata", "meaning"),
    [
        ({}, Recognised()),
        ({"tags": None, "source": None, "timestamp": None}, Recognised()),
        ({"tags": ["b", "a", "b"]}, Recognised(tags=("b", "a"))),
        ({"tags": "one tag"}, Recognised(tags=("one tag",))),
        ({"tags": []}, Recognised()),
        ({"source": "chat"}, Recognised(source="chat")),
        ({"source": ""}, Recognised()),
        ({"timestamp": "2026-05-01T12:00"}, Recognised(timestamp=NOON)),
        ({"timestamp": "2026-05-01T12:00:00Z"}, Recognised(timestamp=NOON)),
        ({"timestamp": "2026-05-01T14:00:00+02:00"}, Recognised(timestamp=NOON)),
        ({"timestamp": "2026-05-01"}, Recognised(timestamp=datetime(2026, 5, 1, tzinfo=UTC))),
        ({"anything": {"tags": 5}}, Recognised()),
    ],
)
def test_recognised_metadata_is_read(metadata: dict[str, Any], meaning: Recognised) -> None:
    assert recognise(metadata) == meaning


@pytest.mark.parametrize("name", ["tags", "source", "timestamp"])
@pytest.mark.parametrize("value", [5, 1.5, True, {"a": 1}, [1], ["a", None]])
def test_recognised_metadata_of_the_wrong_kind_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=rf"metadata\.{name}"):
        recognise({name: value})


@pytest.mark.parametrize("value", ["", "yesterday", "2026-13-01", "2026-05-01T25:00", "0001-01-01T00:00+14:00"])
def test_what_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(ValidationError, match="ISO 8601"):
        recognise({"timestamp": value})


def test_percentiles_are_of_what_succeeded() -> None:
    latency = Latency()
    assert latency.percentiles() == {}
    with latency.timed("one"):
        pass
    with pytest.raises(ZeroDivisionError), latency.timed("none"):
        raise ZeroDivisionError
    for _ in range(KEPT + 10):
        with latency.timed("many"):
            pass
    found = latency.percentiles()
    assert found.keys() == {"one", "many"}
    for figures in found.values():
        assert 0 <= figures["p50"] <= figures["p95"] <= figures["p99"]
