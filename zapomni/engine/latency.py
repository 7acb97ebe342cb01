"""How long the engine's operations take."""

from __future__ import annotations

import collections
import contextlib
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT = 1000


class Latency:
    """The last durations of each operation, and their percentiles."""

    def __init__(self) -> None:
        self._durations: dict[str, collections.deque[float]] = {}

    @contextlib.contextmanager
    def timed(self, operation: str) -> Iterator[None]:
        """Time what happens inside; what fails is not counted."""
        started = time.perf_counter()
        yield
        kept = self._durations.setdefault(operation, collections.deque(maxlen=KEPT))
        kept.append((time.perf_counter() - started) * 1000)

    def percentiles(self) -> dict[str, dict[str, float]]:
        """Return milliseconds for each operation that has happened."""
        return {name: _percentiles(list(kept)) for name, kept in self._durations.items()}


def _percentiles(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
    return {f"p{cut}": round(cuts[cut - 1], 2) for cut in (50, 95, 99)}
