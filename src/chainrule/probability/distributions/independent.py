"""Distributions of vectors and arrays with independent entries."""

import itertools
import math
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Atoms, Distribution, Shape, events
from chainrule.probability.distributions.supports import Support

_MOST_ATOMS = 100_000
"""With more points than this a product is not listed."""


@final
class Independent(Distribution):
    """A batch of distributions as one of vectors: its last `rank` batch axes become axes of the event.

    >>> from chainrule.probability import Normal
    >>> two = Independent(Normal([0.0, 1.0], [1.0, 2.0]))
    >>> two.batch_shape, two.event_shape, float(two.covariance[1, 1])
    ((), (2,), 4.0)
    """

    base: Distribution
    rank: int = eqx.field(static=True)

    def __init__(self, base: Distribution, rank: int = 1) -> None:
        self.base, self.rank = base, whole("Independent", "rank", rank)
        if rank > len(base.batch_shape):
            raise ArgumentError(
                f"Independent(rank={rank}): the batch shape {base.batch_shape} has {len(base.batch_shape)} axes"
            )

    @property
    def batch_shape(self) -> Shape:
        """What is left of it."""
        return self.base.batch_shape[: -self.rank]

    @property
    def event_shape(self) -> Shape:
        """The other axes, then those of the base."""
        return (*self.base.batch_shape[-self.rank :], *self.base.event_shape)

    @property
    def support(self) -> "Product":
        """Where every entry lives on its support."""
        return Product(self.base.support, self.rank)

    @property
    def mean(self) -> Array:
        """Of each entry."""
        return self.base.mean

    @property
    def variance(self) -> Array:
        """Of each entry."""
        return self.base.variance

    @property
    def covariance(self) -> Array:
        """A diagonal matrix, of vectors of numbers."""
        if len(self.event_shape) > 1:
            raise self.not_a_matrix()
        size = self.event_shape[0]
        eye = jnp.broadcast_to(jnp.eye(size, dtype=self.variance.dtype), (*self.batch_shape, size, size))
        return eye * self.variance[..., None]

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """The sum over entries."""
        each = self.base.log_prob(events(self, x))
        return each.sum(axis=tuple(range(each.ndim - self.rank, each.ndim)))

    def draw(self, key: Key, shape: Shape) -> Array:
        """Every entry by itself."""
        return self.base.draw(key, (*shape, *self.base.batch_shape[-self.rank :]))

    def entropy(self) -> Float[Array, "*batch"]:
        """The sum over entries."""
        each = self.base.entropy()
        return each.sum(axis=tuple(range(each.ndim - self.rank, each.ndim)))

    def batched(self, shape: Shape) -> "Independent":
        """With another batch of the base."""
        return Independent(self.base.batched((*shape, *self.base.batch_shape[-self.rank :])), self.rank)

    def select(self, index: tuple[Array, ...]) -> "Independent":
        """Those of the base."""
        return Independent(self.base.select(index), self.rank)

    def atoms(self) -> Atoms | None:
        """All combinations of the atoms of the entries, up to 100,000 of them."""
        atoms = self.base.atoms()
        entries = math.prod(self.base.batch_shape[-self.rank :])
        if atoms is None or entries * math.log(max(len(atoms.weights), 2)) > math.log(_MOST_ATOMS):
            return None
        choices = np.array(list(itertools.product(range(len(atoms.weights)), repeat=entries)), np.int32)
        batch, rank = len(self.batch_shape), len(self.base.event_shape)
        entry_shape = self.base.batch_shape[-self.rank :]
        index = choices.reshape(len(choices), *(1,) * batch, *entry_shape)
        weights = jnp.take_along_axis(atoms.weights, jnp.asarray(index), axis=0)
        wide = jnp.asarray(index.reshape(*index.shape, *(1,) * rank))
        points = jnp.take_along_axis(atoms.points, wide, axis=0)
        return Atoms(points, weights.prod(axis=tuple(range(weights.ndim - self.rank, weights.ndim))))


@final
class Product(Support):
    """Arrays whose entries, along the last `rank` batch axes, all lie in a support."""

    base: Support
    rank: int = eqx.field(static=True)

    @property
    def is_discrete(self) -> bool:
        """As that of the entries."""
        return self.base.is_discrete

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether all entries do."""
        each = self.base.contains(x)
        return each.all(axis=tuple(range(each.ndim - self.rank, each.ndim)))


__all__ = ["Independent", "Product"]
