"""Backup: all workspaces into one file, while clients go on writing.

A backup is of the moment at which it read which memories there were, one command. What a memory is made of never
changes afterwards: an update makes new chunks and keeps the old, a deletion keeps them, too; only purging removes
any, and waits. So the rest is read in small pages that keep nobody waiting, and belongs to that moment nevertheless.
Words are kept as posting lists, vectors as the server holds them; everything else is made again by the restore.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from zapomni import __version__
from zapomni.errors import DatabaseError
from zapomni.models import Filters
from zapomni.store import archive, facets, postings
from zapomni.store.cypher import decode, decode_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from zapomni.store.archive import Archive
    from zapomni.store.space import Space

PAGE = 200
LISTS = 500

NODES = """
UNWIND $firsts AS first
MATCH (:Chunk {number: first})<-[:HAS_CHUNK]-(m)
RETURN labels(m)[0], m.first, m.count, m.length, m.words, m.version, m.created_at, m.updated_at, m.timestamp,
       m.deleted_at, m.id, m.metadata, m.tags, m.hash, m.fingerprint, m.key, m.source
"""
VERSIONS = """
UNWIND $firsts AS first
MATCH (:Chunk {number: first})<-[:HAS_CHUNK]-(n)-[:REPLACES*1..]->(m)
RETURN 'Version', m.first, m.count, m.length, m.words, m.version, m.created_at, m.updated_at, m.timestamp,
       m.deleted_at, m.id, m.metadata, m.tags, m.hash, m.fingerprint, m.key, m.source
"""
AFTER = """
UNWIND $firsts AS first
MATCH (:Chunk {number: first})<-[:HAS_CHUNK]-(m)-[:AFTER]->(a)
RETURN m.first, a.first
"""
CHUNKS = """
MATCH (c:Chunk) WHERE c.number >= $start AND c.number < $stop
RETURN c.number, c.index, c.start, c.end, c.text ORDER BY c.number
"""
NUMBERS = 10  # of a node's fields, the ones after it are strings


async def back_up(spaces: Sequence[Space], path: Path) -> None:
    """Write all workspaces into one file."""
    async with archive.create(path) as file:
        await file.write_json(b"H", {"zapomni": __version__})
        for space in spaces:
            async with space.upkeep() as token:
                await _workspace(space, token, file)


async def _workspace(space: Space, token: str, file: Archive) -> None:
    keys, about = space.keys, await space.about()
    (hidden, data), numbers = await space.read_all(
        [("MGET", keys.hidden, keys.entry(facets.EVERY)), ("HGET", keys.counts, "next")]
    )
    last = int(numbers or 0)
    model = None if about.model is None else [about.model.name, about.model.dimension]
    header = {"name": space.name, "schema": about.schema, "model": model, "next": last}
    await file.write_json(b"W", header)
    records = facets.select([[data]], Filters())
    seen = set(facets.visible(records, hidden)["first"].tolist())
    indexed = np.zeros(last + 1, np.bool_)
    firsts = records["first"].tolist()
    for begin in range(0, len(firsts), PAGE):
        page = firsts[begin : begin + PAGE]
        # A version that is still in the index is no memory of its own: its successor brings it. A draft is purged.
        nodes = [_state(_plain(row), seen) for row in await space.ask(NODES, firsts=page)]
        _check_whole(space, seen.intersection(page) <= {node[1] for node in nodes})
        nodes = [node for node in nodes if node[0] in ("Memory", "Trash")]
        for node in nodes:
            indexed[node[1] : node[1] + node[2]] = True
        older = [_plain(row) for row in await space.ask(VERSIONS, firsts=[node[1] for node in nodes])]
        nodes = sorted([*older, *nodes], key=lambda node: node[5])  # a version after the one that it replaced
        await file.write_json(b"N", nodes)
        await file.write_json(b"A", await space.ask(AFTER, firsts=[node[1] for node in nodes]))
        for node in nodes:
            await _chunks(space, file, node[1], node[2])
            await space.keep_upkeep(token)
    await _vectors(space, token, file, np.flatnonzero(indexed), about.generation)
    await _postings(space, token, file, indexed)
    await file.write(b"E", b"")


def _plain(row: list[Any]) -> list[Any]:
    return [row[0].decode(), *row[1:NUMBERS], *(decode(cell) for cell in row[NUMBERS:])]


def _state(node: list[Any], seen: set[int]) -> list[Any]:
    """Return a memory's node as it was at the moment of the backup."""
    return ["Memory", *node[1 : NUMBERS - 1], None, *node[NUMBERS:]] if node[1] in seen else node


def _check_whole(space: Space, whole: bool) -> None:
    if not whole:
        raise DatabaseError(f"parts of workspace {space.name!r} went away during the backup; try again")


async def _chunks(space: Space, file: Archive, first: int, count: int) -> None:
    for start in range(first, first + count, PAGE):
        stop = min(start + PAGE, first + count)
        rows = await space.ask(CHUNKS, start=start, stop=stop)
        _check_whole(space, len(rows) == stop - start)
        await file.write_json(b"C", [first, [[*row[:4], decode_text(row[4])] for row in rows]])


async def _vectors(space: Space, token: str, file: Archive, numbers: NDArray[np.intp], generation: int) -> None:
    key = space.keys.vectors(generation)
    for begin in range(0, len(numbers), LISTS):
        page = numbers[begin : begin + LISTS].tolist()
        replies = await space.read_all([("VEMB", key, number, "RAW") for number in page])
        found = [(number, reply) for number, reply in zip(page, replies, strict=True) if reply is not None]
        if found:
            present = np.array([number for number, _ in found], "<u4").tobytes()
            reaches = np.array([float(reply[3]) for _, reply in found], "<f4").tobytes()
            await file.write(b"V", struct.pack("<I", len(found)) + present + reaches + b"".join(r[1] for _, r in found))
        await space.keep_upkeep(token)


async def _postings(space: Space, token: str, file: Archive, indexed: NDArray[np.bool_]) -> None:
    cursor = b"0"
    while True:
        cursor, names = await space.read("SSCAN", space.keys.index, cursor, "COUNT", LISTS)
        names = [name for name in names if not name.startswith(b"f:")]
        keys = [space.keys.entry(name.decode()) for name in names]
        parts = []
        for name, data in zip(names, await space.read("MGET", *keys) if keys else [], strict=True):
            entries = postings.entries(data)
            known = entries["number"] < len(indexed)
            kept = entries[known & indexed[np.where(known, entries["number"], 0)]].tobytes()
            if kept:
                parts.append(struct.pack("<II", len(name), len(kept)) + name + kept)
        if parts:
            await file.write(b"P", b"".join(parts))
        await space.keep_upkeep(token)
        if cursor == b"0":
            return
