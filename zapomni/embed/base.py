"""What an embedder is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into unit vectors whose dot product says how near they are in meaning.

    Every method may raise `EmbeddingError`, and every one can be cancelled. Nothing is loaded and nobody is called
    before the first of them.
    """

    @property
    def name(self) -> str:
        """Identifies the model: vectors under different names cannot be compared."""

    @property
    def dimension(self) -> int:
        """How long a vector is; known once `ready` has returned."""

    @property
    def weight(self) -> float:
        """How much its scores should count against those of the words, of 1 for both."""

    @property
    def multilingual(self) -> bool:
        """Whether it knows other languages than English."""

    async def ready(self) -> None:
        """Load the model, or check that the server has it. Quick when it was done before."""

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row for each passage."""

    async def embed_query(self, text: str, *, importance: Mapping[str, float] | None = None) -> NDArray[np.float32]:
        """Return the vector to search with.

        `importance` says how much a term of the query tells, from 0 to 1 (see `terms.importance`); a model that
        weighs words itself ignores it.
        """
