"""A tensor toolbox: contraction with explained mistakes, tensor products, unfoldings, and rank as an interval.

The *order* of a tensor is its number of axes, its *shape* their sizes; its *rank* is the least number of pure tensors
(outer products of vectors) that sum to it, which is something else entirely. Rank is known exactly for matrices and
for real 2×2×2 tensors (de Silva and Lim, 2008, arXiv:math/0607647); otherwise unfoldings bound it from below and a
decomposition that was found bounds it from above.
"""

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array

_TOLERANCE = 1e-9
_FIT = 1e-7
_LARGEST_FACTOR = 1e3
_SWEEPS = 2000
_LOOK = 100
_STARTS = 6


def einsum(subscripts: str, *tensors: Any) -> Array:
    """`jnp.einsum` with every mistake in the subscripts explained before anything is computed.

    Without "->" an index that occurs twice is summed; with "->" the list after it decides.

    >>> m = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> float(einsum("ii", m)), einsum("ii->i", m).tolist()
    (5.0, [1.0, 4.0])
    """
    arrays = [jnp.asarray(tensor) for tensor in tensors]
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    where = f'einsum("{subscripts}")'
    if len(terms) != len(arrays):
        raise ArgumentError(f"{where}: names {len(terms)} tensors, but {len(arrays)} were given")
    if any(letter not in string.ascii_letters for letter in "".join(terms) + output):
        raise ArgumentError(f"{where}: an axis is named by one letter", remedy="write for example ij,jk->ik")
    sizes: dict[str, tuple[int, str]] = {}
    for number, (term, array) in enumerate(zip(terms, arrays, strict=True)):
        if len(term) != array.ndim:
            raise ArgumentError(
                f'{where}: "{term}" names {len(term)} axes, but tensor {number} has order {array.ndim} '
                f"(shape {array.shape})"
            )
        for axis, (letter, size) in enumerate(zip(term, array.shape, strict=True)):
            label = f"axis {axis} of tensor {number}"
            known, before = sizes.setdefault(letter, (size, label))
            if known != size:
                raise ArgumentError(
                    f'{where}: "{letter}" has size {known} as {before} and size {size} as {label}'
                )
    if arrow:
        for letter in output:
            if letter not in sizes:
                raise ArgumentError(f'{where}: "{letter}" in the output is an axis of no tensor')
            if output.count(letter) > 1:
                raise ArgumentError(f'{where}: "{letter}" occurs twice in the output')
    return jnp.einsum(subscripts, *arrays)


def product(*tensors: Any) -> Array:
    """The tensor product, whose entries are all products of entries: associative, not commutative.

    >>> product([1.0, 2.0], [3.0, 4.0, 5.0]).shape
    (2, 3)
    """
    result = jnp.ones(())
    for tensor in tensors:
        result = jnp.tensordot(result, jnp.asarray(tensor), axes=0)
    return result


def unfold(tensor: Any, axis: int) -> Array:
    """The matrix whose rows are the slices along one axis.

    >>> unfold(jnp.arange(24.0).reshape(2, 3, 4), 1).shape
    (3, 8)
    """
    array = jnp.asarray(tensor)
    if not -array.ndim <= axis < array.ndim:
        raise ArgumentError(f"unfold(axis={axis}): a tensor of order {array.ndim} has no such axis")
    size = array.shape[axis]
    return jnp.moveaxis(array, axis, 0).reshape(size, math.prod(array.shape) // max(size, 1))


def unfolding_ranks(tensor: Any) -> tuple[int, ...]:
    """The matrix rank of every unfolding."""
    array = np.asarray(tensor, dtype=np.float64)
    return tuple(
        _matrix_rank(np.moveaxis(array, axis, 0).reshape(size, -1)) for axis, size in enumerate(array.shape)
    )


def is_pure(tensor: Any) -> bool:
    """Whether a tensor is one outer product of vectors: all its unfoldings have rank one.

    >>> is_pure(product([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])), is_pure(np.eye(2))
    (True, False)
    """
    return all(rank == 1 for rank in unfolding_ranks(tensor))


def hyperdeterminant(tensor: Any) -> float:
    """Cayley's hyperdeterminant of a 2×2×2 tensor.

    >>> diagonal = np.zeros((2, 2, 2)); diagonal[0, 0, 0] = diagonal[1, 1, 1] = 1
    >>> hyperdeterminant(diagonal)
    1.0
    """
    t = np.asarray(tensor, dtype=np.float64)
    if t.shape != (2, 2, 2):
        raise ArgumentError(f"hyperdeterminant: needs a tensor of shape (2, 2, 2), not {t.shape}")
    # The four pairs of opposite corners of the cube.
    a, b, c, d = (
        t[corner] * t[tuple(1 - i for i in corner)] for corner in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1))
    )
    squares = a * a + b * b + c * c + d * d
    mixed = a * b + a * c + a * d + b * c + b * d + c * d
    faces = (
        t[0, 0, 0] * t[0, 1, 1] * t[1, 0, 1] * t[1, 1, 0] + t[0, 0, 1] * t[0, 1, 0] * t[1, 0, 0] * t[1, 1, 1]
    )
    return float(squares - 2 * mixed + 4 * faces)


@final
@dataclass(frozen=True)
class Rank:
    """What is known about the rank of a tensor: it lies between `low` and `high`."""

    low: int
    high: int
    why: str

    @property
    def is_exact(self) -> bool:
        """Whether both ends agree."""
        return self.low == self.high


def rank(tensor: Any, *, seed: int = 0) -> Rank:
    """The real rank of a tensor, or an interval that holds it.

    >>> rank(np.eye(3))
    Rank(low=3, high=3, why='matrix rank')
    """
    t = np.asarray(tensor, dtype=np.float64)
    if not np.isfinite(t).all():
        raise ArgumentError("rank(tensor): it holds a value that is not finite")
    if not t.any():
        return Rank(0, 0, "zero tensor")
    if t.ndim <= 2:
        exact = _matrix_rank(t) if t.ndim == 2 else 1
        return Rank(exact, exact, "matrix rank" if t.ndim == 2 else "a vector is pure")
    below = unfolding_ranks(t)
    if t.shape == (2, 2, 2):
        return _rank_222(t, below)
    low = max(below)
    if low == 1:
        return Rank(1, 1, "all unfoldings have rank one")
    # Every slice along the longest axes is a sum of rows, so the product of the other sizes always suffices.
    most = min(math.prod(below) // one for one in below)
    for terms in range(low, most):
        if decompose(t, terms, seed=seed) is not None:
            return Rank(
                low, terms, "unfoldings below, a decomposition found by alternating least squares above"
            )
    return Rank(low, most, "unfoldings below, product of the smaller unfolding ranks above")


def decompose(tensor: Any, terms: int, *, seed: int = 0) -> list[np.ndarray] | None:
    """Factors of so many pure tensors that sum to this one, by alternating least squares; `None` if none were found.

    A fit only counts with factors of moderate size: tensors of higher rank can be approached by factors that grow
    without bound, which proves nothing about their rank.
    """
    t = np.asarray(tensor, dtype=np.float64)
    size = np.linalg.norm(t)
    random = np.random.default_rng(seed)
    for _ in range(_STARTS):
        factors = [random.normal(size=(n, terms)) for n in t.shape]
        error, before = math.inf, math.inf
        for sweep in range(_SWEEPS):
            for axis in range(t.ndim):
                others = _khatri_rao([f for i, f in enumerate(factors) if i != axis])
                rows = np.moveaxis(t, axis, 0).reshape(t.shape[axis], -1)
                factors[axis] = np.linalg.lstsq(others, rows.T, rcond=None)[0].T
            error = float(np.linalg.norm(t - compose(factors)) / size)
            if error < _FIT:
                break
            if sweep % _LOOK == _LOOK - 1:  # a start that crawls will not arrive
                if error > 0.7 * before:
                    break
                before = error
        longest = (
            math.inf if error >= _FIT else np.prod([np.linalg.norm(f, axis=0) for f in factors], axis=0).max()
        )
        if longest < _LARGEST_FACTOR * size:
            return factors
    return None


def compose(factors: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of pure tensors with these factors, one column of each for every term."""
    shape = tuple(len(f) for f in factors)
    return _khatri_rao(factors).sum(axis=1).reshape(shape)


def _khatri_rao(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Column by column outer products, flattened with the last factor changing fastest."""
    result = factors[0]
    for factor in factors[1:]:
        result = (result[:, None, :] * factor[None, :, :]).reshape(-1, result.shape[1])
    return result


def _rank_222(t: np.ndarray, below: tuple[int, ...]) -> Rank:
    value = hyperdeterminant(t)
    # The hyperdeterminant is homogeneous of degree four.
    if abs(value) <= _TOLERANCE * np.abs(t).max() ** 4:
        exact = 3 if below == (2, 2, 2) else max(below)
        return Rank(exact, exact, "hyperdeterminant zero")
    exact = 2 if value > 0 else 3
    return Rank(exact, exact, f"hyperdeterminant {'positive' if value > 0 else 'negative'}")


def _matrix_rank(matrix: np.ndarray) -> int:
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > _TOLERANCE * max(values.max(initial=0.0), np.finfo(float).tiny)).sum())


__all__ = [
    "Rank",
    "compose",
    "decompose",
    "einsum",
    "hyperdeterminant",
    "is_pure",
    "product",
    "rank",
    "unfold",
    "unfolding_ranks",
]
