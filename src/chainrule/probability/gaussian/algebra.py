"""What stays normal: affine images, independent sums, marginals; and when normal variables are independent.

Reference: Bishop, Pattern Recognition and Machine Learning, 2006, section 2.3.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.matrices import rounding
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.gaussian.covariances import checked_matrix, checked_normal


class Moments(NamedTuple):
    """Mean and covariance of a normal distribution."""

    mean: Float[Array, " size"]
    covariance: Float[Array, "size size"]


def affine(mean: Any, covariance: Any, matrix: Any, shift: Any = 0.0) -> Moments:
    """The distribution N(A m + b, A C Aᵀ) of A X + b; A may be wide, tall or singular.

    >>> found = affine([1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]], 3.0)
    >>> found.mean.tolist(), found.covariance.tolist()
    ([6.0], [[2.0]])
    """
    centre, spread = checked_normal("affine", mean, covariance)
    image = floating(matrix)
    if image.ndim != 2 or image.shape[1] != len(centre):
        raise ArgumentError(
            f"affine(matrix): shape {image.shape} does not fit a mean of shape {centre.shape}",
            remedy=f"give a matrix of {len(centre)} columns",
        )
    offset = jnp.broadcast_to(floating(shift), image.shape[:1])
    return Moments(image @ centre + offset, image @ spread @ image.T)


def add(first: tuple[Any, Any], second: tuple[Any, Any]) -> Moments:
    """The distribution of X + Y for *independent* normal X and Y, each given as (mean, covariance).

    >>> one = ([0.0], [[1.0]])
    >>> total = add(one, one)
    >>> affine(*total, [[0.5**0.5]]).covariance.round(6).tolist()  # (X + Y)/√2 is distributed like X
    [[1.0]]
    """
    (mean, covariance), (other_mean, other) = (checked_normal("add", *one) for one in (first, second))
    if mean.shape != other_mean.shape:
        raise ArgumentError(
            f"add: a normal of {len(mean)} and one of {len(other_mean)} variables have no sum"
        )
    return Moments(mean + other_mean, covariance + other)


def marginal(mean: Any, covariance: Any, indices: Sequence[int]) -> Moments:
    """The distribution of some of the variables, in the order in which they are named.

    >>> marginal([1.0, 2.0, 3.0], jnp.diag(jnp.array([1.0, 4.0, 9.0])), [2, 0]).mean.tolist()
    [3.0, 1.0]
    """
    centre, spread = checked_normal("marginal", mean, covariance)
    chosen = index_set("marginal", "indices", indices, len(centre))
    return Moments(centre[chosen], spread[chosen[:, None], chosen[None]])


class Independence(NamedTuple):
    """Whether groups of jointly normal variables are independent, and the pair of variables that says most about it."""

    value: bool
    largest: float
    """The largest correlation between variables of two groups, as a positive number."""
    pair: tuple[int, int]
    """The two variables it is the correlation of."""


def independent(
    covariance: Any, groups: Sequence[Sequence[int]], tolerance: float | None = None
) -> Independence:
    """Whether groups of *jointly* normal variables are independent: their covariance is block-diagonal.

    A correlation of at most `tolerance` counts as zero (default: what rounding explains). Of variables that are not
    jointly normal no correlation says so: `sign_flipped_pair` is uncorrelated, and one variable gives away the size
    of the other.

    >>> independent([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]], [[0], [1, 2]])
    Independence(value=False, largest=0.5, pair=(0, 1))
    """
    matrix = np.asarray(checked_matrix("independent", "covariance", covariance), dtype=np.float64)
    least = rounding(floating(covariance)) if tolerance is None else tolerance
    taken = index_set("independent", "groups", [index for group in groups for index in group], len(matrix))
    if len(groups) < 2 or not all(len(group) for group in groups):
        raise ArgumentError("independent(groups): two groups of at least one variable are needed")
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    scale = np.sqrt(np.diag(matrix))
    scale = np.where(scale > 0, scale, 1.0)  # a constant is independent of everything; its row is zero
    correlation = np.abs(matrix / scale[:, None] / scale[None])[taken[:, None], taken[None]]
    across = np.where(owner[:, None] < owner[None], correlation, -1.0)
    row, column = np.unravel_index(across.argmax(), across.shape)
    largest = float(across[row, column])
    return Independence(largest <= least, largest, (int(taken[row]), int(taken[column])))


def sign_flipped_pair(key: Key, n: int) -> Float[Array, "n 2"]:
    """X ~ N(0, 1) and Y = S X with a random sign S: both standard normal, uncorrelated, and not independent.

    The two are not *jointly* normal: X + Y is zero half of the time. E[X²Y²] = 3 where independence would give 1.

    >>> x, y = sign_flipped_pair(jax.random.key(0), 1000).T
    >>> bool(abs(jnp.corrcoef(x, y)[0, 1]) < 0.1), bool((abs(x) == abs(y)).all())
    (True, True)
    """
    normal, sign = jax.random.split(key)
    x = jax.random.normal(normal, (whole("sign_flipped_pair", "n", n),))
    return jnp.stack([x, x * jax.random.rademacher(sign, x.shape, x.dtype)], axis=-1)


def index_set(where: str, name: str, indices: Sequence[int], size: int) -> np.ndarray:
    """Indices of different variables as an array; negative ones count from the end.

    >>> index_set("marginal", "indices", [0, 5], 3)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: marginal(indices): there is no variable 5 among 3
           variables are numbered 0 to 2
    """
    found = [whole(where, name, index, least=-size) for index in indices]
    for index in found:
        if index >= size:
            raise ArgumentError(
                f"{where}({name}): there is no variable {index} among {size}",
                remedy=f"variables are numbered 0 to {size - 1}",
            )
    counted = np.array([index % size for index in found], dtype=np.int64)
    values, counts = np.unique(counted, return_counts=True)
    if (counts > 1).any():
        raise ArgumentError(f"{where}({name}): variable {values[counts > 1][0]} is named twice")
    return counted


__all__ = [
    "Independence",
    "Moments",
    "add",
    "affine",
    "independent",
    "index_set",
    "marginal",
    "sign_flipped_pair",
]
