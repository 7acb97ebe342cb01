"""Keeping what a memory is found by in step with the memory before it.

A memory is also found by the words of the one before it of the same source. When that one is changed, deleted or
restored, what follows it is indexed anew: words that are gone must not find anything any more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from zapomni.errors import DatabaseError
from zapomni.log import get_logger
from zapomni.terms import indexed_terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zapomni.models import Follower
    from zapomni.store.workspace import Workspace

PATIENCE = 1.0
"""Seconds that a request waits for others before it leaves the rest to the background."""

log = get_logger("engine")


async def refresh(workspace: Workspace, memory_id: str, *, patience: float = math.inf) -> bool:
    """Index anew what follows a memory that something became of; False when that has to be tried again later.

    What became of it is done and only not acknowledged yet, so that a failure here is logged. Whoever is waiting for
    the acknowledgement says for how long: a backup or a clean-up by others may hold this up for minutes.
    """
    with trio.move_on_after(patience):
        try:
            await _reindex(workspace, await workspace.followers(memory_id))
        except DatabaseError as error:
            log.warning("context_not_refreshed", error=str(error))
        else:
            return True
    return False


async def refresh_stale(workspace: Workspace) -> None:
    """Index anew whatever is still found by words of deleted memories, or of earlier versions."""
    while stale := await workspace.stale():
        if not await _reindex(workspace, stale):  # all of them have changed since
            return


async def _reindex(workspace: Workspace, followers: Sequence[Follower]) -> int:
    done = 0
    for follower in followers:
        before = "" if follower.preceding is None else follower.preceding.text
        old, new = (
            indexed_terms(follower.text, context=context, timestamp=follower.timestamp, metadata=follower.metadata)
            for context in (follower.context, before)
        )
        gained = new.length - old.length
        done += await workspace.reindex(follower, old.counts, new.counts, gained=gained, length=new.length)
    return done
