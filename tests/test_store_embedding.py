"""Vectors that come later, and a model that changes while everybody goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from tests.stores import MODEL, NOW, chunks_of, memory_of, vector_of
from zapomni.errors import ConfigError
from zapomni.models import EmbeddingModel

if TYPE_CHECKING:
    from zapomni.store.store import Store
    from zapomni.store.workspace import Workspace

NEW = EmbeddingModel("better", 12)
LONG = " ".join(f"long{number}" for number in range(800))


async def fill(workspace: Workspace, model: EmbeddingModel) -> int:
    filled = 0
    with trio.fail_after(30):
        while (pending := await workspace.pending(model, limit=40)).passages:
            vectors = [vector_of(passage.text, model.dimension) for passage in pending.passages]
            filled += await workspace.add_vectors(model, pending, vectors)
    return filled


async def nearest(workspace: Workspace, text: str, model: EmbeddingModel) -> str:
    scores = await workspace.search_vectors(vector_of(text, model.dimension), model, count=1)
    (passage,) = await workspace.passages(scores.numbers)
    return passage.text


async def test_a_passage_without_a_vector_is_pending_and_found_by_words(workspace: Workspace) -> None:
    await workspace.add(memory_of("late fox", model=None), chunks_of("late fox", model=None))
    assert (await workspace.info()).pending == 1
    assert len((await workspace.search_words({"fox": 1.0}, count=5)).numbers) == 1
    assert len((await workspace.search_vectors(vector_of("late fox"), MODEL, count=5)).numbers) == 0
    assert await workspace.model() is None
    pending = await workspace.pending(MODEL)
    (passage,) = pending.passages
    assert (await workspace.pending(MODEL, after=passage.number)).passages == ()
    another = attrs.evolve(pending, passages=(passage, attrs.evolve(passage, number=999)))
    assert await workspace.add_vectors(MODEL, another, [vector_of(passage.text), vector_of("x")]) == 1
    assert await workspace.add_vectors(MODEL, pending, [vector_of("else")]) == 0
    assert await nearest(workspace, "late fox", MODEL) == "late fox"
    assert ((await workspace.info()).pending, await workspace.model()) == (0, MODEL)
    assert (await workspace.search_vectors(vector_of("late fox"), MODEL, count=5)).values[0] > 0.98


async def test_what_is_deleted_gets_no_vector_any_more(workspace: Workspace) -> None:
    memory = memory_of("late fox", model=None)
    await workspace.add(memory, chunks_of("late fox", model=None))
    pending = await workspace.pending(MODEL)
    await workspace.delete(memory.id, now=NOW)
    assert (await workspace.pending(MODEL)).passages == ()
    assert await workspace.add_vectors(MODEL, pending, [vector_of("x")]) == 0


async def test_a_vector_never_reaches_a_workspace_that_was_made_anew(store: Store, workspace: Workspace) -> None:
    """The first passage has the same number in both."""
    await workspace.add(memory_of("late fox", model=None), chunks_of("late fox", model=None))
    old = await workspace.pending(MODEL)
    await store.delete_workspace(workspace.name)
    await store.create_workspace(workspace.name)
    await workspace.add(memory_of("early bird", model=None), chunks_of("early bird", model=None))
    new = await workspace.pending(MODEL)
    assert [passage.number for passage in old.passages] == [passage.number for passage in new.passages]
    assert await workspace.add_vectors(MODEL, old, [vector_of("late fox")]) == 0
    assert await workspace.pending(MODEL) == new


async def test_a_new_model_takes_over_when_it_has_everything(store: Store, workspace: Workspace) -> None:
    texts = [f"text number {number}" for number in range(50)]
    ids = [(await workspace.add(memory_of(text), chunks_of(text))).memory_id for text in texts]
    with pytest.raises(ConfigError, match="reembed"):
        await workspace.pending(NEW)
    assert await workspace.begin_reembedding(NEW) == 50
    assert not await workspace.finish_reembedding(NEW)
    assert await nearest(workspace, texts[7], MODEL) == texts[7]

    # Writers of both models, a deletion and a change go on meanwhile.
    await workspace.add(memory_of("by the old"), chunks_of("by the old"))
    await workspace.add(memory_of("by the new", model=NEW), chunks_of("by the new", model=NEW))
    await workspace.delete(ids[0], now=NOW)
    await workspace.update(memory_of("changed", id=ids[1]), chunks_of("changed"))
    assert await nearest(workspace, "by the old", MODEL) == "by the old"
    assert await workspace.begin_reembedding(NEW) == 50
    assert await fill(workspace, NEW) == 50
    assert await workspace.finish_reembedding(NEW)
    assert await workspace.finish_reembedding(NEW)

    assert await workspace.model() == NEW
    for text in ("by the old", "by the new", "changed", texts[7]):
        assert await nearest(workspace, text, NEW) == text
    with pytest.raises(ConfigError, match="reembed"):
        await workspace.search_vectors(vector_of("x"), MODEL, count=1)
    info = await workspace.info()
    assert info.pending == 0
    assert await store.connection.read("VCARD", workspace._space.keys.vectors(2)) == info.chunks == 51
    assert await store.connection.read("EXISTS", workspace._space.keys.vectors(1)) == 0


async def test_a_draft_that_sees_the_model_change_lacks_nothing(store: Store, workspace: Workspace) -> None:
    await workspace.add(memory_of("text"), chunks_of("text"))
    chunks = chunks_of(LONG)
    async with workspace.open_draft(memory_of(LONG), len(chunks)) as draft:
        await draft.append(chunks[:30])
        await workspace.begin_reembedding(NEW)
        await draft.append(chunks[30:60])
        await fill(workspace, NEW)
        assert not await workspace.finish_reembedding(NEW)  # the draft is pending, too
        await draft.publish(chunks[60:])
    assert await fill(workspace, NEW) == len(chunks)
    assert await workspace.finish_reembedding(NEW)
    assert await store.connection.read("VCARD", workspace._space.keys.vectors(2)) == len(chunks) + 1


async def test_another_new_model_starts_afresh(workspace: Workspace) -> None:
    await workspace.add(memory_of("text"), chunks_of("text"))
    await workspace.begin_reembedding(NEW)
    await fill(workspace, NEW)
    other = EmbeddingModel("best", 16)
    assert await workspace.begin_reembedding(other) == 1
    assert not await workspace.finish_reembedding(NEW)
    await fill(workspace, other)
    assert await workspace.finish_reembedding(other)
    assert await nearest(workspace, "text", other) == "text"


async def test_there_is_nothing_to_make_anew_where_nothing_was_made(workspace: Workspace) -> None:
    model = EmbeddingModel("some model", 3)
    assert await workspace.begin_reembedding(model) == 0
    assert await workspace.finish_reembedding(model)
