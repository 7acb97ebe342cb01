"""``zapomni serve`` with a clock that jumps back and forth by up to a day, between any two looks at it."""

from __future__ import annotations

import random
import sys
from datetime import datetime, timedelta, tzinfo
from typing import Any

from zapomni.cli import main
from zapomni.engine import adding, engine

_random = random.Random(int(sys.argv.pop(1)))


class JumpingClock(datetime):
    """A datetime whose now is anywhere within a day of the truth."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + timedelta(seconds=_random.uniform(-86_400, 86_400))


if __name__ == "__main__":
    for module in (adding, engine):
        module.datetime = JumpingClock  # type: ignore[attr-defined]
    sys.exit(main(sys.argv[1:]))
