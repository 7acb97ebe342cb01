"""Commands for the vector sets: who gets a vector, who lacks one, whose goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zapomni.models import NewChunk, NewMemory
    from zapomni.store.names import Keys
    from zapomni.store.space import About
    from zapomni.store.wire import Command

STEP = 100  # vectors that are removed together; other clients wait for one step at the most


def put_vectors(keys: Keys, about: About, memory: NewMemory, numbered: Sequence[tuple[int, NewChunk]]) -> list[Command]:
    """Return the commands that put vectors into their set, and note which are missing in which set."""
    commands: list[Command] = []
    own = None if memory.model is None else about.set_for(memory.model)
    if own is not None and memory.model is not None and about.sets[own] is None:
        model = memory.model
        commands.append(("HSET", keys.about, "model", model.name, "dimension", model.dimension))
    for generation in about.sets:
        missing = [number for number, chunk in numbered if generation != own or chunk.vector is None]
        if missing:
            commands.append(lack(keys.pending(generation), missing))
    if own is not None:
        commands += (
            add_vector(keys.vectors(own), number, chunk.vector)
            for number, chunk in numbered
            if chunk.vector is not None
        )
    return commands


def lack(key: str, numbers: Iterable[int]) -> Command:
    """Return the command that notes which chunks have no vector."""
    return ("ZADD", key, *(word for number in numbers for word in (number, number)))


def add_vector(key: str, number: int, vector: NDArray[np.float32]) -> Command:
    return ("VADD", key, "FP32", vector.astype("<f4").tobytes(), number, "Q8", "EF", 200, "M", 16)


def forget_vectors(keys: Keys, about: About, numbers: range) -> list[Command]:
    """Return the commands that take chunks out of the vector sets; those of many chunks have to follow in steps."""
    commands: list[Command] = [
        ("ZREMRANGEBYSCORE", keys.pending(generation), numbers.start, numbers.stop - 1) for generation in about.sets
    ]
    if len(numbers) <= STEP:
        commands += remove_vectors(keys, about, numbers)
    return commands


def remove_vectors(keys: Keys, about: About, numbers: Iterable[int]) -> list[Command]:
    return [("VREM", keys.vectors(generation), number) for number in numbers for generation in about.sets]


def steps(numbers: range) -> list[range]:
    return [numbers[begin : begin + STEP] for begin in range(0, len(numbers), STEP)]
