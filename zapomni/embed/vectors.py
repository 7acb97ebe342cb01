"""Arithmetic that every embedder ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zapomni.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def unit(rows: NDArray[np.floating[Any]], made_by: str = "the embedding model") -> NDArray[np.float32]:
    """Return rows of length 1; a row of zeros has no direction and becomes the same one for all of them.

    Raises `EmbeddingError` for rows that are no vectors, as models of half precision make them where they overflow.
    """
    import numpy as np

    rows = rows.astype(np.float64)  # in which no square of a number of single precision overflows
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise EmbeddingError(f"{made_by} sent no usable vectors: some of their numbers are not finite")
    empty = lengths[:, 0] < 1e-12
    rows[empty, 0] = 1.0
    lengths[empty] = 1.0
    vectors: NDArray[np.float32] = np.divide(rows, lengths, out=rows).astype(np.float32)
    return vectors
