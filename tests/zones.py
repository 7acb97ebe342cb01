"""This machine in another time zone."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def machine_in(zone: str) -> Iterator[None]:
    """Let local time be that of a zone inside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()
