"""Arithmetic that every embedder ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of length 1; a row of zeros has no direction and becomes the same one for all of them."""
    import numpy as np

    rows = rows.astype(np.float32, copy=True)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    empty = lengths[:, 0] < 1e-12
    rows[empty, 0] = 1.0
    lengths[empty] = 1.0
    return np.divide(rows, lengths, out=rows)
