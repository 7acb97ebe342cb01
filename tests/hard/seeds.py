"""The seed of a run, which its failures name."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def seed_of(request: pytest.FixtureRequest) -> int:
    given: int | None = request.config.getoption("--hard-seed")
    return random.randrange(1 << 32) if given is None else given
