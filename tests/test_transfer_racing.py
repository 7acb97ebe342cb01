"""Imports while others write the same memories: each version once, and nobody's own words overwritten."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from tests.engines import FakeEmbedder, open_engine_with
from zapomni.engine import MemoryEngine, open_engine
from zapomni.engine.transfer import Imported, Outcome
from zapomni.transfer import Record, Version, jsonl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from zapomni.config import Settings

DAY = datetime(2026, 5, 1, tzinfo=UTC)


def record_of(*texts: str) -> Record:
    """Return a memory that has been each of these texts."""
    moments = [DAY + timedelta(days=number) for number in range(len(texts))]
    history = [
        Version(version=number, text=text, created_at=moment)
        for number, (text, moment) in enumerate(zip(texts, moments, strict=True), start=1)
    ]
    return Record(
        id=str(uuid.uuid4()),
        text=texts[-1],
        created_at=moments[0],
        updated_at=moments[-1] if len(texts) > 1 else None,
        version=len(texts),
        history=tuple(history[:-1]),
    )


async def texts_of(engine: MemoryEngine) -> dict[str | None, list[str]]:
    """Return what each memory has been, the earliest at first."""
    return {
        record.id: [*(version.text for version in record.history), record.text]
        async for record in engine.export_memories()
    }


@pytest.fixture
async def own(store_settings: Settings) -> AsyncIterator[Settings]:
    """Settings for an empty workspace."""
    settings = attrs.evolve(store_settings, workspace=f"test-{uuid.uuid4().hex}")
    async with open_engine(settings) as engine:
        await engine.workspace_info()
        yield settings
        await engine.delete_workspace(settings.workspace)


async def test_two_imports_of_one_file_write_every_version_once(own: Settings, tmp_path: Path) -> None:
    records = [record_of(*(f"note {number}, version {version}" for version in range(4))) for number in range(15)]
    file = tmp_path / "memories.jsonl"
    file.write_bytes(jsonl.HEADER + b"".join(map(jsonl.encode, records)))
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ZAPOMNI_")},
        "HOME": str(tmp_path),
        "ZAPOMNI_DATA_DIR": str(own.data_dir),
        "ZAPOMNI_WORKSPACE": own.workspace,
        **({} if own.falkordb_url is None else {"ZAPOMNI_FALKORDB_URL": own.falkordb_url}),
    }

    async def bring_in() -> None:
        command = [sys.executable, "-m", "zapomni", "import", str(file), "--json"]
        done = await trio.run_process(command, env=environ, capture_stdout=True, stderr=subprocess.DEVNULL)
        told.append(json.loads(done.stdout))

    told: list[object] = []
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(bring_in)
        async with open_engine(own) as engine:
            found = await texts_of(engine)
    assert found == {record.id: [*(version.text for version in record.history), record.text] for record in records}
    assert len(told) == 3


async def import_beside(
    own: Settings, record: Record, meddle: Callable[[MemoryEngine], Awaitable[object]], *, begun: bool
) -> tuple[Imported, dict[str | None, list[str]]]:
    """Let another engine meddle while one has a version in its hands; return the outcome, and what is there then.

    Where the import has begun, the first version is there, and it is the second.
    """
    embedder = FakeEmbedder()
    imported: list[Imported] = []

    async def bring_in() -> None:
        imported.append(await importing.import_memory(record))

    with trio.fail_after(30):
        async with open_engine_with(own, embedder) as importing, open_engine_with(own, FakeEmbedder()) as using:
            if begun:
                first = record.history[0].text
                await importing.import_memory(attrs.evolve(record, text=first, history=(), updated_at=None, version=1))
            embedder.close_gate()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bring_in)
                await embedder.waiting.wait()
                await meddle(using)
                embedder.gate.set()
            (outcome,) = imported
            return outcome, await texts_of(using)


async def test_a_change_between_two_imported_versions_stays(own: Settings) -> None:
    record = record_of("one", "two", "three")
    memory_id = record.id
    assert memory_id is not None
    outcome, held = await import_beside(
        own, record, lambda using: using.update_memory(memory_id, text="my own"), begun=True
    )
    assert held == {memory_id: ["one", "my own"]}
    assert outcome == Imported(Outcome.REFUSED, memory_id, "it was changed here, and stays as it is here")


async def test_a_memory_that_is_deleted_between_two_imported_versions_stays_deleted(own: Settings) -> None:
    record = record_of("one", "two", "three")
    memory_id = record.id
    assert memory_id is not None
    outcome, held = await import_beside(own, record, lambda using: using.delete_memory(memory_id), begun=True)
    assert held == {}
    assert outcome == Imported(Outcome.REFUSED, memory_id, "it was deleted here, and can be restored")


async def test_a_memory_that_somebody_else_brings_in_first_is_judged_again(own: Settings) -> None:
    """Its text here is another one than in the file, which a receipt for the id alone would not tell."""
    record = record_of("theirs")
    mine = attrs.evolve(record, text="mine")
    assert record.id is not None
    outcome, held = await import_beside(own, record, lambda using: using.import_memory(mine), begun=False)
    assert held == {record.id: ["mine"]}
    assert outcome == Imported(Outcome.REFUSED, record.id, "it was changed here, and stays as it is here")
