"""What happened in a run, and everything about it that should not have."""

from __future__ import annotations

from collections import Counter

import attrs


@attrs.define
class Tally:
    faults: Counter[str] = attrs.field(factory=Counter)
    """Those that hit something."""
    vain: Counter[str] = attrs.field(factory=Counter)
    """Those that did not."""
    starts: int = 0
    acknowledged: Counter[str] = attrs.field(factory=Counter)
    errors: Counter[str] = attrs.field(factory=Counter)
    """Calls that were answered with one of the errors that there may be, by its words."""
    wrong: list[str] = attrs.field(factory=list, repr=False)
    """What no fault excuses: an end, an answer or a line that nobody may give."""
    missed: list[str] = attrs.field(factory=list)
    """What a search should have found, and did not."""
    killed: set[int] = attrs.field(factory=set, repr=False)
    """The servers that a fault has killed and that have not been seen off yet."""

    @property
    def kills(self) -> int:
        return sum(count for name, count in self.faults.items() if "killed" in name)
