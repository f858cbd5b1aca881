"""Mean and deviation of arrays that may be larger than memory, piece by piece."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int, Shaped

from chainrule.data.division import Positions
from chainrule.data.scaling import Scaling

CHUNK_BYTES = 2**24


def chunks(
    array: Shaped[np.ndarray, "rows ..."], rows: Int[np.ndarray, " chosen"] | None = None
) -> Iterator[np.ndarray]:
    """All or some rows of an array in pieces, so that a memory map is never in memory as a whole.

    >>> [len(piece) for piece in chunks(np.zeros((3, CHUNK_BYTES // 16)))]
    [2, 1]
    """
    step = max(1, CHUNK_BYTES // max(1, array[:1].nbytes))
    for start in range(0, len(array) if rows is None else len(rows), step):
        part = slice(start, start + step)
        yield array[part] if rows is None else array[rows[part]]


def moments(
    array: Shaped[np.ndarray, "rows ..."], rows: Positions
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Mean and standard deviation over the given rows (and any axes between), one for each entry of the last axis.

    >>> mean, deviation = moments(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([0, 1]))
    >>> mean.tolist(), deviation.tolist()
    ([2.0, 5.0], [1.0, 0.0])
    """
    shape = array.shape[-1:] if array.ndim > 1 else ()
    count = len(rows) * int(np.prod(array.shape[1:-1], dtype=np.int64))
    total, square = np.zeros(shape), np.zeros(shape)
    for piece in chunks(array, rows):
        total += piece.astype(np.float64).reshape(-1, *shape).sum(axis=0)
    mean = total / count
    for piece in chunks(array, rows):
        square += ((piece.astype(np.float64).reshape(-1, *shape) - mean) ** 2).sum(axis=0)
    return np.asarray(mean), np.asarray(np.sqrt(square / count))


def standardising(mean: np.ndarray, deviation: np.ndarray) -> Scaling:
    """To mean 0 and variance 1; what does not vary is only shifted."""
    factor = 1 / np.where(deviation > 0, deviation, 1.0)
    return Scaling(mean, factor) if mean.ndim else Scaling(float(mean), float(factor))


__all__ = ["CHUNK_BYTES", "chunks", "moments", "standardising"]
