"""Settings as they may be shown: neighbours' keys and passwords stand in them, and a diff is soon pasted into an issue.

The names of settings stay, and so do the texts that we write ourselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Container

HIDDEN = '"…"'


def hide(text: str, pattern: re.Pattern[str], shown: Container[str]) -> str:
    """Return the text with the same for every value in quotes, and without what comments quote.

    The pattern matches comments whole; of everything in quotes its group `quoted`, and `name` where that is a name.
    """

    def hidden(match: re.Match[str]) -> str:
        if match["quoted"] is None:
            return _without_quotes(match[0])
        return match[0] if match["name"] is not None or match["quoted"] in shown else HIDDEN

    return pattern.sub(hidden, text)


def _without_quotes(comment: str) -> str:
    """Cut a comment off at its first quote; which of several belong together, nobody can tell."""
    quotes = [at for at in (comment.find('"'), comment.find("'")) if at >= 0]
    if not quotes:
        return comment
    return comment[: min(quotes)] + "…" + ("*/" if comment.startswith("/*") else "")
