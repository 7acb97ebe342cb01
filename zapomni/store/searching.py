"""Searching: candidates by words and by vectors, each with every filter applied exactly.

A filter becomes a set of chunks before anything is scored (see `facets`). Words are scored exactly anyway. For vectors
a filter that leaves few chunks is answered by comparing all of them; one that leaves many by asking the vector set
for more than is wanted, and for more again, until enough are left. So no filter starves a result.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from zapomni.models import Scores, Vocabulary
from zapomni.store import facets
from zapomni.store.arrays import compute
from zapomni.store.names import term_name
from zapomni.store.postings import RECORD, best, rank, unpack
from zapomni.store.values import check_vectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from zapomni.models import EmbeddingModel, Filters
    from zapomni.store.space import Space
    from zapomni.store.wire import Command

FEW = 2000  # chunks that are compared one by one rather than through the vector set's graph
SPREAD = 3.0  # deviations by which more is asked for than a filter should leave, if it has nothing to do with the query
LEAST_EFFORT = 200
NOTHING = Scores(np.empty(0, np.uint32), np.empty(0, np.float32))


async def search_words(
    space: Space,
    terms: Mapping[str, float],
    *,
    count: int | None,
    filters: Filters,
    k1: float = 0.9,
    b: float = 0.4,
) -> Scores:
    """Return the chunks that hold some of the terms, scored by BM25; each term counts by its weight."""
    names = [space.keys.entry(term_name(term)).encode("utf-8", "surrogatepass") for term in terms]
    (hidden, *lists), totals, *groups = await space.read_all(
        [
            ("MGET", space.keys.hidden, *names),
            ("HMGET", space.keys.counts, "chunks", "length"),
            *_facet_commands(space, filters),
        ]
    )

    def score() -> Scores:
        return rank(
            [(weight, data) for weight, data in zip(terms.values(), lists, strict=True) if data is not None],
            documents=int(totals[0] or 0),
            total_length=int(totals[1] or 0),
            hidden=hidden,
            allowed=facets.chunks(facets.select(groups, filters)) if filters else None,
            count=count,
            k1=k1,
            b=b,
        )

    return await compute(score, [hidden, *lists, *chain.from_iterable(groups)])


async def vocabulary(space: Space, terms: Iterable[str]) -> Vocabulary:
    """Return how common terms are."""
    names = list(terms)
    keys = [space.keys.entry(term_name(term)).encode("utf-8", "surrogatepass") for term in names]
    about_reply, total, *sizes = await space.read_all(
        [
            ("HGETALL", space.keys.about),
            ("HGET", space.keys.counts, "chunks"),
            *(("STRLEN", key) for key in keys),
        ]
    )
    about = space.parse_about(about_reply)
    if about.model is not None:
        space.generations[about.model] = about.generation
    frequencies = {term: size // RECORD.itemsize for term, size in zip(names, sizes, strict=True)}
    return Vocabulary(frequencies, int(total or 0), about.model)


async def count(space: Space, filters: Filters) -> int:
    """Return how many memories pass a filter."""
    groups = _facet_commands(space, filters) or [("MGET", space.keys.entry(facets.EVERY))]
    hidden, *lists = await space.read_all([("GET", space.keys.hidden), *groups])
    return await compute(
        lambda: len(facets.visible(facets.select(lists, filters), hidden)), [hidden, *chain.from_iterable(lists)]
    )


async def search_vectors(
    space: Space, vector: NDArray[np.float32], model: EmbeddingModel, *, count: int, filters: Filters
) -> Scores:
    """Return the chunks nearest to a vector, scored by their cosine; raises `ConfigError` for another model's."""
    check_vectors([vector], model)
    if count < 1:
        return NOTHING
    guess = None if filters else space.generations.get(model)
    about_reply, hidden, *groups = await space.read_all(
        [
            ("HGETALL", space.keys.about),
            ("GET", space.keys.hidden),
            *_facet_commands(space, filters),
            *([] if guess is None else [_nearest(space.keys.vectors(guess), vector, count, exact=False)]),
        ]
    )
    about = space.parse_about(about_reply)
    if about.model is None:
        return NOTHING
    generation = space.generations[model] = about.set_for(model)
    if guess == generation:
        scores = _scores(groups.pop(), ~unpack(hidden, 0), others=True)
        if len(scores.numbers) == count:
            return scores
    if not filters:  # some of the nearest are not to be seen; a large memory that is being written may be most of all
        groups = [[await space.read("GET", space.keys.entry(facets.EVERY))]]

    def select() -> tuple[NDArray[np.bool_], int]:
        allowed = facets.chunks(facets.select(groups, filters))
        allowed &= ~unpack(hidden, len(allowed))[: len(allowed)]
        return allowed, int(np.count_nonzero(allowed))

    allowed, wanted = await compute(select, [hidden, *chain.from_iterable(groups)])
    if wanted <= FEW:
        scores = await similarities(space, vector, model, np.flatnonzero(allowed))
        return Scores(scores.numbers[:count], scores.values[:count])
    total = int(await space.read("VCARD", space.keys.vectors(generation)))
    asked = max(count, math.ceil((count + SPREAD * math.sqrt(count)) * total / wanted))
    exact = False
    while True:
        asked = min(asked, max(total, 1))
        command = _nearest(space.keys.vectors(generation), vector, asked, exact=exact)
        reply, about_reply = await space.read_all([command, ("HGETALL", space.keys.about)])
        if generation not in space.parse_about(about_reply).sets:  # the sets were swapped meanwhile
            return await search_vectors(space, vector, model, count=count, filters=filters)
        scores, found = _scores(reply, allowed, others=False), len(reply) // 2
        if len(scores.numbers) >= count or found >= total or exact:
            return Scores(scores.numbers[:count], scores.values[:count])
        exact = found < asked  # the set's graph leads to no more, so all have to be looked at
        asked = total if exact else asked * 4


async def similarities(
    space: Space, vector: NDArray[np.float32], model: EmbeddingModel, numbers: Iterable[int]
) -> Scores:
    """Compare a vector with the chunks of these numbers, whichever of them have vectors; best first."""
    check_vectors([vector], model)
    wanted = [int(number) for number in numbers]
    guess = space.generations.get(model)
    if guess is None:
        guess = (await space.about()).set_for(model)
    key = space.keys.vectors(guess)
    about_reply, *replies = await space.read_all(
        [("HGETALL", space.keys.about), *(("VEMB", key, number, "RAW") for number in wanted)]
    )
    generation = space.generations[model] = space.parse_about(about_reply).set_for(model)
    if generation != guess:  # the sets were swapped meanwhile
        return await similarities(space, vector, model, wanted)
    found = [(number, reply) for number, reply in zip(wanted, replies, strict=True) if reply is not None]
    if not found:
        return NOTHING
    values = stored_vectors([reply for _, reply in found]) @ (vector / np.linalg.norm(vector)).astype(np.float32)
    present = np.array([number for number, _ in found], dtype=np.intp)
    totals = np.zeros(int(present.max()) + 1, np.float32)
    totals[present] = values
    return best(present, totals, None)


def _scores(reply: Sequence[Any], flags: NDArray[np.bool_], *, others: bool) -> Scores:
    """Read an answer to VSIM; of the chunks, those with flags are kept, and with `others` those beyond all flags."""
    numbers = np.array(reply[::2], dtype=np.int64)
    values = np.array(reply[1::2], dtype=np.float32) * 2 - 1
    inside = numbers < len(flags)
    keep = (
        np.where(inside, flags[np.where(inside, numbers, 0)], others) if len(flags) else np.full(len(numbers), others)
    )
    return Scores(numbers[keep].astype(np.uint32), values[keep])


def stored_vectors(replies: Sequence[Sequence[Any]]) -> NDArray[np.float32]:
    """Return the unit vectors that answers to VEMB RAW hold, eight bits for each dimension."""
    data = b"".join(data for _kind, data, _norm, _reach in replies)
    whole = np.frombuffer(data, np.int8).reshape(len(replies), -1).astype(np.float32)
    units: NDArray[np.float32] = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    return units


def _nearest(key: str, vector: NDArray[np.float32], count: int, *, exact: bool) -> Command:
    command = ("VSIM", key, "FP32", vector.astype("<f4").tobytes(), "WITHSCORES", "COUNT", count)
    return (*command, "TRUTH") if exact else (*command, "EF", max(count, LEAST_EFFORT))


def _facet_commands(space: Space, filters: Filters) -> list[Command]:
    return [("MGET", *map(space.keys.entry, group)) for group in facets.groups(filters)] if filters else []
