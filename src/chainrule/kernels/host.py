"""Gram matrices on the host: built, factored and inverted in one piece of memory.

A fit of n points needs n² numbers and n³/3 multiplications, its gradient 2n³/3 more; nothing else counts. So the lower
half of the matrix is computed in square tiles by one compiled program, LAPACK factors it where it lies, and the inverse
takes the place of the factor. The kernel is differentiated tile by tile against the gradient of the matrix, which is
never stored. Of all these matrices only the lower half is right.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import blas, lapack

from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import file_size
from chainrule.core.types import Array
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.positive import JITTERS, not_positive

TILE = 384
"""Most rows of a tile: a tile and what it is made of stay in a second-level cache."""
_STEP = 16
SMALL = 128
"""Rows up to which a matrix is inverted without threads: where cores are busy, waiting for them costs the most."""
MOST = 20_000
"""Points whose kernel matrix is stored."""

Square = Float[np.ndarray, "size size"]


def check_size(where: str, rows: int) -> None:
    """Refuse more points than one matrix should hold.

    >>> check_size("fit", 50_000)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: fit: the kernel matrix of 50,000 points takes 20.0 GB of memory; the most ...
           for so many points: SparseGaussianProcess, whose memory grows with their number alone
    """
    if rows > MOST:
        raise ArgumentError(
            f"{where}: the kernel matrix of {rows:,} points takes {file_size(8 * rows * rows)} of memory; the most "
            f"is {MOST:,} points",
            remedy="for so many points: SparseGaussianProcess, whose memory grows with their number alone",
        )


class RowTiles(NamedTuple):
    """Rows in tiles of one size; the last is filled up."""

    size: int
    starts: tuple[int, ...]
    rows: int

    def part(self, values: np.ndarray, tile: int) -> np.ndarray:
        """The rows of a tile, filled with its first row where there are none left."""
        start = self.starts[tile]
        found = values[start : start + self.size]
        return found if len(found) == self.size else _lengthened(found, self.size)

    def span(self, tile: int) -> slice:
        """Where the rows of a tile are."""
        return slice(self.starts[tile], min(self.starts[tile] + self.size, self.rows))


def cut(rows: int, most: int = TILE) -> RowTiles:
    """Rows in as few tiles as have `most` rows, all of one size: a multiple of 16, for few programs.

    >>> cut(1100, 512).size, cut(1100, 512).starts
    (368, (0, 368, 736))
    """
    tiles = -(-rows // most)
    size = _rounded(-(-rows // tiles))
    return RowTiles(size, tuple(range(0, rows, size)), rows)


def _rounded(rows: int) -> int:
    return -(-rows // _STEP) * _STEP


def _lengthened(values: np.ndarray, rows: int) -> np.ndarray:
    """The rows, and the first again until there are so many."""
    return np.concatenate([values, np.broadcast_to(values[:1], (rows - len(values), *values.shape[1:]))])


@eqx.filter_jit
def _tile(kernel: Kernel, x: Array, y: Array) -> Array:
    return kernel.tile(x, y)


def lower_gram(kernel: Kernel, x: Float[np.ndarray, "rows features"], noise: Any = 0.0) -> Square:
    """The Gram matrix with noise on its diagonal, in LAPACK's order. Call it where double precision is on."""
    tiles = cut(len(x))
    matrix = np.empty((len(x), len(x)), order="F")
    turned = matrix.T  # in the order of the tiles, so that they are copied row by row
    parts = [jnp.asarray(tiles.part(x, i)) for i in range(len(tiles.starts))]
    for i, rows in enumerate(map(tiles.span, range(len(parts)))):
        # All tiles of a row are under way before the first is copied.
        for j, found in enumerate([_tile(kernel, parts[j], parts[i]) for j in range(i + 1)]):
            columns = tiles.span(j)
            turned[columns, rows] = np.asarray(found)[
                : columns.stop - columns.start, : rows.stop - rows.start
            ]
    matrix[np.diag_indices(len(x))] += noise
    return matrix


def cross_gram(
    kernel: Kernel, x: Float[np.ndarray, "rows features"], y: Float[np.ndarray, "columns features"]
) -> Float[np.ndarray, "rows columns"]:
    """The kernel of every pair, in LAPACK's order; sizes are rounded up for the compiler."""
    size = 1 << max(len(y) - 1, 0).bit_length()
    found = _tile(kernel, jnp.asarray(_lengthened(y, size)), jnp.asarray(_lengthened(x, _rounded(len(x)))))
    # The transposed of a row-major matrix is one in LAPACK's order; this one may be written to.
    return np.array(np.asarray(found)[: len(y), : len(x)], order="C").T


class Lower(NamedTuple):
    """The lower factor of a matrix; above the diagonal stands whatever was there."""

    matrix: Square
    jitter: float
    """What had to be added to the diagonal."""

    @property
    def log_det(self) -> float:
        """The logarithm of the determinant of the matrix that was factored."""
        return 2 * float(np.log(np.diagonal(self.matrix)).sum())

    def solve(self, b: Float[np.ndarray, " size *columns"]) -> Float[np.ndarray, " size *columns"]:
        """`(L L')^-1 b`."""
        found, info = lapack.dpotrs(self.matrix, b, lower=1)
        assert info == 0, "arguments are sound"
        return np.asarray(found).reshape(b.shape)

    def whiten(self, b: Float[np.ndarray, "size columns"]) -> Float[np.ndarray, "size columns"]:
        """`L^-1 b`, in the place of `b` where its order allows."""
        return np.asarray(blas.dtrsm(1.0, self.matrix, b, lower=1, overwrite_b=1))

    def inverted(self) -> Square:
        """`(L L')^-1` in the place of the factor, which is gone."""
        if len(self.matrix) <= SMALL:
            half = np.tril(lapack.dtrtri(self.matrix, lower=1)[0])
            return np.einsum("ki,kj->ij", half, half)
        found, info = lapack.dpotri(self.matrix, lower=1, overwrite_c=1)
        assert info == 0, "a factor has no zero on its diagonal"
        return np.asarray(found)

    def inverse_diagonal(self, *, keep: bool = True) -> Float[np.ndarray, " size"]:
        """The diagonal of `(L L')^-1`; the factor is gone unless it is to be kept."""
        found, info = lapack.dtrtri(self.matrix, lower=1, overwrite_c=not keep)
        assert info == 0, "a factor has no zero on its diagonal"
        return np.array([below @ below for below in (found[i:, i] for i in range(len(found)))])


def factor(build: Callable[[], Square], name: str = "K") -> Lower:
    """The factor of the matrix that `build` makes, in its place, with the least jitter of the ladder that it needs.

    An attempt that fails leaves nothing of the matrix, so that it is built again.
    """
    for jitter in JITTERS:
        matrix = build()
        added = jitter * float(np.diagonal(matrix).mean())
        if added:
            matrix[np.diag_indices(len(matrix))] += added
        found, info = lapack.dpotrf(matrix, lower=1, overwrite_a=1, clean=0)
        if info == 0:
            return Lower(np.asarray(found), added)
    matrix = build()
    raise not_positive(np.tril(matrix) + np.tril(matrix, -1).T, name)


@eqx.filter_jit
def _pull(
    kernel: Kernel, x: Array, y: Array, left: Array, right: Array, base: Array, diagonal: bool
) -> Kernel:
    cotangent = left @ right.T + base
    # The kernel is symmetric: an entry on one side of the diagonal counts for its mirror image, too.
    cotangent = jnp.triu(2 * cotangent, 1) + jnp.diag(jnp.diagonal(cotangent)) if diagonal else 2 * cotangent
    found: Kernel = eqx.filter_vjp(lambda k: k.tile(x, y), kernel)[1](cotangent)[0]
    return found


def pulled_back(
    kernel: Kernel,
    x: Float[np.ndarray, "rows features"],
    left: Float[np.ndarray, "rows rank"],
    right: Float[np.ndarray, "rows rank"],
    base: Square,
    weight: float,
) -> Kernel:
    """The gradient of `sum(G * gram)` in the parameters of the kernel, `G = left right' + weight base` symmetric.

    Of `base` the lower half is read. Call it where double precision is on.
    """
    tiles = cut(len(x))
    numbers = range(len(tiles.starts))
    parts = [jnp.asarray(tiles.part(x, i)) for i in numbers]
    lefts, rights = ([jnp.asarray(_filled(tiles, a, i)) for i in numbers] for a in (left, right))
    total: Kernel | None = None
    turned = base.T  # its lower half is the upper one of this, whose rows lie together
    for i in numbers:
        columns = tiles.span(i)
        for j in range(i + 1):
            rows = tiles.span(j)
            block = np.zeros((tiles.size, tiles.size))
            np.multiply(
                turned[rows, columns],
                weight,
                out=block[: rows.stop - rows.start, : columns.stop - columns.start],
            )
            found = _pull(kernel, parts[j], parts[i], lefts[j], rights[i], jnp.asarray(block), i == j)
            total = found if total is None else jax.tree.map(jnp.add, total, found)
    assert total is not None, "there are points"
    return total


def _filled(tiles: RowTiles, values: np.ndarray, tile: int) -> np.ndarray:
    """The rows of a tile, filled with zeros."""
    part = values[tiles.span(tile)]
    return np.concatenate([part, np.zeros((tiles.size - len(part), values.shape[1]))])


__all__ = ["MOST", "Lower", "check_size", "cross_gram", "factor", "lower_gram", "pulled_back"]
