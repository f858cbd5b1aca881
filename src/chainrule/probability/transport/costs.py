"""Points, their weights, and what it costs to move mass between them: named costs, functions of two points, matrices.

A cost of two sets of rows is the matrix of all pairs. `euclidean` is |x - y|, `sqeuclidean` |x - y|² (without a half),
`power` |x - y|^p, `cosine` one minus the cosine of the angle. All have finite derivatives where two points meet: those
of the norm are taken as zero there, as the diagonal of every cost of a set with itself needs.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float
from chainrule.probability.distances import squared_distances
from chainrule.probability.distributions.parameters import finite, floating, require

Cost: TypeAlias = Any
"""The name of a cost, a function of two points, or a matrix of all costs."""
Pairwise: TypeAlias = Callable[[Array, Array], Array]
"""All costs of two sets of rows `[n, dim]` and `[m, dim]`, as a matrix `[n, m]`."""

_BY_PRODUCT = 16
"""From so many coordinates on squared distances come from one matrix product."""


def cost_matrix(x: Any, y: Any, cost: Cost = "sqeuclidean", p: float = 2.0) -> Float[Array, "some others"]:
    """The costs of all pairs of rows, or a given matrix once its shape fits.

    `cost` is "euclidean", "sqeuclidean", "power" (with exponent `p`), "cosine", a function of two points that JAX can
    trace, or a matrix.

    >>> cost_matrix([[0.0], [1.0]], [[3.0]]).tolist(), cost_matrix([[0.0], [1.0]], [[3.0]], "euclidean").tolist()
    ([[9.0], [4.0]], [[3.0], [2.0]])
    >>> cost_matrix([[0.0, 1.0]], [[2.0, 0.0]], lambda x, y: jnp.abs(x - y).sum()).tolist()
    [[3.0]]
    """
    first, second = two_sets("cost_matrix", x, y)
    if not isinstance(cost, str) and not callable(cost):
        given = finite("cost_matrix", "cost", floating(cost))
        if given.shape != (len(first), len(second)):
            raise ArgumentError(
                f"cost_matrix(cost): shape {given.shape} does not fit {len(first)} and {len(second)} points",
                remedy="give a row for each point of x and a column for each of y",
            )
        return given
    return pairwise(cost, p)(first, second)


def pairwise(cost: str | Callable[[Array, Array], Any] = "sqeuclidean", p: float = 2.0) -> Pairwise:
    """The function that makes a matrix of costs from two sets of rows; arguments as for `cost_matrix`.

    >>> pairwise("power", 3)(jnp.zeros((1, 2)), jnp.array([[0.0, 2.0]])).tolist()
    [[8.0]]
    """
    if callable(cost):
        function = cost
        return jax.vmap(jax.vmap(function, in_axes=(None, 0)), in_axes=(0, None))
    if cost == "power":
        return _power(p)
    if not isinstance(cost, str) or cost not in _NAMED:
        names = [*_NAMED, "power"]
        raise ArgumentError(
            f"cost={cost!r}: unknown cost{suggest(cost, names) if isinstance(cost, str) else ''}",
            remedy=f"one of {', '.join(names)}, a function of two points, or a matrix",
        )
    return _NAMED[cost]


def two_sets(where: str, x: Any, y: Any) -> tuple[Array, Array]:
    """Two sets of points as rows of equally many finite numbers, of one floating type.

    >>> two_sets("exact", [[0.0]], [0.0])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: exact: y of shape (1,), x of shape (1, 1)
           give rows of equally many numbers; points on a line are x[:, None]
    """
    first, second = (finite(where, name, floating(rows)) for name, rows in (("x", x), ("y", y)))
    for name, rows in (("x", first), ("y", second)):
        if rows.ndim != 2 or not rows.size or rows.shape[1] != first.shape[-1]:
            against = f", x of shape {first.shape}" if name == "y" else ""
            raise ArgumentError(
                f"{where}: {name} of shape {rows.shape}{against}",
                remedy="give rows of equally many numbers"
                + ("; points on a line are x[:, None]" if rows.ndim == 1 else ""),
            )
    dtype = jnp.promote_types(first.dtype, second.dtype)
    return first.astype(dtype), second.astype(dtype)


def weights_of(
    where: str, name: str, weights: Any, count: int | tuple[int, ...], dtype: Any = None
) -> Float[Array, "*batch points"]:
    """Weights of so many points, none negative; equal shares of one where none are given.

    `count` may be a shape: points are along its last axis, and leading axes, a batch, may be left out of the weights.

    >>> weights_of("exact", "a", None, 4).tolist()
    [0.25, 0.25, 0.25, 0.25]
    >>> weights_of("exact", "a", [0.5, -0.5], 2)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: exact: a[1] is -0.5; a must be finite and not negative
    """
    shape = (count,) if isinstance(count, int) else count
    if weights is None:
        return jnp.full(shape, 1 / shape[-1], dtype or jnp.result_type(float))
    mass = floating(weights)
    if mass.shape not in (shape, shape[-1:]):
        raise ArgumentError(
            f"{where}({name}): shape {mass.shape} does not fit points of shape {shape}",
            remedy="give one weight for each point",
        )
    mass = require(where, name, mass, lambda v: (v >= 0) & (v < np.inf), "be finite and not negative")
    return jnp.broadcast_to(mass.astype(dtype or mass.dtype), shape)


def euclidean(x: Float[Array, "some dim"], y: Float[Array, "others dim"]) -> Float[Array, "some others"]:
    """Distances of all pairs; where two points meet their derivative is taken as zero.

    >>> euclidean(jnp.zeros((1, 2)), jnp.array([[3.0, 4.0]])).tolist()
    [[5.0]]
    """
    return _root(squared_distances(x, y))


def sqeuclidean(x: Float[Array, "some dim"], y: Float[Array, "others dim"]) -> Float[Array, "some others"]:
    """Squared distances of all pairs; those of long vectors by a matrix product, about the mean of both.

    >>> sqeuclidean(jnp.zeros((1, 2)), jnp.array([[3.0, 4.0]])).tolist()
    [[25.0]]
    """
    if x.shape[1] < _BY_PRODUCT:
        return squared_distances(x, y)
    centre = jax.lax.stop_gradient((x.mean(axis=0) + y.mean(axis=0)) / 2)
    first, second = x - centre[None], y - centre[None]
    squares = jnp.square(first).sum(axis=1)[:, None] + jnp.square(second).sum(axis=1)[None]
    found = squares - 2 * jnp.matmul(first, second.T, precision="highest")
    # Rounding must not leave a negative cost; the derivative stays that of the whole expression.
    return found + jax.lax.stop_gradient(jnp.maximum(-found, 0.0))


def cosine(x: Float[Array, "some dim"], y: Float[Array, "others dim"]) -> Float[Array, "some others"]:
    """One minus the cosine of the angle between every pair, from 0 to 2; a zero vector is at right angles to all.

    >>> cosine(jnp.array([[1.0, 0.0]]), jnp.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.0, 1.0]]
    """
    return 1 - jnp.matmul(_unit(x), _unit(y).T, precision="highest")


def _power(p: float) -> Pairwise:
    if not 0 < p < float("inf"):
        raise ArgumentError(f"cost='power' with p={p}: the exponent must be positive and finite")
    if p == 2:
        return sqeuclidean

    def power(x: Array, y: Array) -> Array:
        distance = euclidean(x, y)
        if p == 1:
            return distance
        apart = distance > 0
        return jnp.where(apart, jnp.where(apart, distance, 1.0) ** p, 0.0)

    return power


def _root(squares: Array) -> Array:
    apart = squares > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1.0)), 0.0)


def _unit(rows: Array) -> Array:
    length = _root(jnp.square(rows).sum(axis=1, keepdims=True))
    return rows / jnp.where(length > 0, length, 1.0)


_NAMED: dict[str, Pairwise] = {"euclidean": euclidean, "sqeuclidean": sqeuclidean, "cosine": cosine}

__all__ = [
    "Cost",
    "Pairwise",
    "cosine",
    "cost_matrix",
    "euclidean",
    "pairwise",
    "sqeuclidean",
    "two_sets",
    "weights_of",
]
