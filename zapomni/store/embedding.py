"""Vectors that come later: of passages stored without one, and of a new model for all of them.

A sorted set for each vector set says which chunks it still lacks. While a new model's set is filled, writes go to
both, each noting what it could not give; the sets are swapped in the transaction that finds nothing lacking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zapomni.models import Filters, Pending
from zapomni.store import facets
from zapomni.store.postings import unpack
from zapomni.store.reading import passages
from zapomni.store.values import check_vectors
from zapomni.store.vectors import add_vector, lack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zapomni.models import EmbeddingModel, Passage
    from zapomni.store.connection import Reader
    from zapomni.store.space import Space
    from zapomni.store.wire import Command

STEP = 1000


async def pending(space: Space, model: EmbeddingModel, limit: int, after: int = 0) -> Pending:
    """Return passages that have no vector of a model yet, in the order of their numbers.

    Raises `ConfigError` when the workspace has vectors of another model and is not being re-embedded for this one.
    """
    about = await space.about()
    key = space.keys.pending(about.set_for(model))
    found: list[Passage] = []
    while not found:
        page = ("ZRANGE", key, f"({after}", "+inf", "BYSCORE", "LIMIT", 0, limit)
        numbers = [int(number) for number in await space.read(*page)]
        if not numbers:
            break
        found = await passages(space, numbers)  # an unfinished memory's are left out
        after = numbers[-1]
    return Pending(about.incarnation, tuple(found))


async def add_vectors(
    space: Space, model: EmbeddingModel, owing: Pending, vectors: Sequence[NDArray[np.float32]]
) -> int:
    """Give passages, in their order, the vectors that they lack; return how many still lacked one."""
    found = {passage.number: vector for passage, vector in zip(owing.passages, vectors, strict=True)}
    if not found:
        return 0
    check_vectors(vectors, model)
    generation = (await space.about()).set_for(model)
    key = space.keys.pending(generation)
    lacking: list[int] = []

    def attempt(reader: Reader) -> list[Command]:
        nonlocal lacking
        about = space.watched_about(reader)
        lacking = []
        if about.incarnation != owing.incarnation or about.set_for(model) != generation:
            return []
        scores = reader("ZMSCORE", key, *found)
        lacking = [number for number, score in zip(found, scores, strict=True) if score is not None]
        if not lacking:
            return []
        commands: list[Command] = [add_vector(space.keys.vectors(generation), n, found[n]) for n in lacking]
        if about.sets[generation] is None:
            commands.append(("HSET", space.keys.about, "model", model.name, "dimension", model.dimension))
        return [*commands, ("ZREM", key, *lacking)]

    await space.connection.optimistic([space.keys.about, key], attempt)
    return len(lacking)


async def begin(space: Space, model: EmbeddingModel) -> int:
    """Start, or take up again, the re-embedding of a workspace; return how many chunks lack a vector of the model.

    Fill them with `pending` and `add_vectors`, then `finish`. Searches use the old vectors until then.
    """
    keys = space.keys
    async with space.upkeep() as token:
        about = await space.about()
        if about.model == model or about.model is None:
            return int(await space.read("ZCARD", keys.pending(about.generation)))
        following = about.generation + 1
        if about.next_model != model:
            await space.connection.transaction(
                [
                    ("UNLINK", keys.vectors(following), keys.pending(following)),
                    ("HDEL", keys.about, "next_listed"),
                    ("HSET", keys.about, "next_model", model.name, "next_dimension", model.dimension),
                ]
            )
        # From here on every write notes by itself what the new set lacks of it; what was there before is noted now.
        if not await space.read("HEXISTS", keys.about, "next_listed"):
            data = await space.read("GET", keys.entry(facets.EVERY))
            numbers = np.flatnonzero(facets.chunks(facets.select([[data]], Filters())))
            await note_lacking(space, token, following, numbers)
            await space.connection.write("HSET", keys.about, "next_listed", 1)
        return int(await space.read("ZCARD", keys.pending(following)))


async def note_lacking(space: Space, token: str, generation: int, numbers: NDArray[np.intp]) -> None:
    """Note that chunks lack a vector, whether they have one or not; for somebody who holds the upkeep."""
    for start in range(0, len(numbers), STEP):
        await _lack(space, generation, numbers[start : start + STEP])
        await space.keep_upkeep(token)


async def _lack(space: Space, generation: int, numbers: NDArray[np.intp]) -> None:
    """Note that chunks lack a vector, unless they are hidden, now or by the time that it is noted."""

    def attempt(reader: Reader) -> list[Command]:
        hidden = unpack(reader("GET", space.keys.hidden), int(numbers.max()) + 1)
        seen = numbers[~hidden[numbers]].tolist()
        return [lack(space.keys.pending(generation), seen)] if seen else []

    await space.connection.optimistic([space.keys.hidden], attempt)


async def finish(space: Space, model: EmbeddingModel) -> bool:
    """Search by the new model's vectors from now on; False when some are still lacking."""
    async with space.upkeep():
        return await _swap(space, model)


async def _swap(space: Space, model: EmbeddingModel) -> bool:
    keys = space.keys
    following = (await space.about()).generation + 1
    done = False

    def attempt(reader: Reader) -> list[Command]:
        nonlocal done
        about = space.watched_about(reader)
        done = about.model == model
        if about.model is None:  # nothing was ever embedded, so there is nothing to swap once nothing is lacking
            done = not reader("ZCARD", keys.pending(about.generation))
        if done or about.next_model != model or about.generation + 1 != following:
            return []
        if reader("ZCARD", keys.pending(following)) or not reader("HEXISTS", keys.about, "next_listed"):
            return []
        done = True
        return [
            ("HSET", keys.about, "generation", following, "model", model.name, "dimension", model.dimension),
            ("HDEL", keys.about, "next_model", "next_dimension", "next_listed"),
            ("UNLINK", keys.vectors(about.generation), keys.pending(about.generation)),
        ]

    await space.connection.optimistic([keys.about, keys.pending(following)], attempt)
    return done
