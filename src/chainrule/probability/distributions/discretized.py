"""Distributions of values on a grid: the probability of the bin around each under a density."""

from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Atoms, Distribution, HasIntervals, Shape, events
from chainrule.probability.distributions.parameters import floating, require
from chainrule.probability.distributions.supports import Support

_OFF = 1e-3
"""How far from a value of the grid, over the distance to the next, a number may lie and still count as it."""


@final
class Discretized(Distribution):
    """The value of a grid that is nearest to a draw of `base`, a `Normal` or `Logistic` distribution.

    Bins end halfway between two values; the outer ones are open, so that all probabilities add up to one.

    >>> from chainrule.probability import Logistic
    >>> float(jnp.exp(Discretized(Logistic(), [-1.0, 0.0, 1.0]).log_prob([-1.0, 0.0, 1.0])).sum())
    1.0
    """

    base: HasIntervals
    values: Float[Array, " values"]

    def __init__(self, base: Distribution, values: Any) -> None:
        if not isinstance(base, HasIntervals):
            raise ArgumentError(
                f"Discretized: {type(base).__name__} does not know the probability of an interval",
                remedy="give a Normal or a Logistic distribution",
            )
        values = floating(values)
        if values.ndim != 1 or len(values) < 2:
            raise ArgumentError(f"Discretized: values need the shape (n,) with n > 1, not {values.shape}")
        gaps = require(
            "Discretized",
            "the step of values",
            jnp.diff(values),
            lambda v: v > 0,
            "be positive: values increase",
        )
        self.base = base
        # What a check returns must be used, or compilers drop the check with it.
        self.values = jnp.where((gaps > 0).all(), values, jnp.nan)

    @property
    def batch_shape(self) -> Shape:
        """That of the base."""
        return self.base.batch_shape

    @property
    def event_shape(self) -> Shape:
        """Numbers."""
        return ()

    @property
    def support(self) -> "Grid":
        """The values."""
        return Grid(self.values)

    @property
    def mean(self) -> Array:
        """The sum over values."""
        atoms = self.atoms()
        return atoms.mean(atoms.points)

    @property
    def variance(self) -> Array:
        """The sum over values."""
        atoms = self.atoms()
        return atoms.mean(jnp.square(atoms.points - atoms.mean(atoms.points)[None]))

    @property
    def covariance(self) -> Array:
        """The variance."""
        return self.variance

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the probability of each value; -inf for numbers that are none of the values."""
        x = events(self, x)
        inside = self.support.contains(x)
        found = self.log_prob_at(self.support.nearest(x))
        return jnp.where(inside, found, jnp.where(jnp.isnan(x), x, -jnp.inf))

    def log_prob_at(self, index: Int[Array, "..."]) -> Float[Array, "..."]:
        """Logarithm of the probability of `values[index]`; the last axes of `index` are those of the batch."""
        low, high = bins(self.values, index)
        return self.base.batched(index.shape).log_interval(low, high)

    def draw(self, key: Key, shape: Shape) -> Array:
        """The values nearest to draws of the base."""
        return self.values[self.support.nearest(self.base.draw(key, shape))]

    def entropy(self) -> Float[Array, "*batch"]:
        """The sum over values."""
        return self.atoms().entropy(self)

    def atoms(self) -> Atoms:
        """The values."""
        shape = (len(self.values), *self.batch_shape)
        index = jnp.broadcast_to(jnp.arange(shape[0]).reshape(-1, *(1,) * len(self.batch_shape)), shape)
        return Atoms(self.values[index], jnp.exp(self.log_prob_at(index)))

    def batched(self, shape: Shape) -> "Discretized":
        """With another batch of the base."""
        return Discretized(self.base.batched(shape), self.values)

    def select(self, index: tuple[Array, ...]) -> "Discretized":
        """Those of the base; the values have no batch."""
        return Discretized(self.base.select(index), self.values)


@final
class Grid(Support):
    """Finitely many numbers in increasing order."""

    values: Float[Array, " values"]

    @property
    def is_discrete(self) -> bool:
        """Yes."""
        return True

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether it is one of the values, up to a thousandth of the distance between two."""
        x = jnp.asarray(x)
        gap = jnp.diff(self.values).min()
        return jnp.abs(x - self.values[self.nearest(x)]) <= _OFF * gap

    def nearest(self, x: Any) -> Int[Array, "..."]:
        """The index of the nearest value."""
        return jnp.searchsorted((self.values[1:] + self.values[:-1]) / 2, jnp.asarray(x))


def bins(values: Float[Array, " values"], index: Int[Array, "..."]) -> tuple[Array, Array]:
    """Lower and upper ends of the bins around `values[index]`.

    >>> [ends.tolist() for ends in bins(jnp.array([0.0, 1.0]), jnp.array([0, 1]))]
    [[-inf, 0.5], [0.5, inf]]
    """
    edges = (values[1:] + values[:-1]) / 2
    infinite = jnp.full((1,), np.inf, values.dtype)
    upper = jnp.concatenate([edges, infinite])[index]
    return jnp.concatenate([-infinite, edges])[index], upper


__all__ = ["Discretized", "Grid", "bins"]
