"""Sliced Wasserstein distance: the mean over directions of the distance along each, where transport is sorting.

Reference: Bonneel, Rabin, Peyré and Pfister, Sliced and Radon Wasserstein barycenters of measures, 2015.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar
from chainrule.probability.distributions.parameters import finite, floating
from chainrule.probability.transport.one_dimensional import wasserstein_1d


def sliced_wasserstein(
    x: Any, y: Any, p: float = 2, directions: int = 128, *, key: Key | None = None
) -> Scalar:
    """`(mean over directions of W_p^p along each)^(1/p)` of two sets of rows, which may differ in number.

    The directions are drawn evenly; with the same key they are the same ones, and values compare.

    >>> x = jax.random.normal(jax.random.key(0), (50, 3))
    >>> float(sliced_wasserstein(x, x))
    0.0
    """
    first, second = (
        finite("sliced_wasserstein", name, floating(rows)) for name, rows in (("x", x), ("y", y))
    )
    for name, rows in (("x", first), ("y", second)):
        if rows.ndim != 2 or not len(rows) or rows.shape[1] != first.shape[1]:
            raise ArgumentError(
                f"sliced_wasserstein: {name} of shape {rows.shape}",
                remedy="give rows of equally many numbers",
            )
    if not p >= 1 or p == float("inf"):
        raise ArgumentError(f"sliced_wasserstein(p={p}): p must be finite and 1 or more")
    count = whole("sliced_wasserstein", "directions", directions)
    drawn = jax.random.normal(random.key(0, "directions") if key is None else key, (count, first.shape[1]))
    axes = drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)
    return _mean_over(axes.astype(first.dtype), first, second, float(p))


@eqx.filter_jit
def _mean_over(axes: Array, x: Array, y: Array, p: float) -> Scalar:
    def along(axis: Array) -> Scalar:
        return wasserstein_1d(x @ axis, y @ axis, p) ** p

    if len(x) == len(y):  # mass by mass in their order
        first, second = (jnp.sort(rows @ axes.T, axis=0) for rows in (x, y))
        total = (jnp.abs(first - second) ** p).mean()
    else:
        total = jax.lax.map(along, axes, batch_size=16).mean()
    return jnp.where(total > 0, jnp.where(total > 0, total, 1.0) ** (1 / p), 0.0)


__all__ = ["sliced_wasserstein"]
