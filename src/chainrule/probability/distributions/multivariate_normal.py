"""The normal distribution of vectors, singular ones included."""

import math
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution, Shape, events
from chainrule.probability.distributions.covariances import Covariance, Eigen, from_matrix
from chainrule.probability.distributions.parameters import finite, floating
from chainrule.probability.distributions.supports import Reals


@final
class MultivariateNormal(Distribution):
    """N(mean, covariance) of vectors; the covariance is a matrix, or `Diagonal`, `LowRank` or `Eigen`.

    A semi-definite matrix is allowed: such a distribution draws, and has a density on its support alone
    (`log_prob_on_support`).

    >>> round(float(MultivariateNormal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]]).entropy()), 6)
    3.117685
    """

    center: Float[Array, "*batch d"]
    structure: Covariance

    def __init__(self, mean: Any, covariance: Any) -> None:
        where = "MultivariateNormal"
        mean = floating(mean)
        structure = covariance if isinstance(covariance, Covariance) else from_matrix(where, covariance)
        if mean.ndim == 0 or mean.shape[-1] not in (1, structure.shape[-1]):
            raise ArgumentError(
                f"{where}: mean of shape {mean.shape} does not fit a covariance of shape {structure.shape}",
                remedy=f"give a mean of shape ({structure.shape[-1]},)",
            )
        try:
            shape = np.broadcast_shapes(mean.shape, structure.shape[:-1])
        except ValueError:
            raise ArgumentError(
                f"{where}: mean of shape {mean.shape} and covariance of shape {structure.shape} do not broadcast"
            ) from None
        self.structure = structure.batched(shape[:-1])
        dtype = jnp.promote_types(mean.dtype, jax.tree.leaves(structure)[0].dtype)
        self.center = finite(where, "mean", jnp.broadcast_to(mean.astype(dtype), shape))

    @property
    def batch_shape(self) -> Shape:
        """All axes of the mean but the last."""
        return self.center.shape[:-1]

    @property
    def event_shape(self) -> Shape:
        """Vectors."""
        return self.center.shape[-1:]

    @property
    def support(self) -> Reals:
        """All vectors; of a singular covariance, the affine subspace through the mean is meant."""
        return Reals(1)

    @property
    def mean(self) -> Array:
        """The centre."""
        return self.center

    @property
    def variance(self) -> Array:
        """The diagonal of the covariance."""
        return self.structure.diagonal()

    @property
    def covariance(self) -> Array:
        """As a matrix."""
        return self.structure.matrix()

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the density; refused where the covariance is singular."""
        if self.structure.is_singular:
            raise CapabilityError(
                "MultivariateNormal: a singular covariance has no density on the whole space",
                remedy="log_prob_on_support(x) is its density on the affine subspace it lives on",
            )
        return self._log_density(events(self, x) - self._beside(x), self.event_shape[0])

    def log_prob_on_support(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the density on the affine subspace it lives on, by pseudo-inverse; -inf off it.

        >>> line = MultivariateNormal([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])
        >>> [round(float(line.log_prob_on_support(x)), 4) for x in ([1.0, 1.0], [1.0, 0.0])]
        [-1.7655, -inf]
        """
        structure = self.structure
        if not isinstance(structure, Eigen):
            return self.log_prob(x)
        x = events(self, x)
        offset = x - self._beside(x)
        found = self._log_density(offset, structure.rank.astype(offset.dtype))
        # On it up to the root of the precision, times the size of the numbers.
        extent = jnp.broadcast_to(jnp.sqrt(structure.variances.max(axis=-1)), found.shape)
        size = jnp.maximum(
            jnp.maximum(jnp.abs(x).max(axis=-1), jnp.abs(self._beside(x)).max(axis=-1)), extent
        )
        near = structure.off_range(offset) <= math.sqrt(jnp.finfo(offset.dtype).eps) * size
        return jnp.where(near, found, -jnp.inf)

    def draw(self, key: Key, shape: Shape) -> Array:
        """The mean, and coloured noise."""
        noise = jax.random.normal(key, (*shape, self.structure.noise_size()), self.center.dtype)
        return jnp.broadcast_to(self.center, (*shape, *self.event_shape)) + self.structure.color(noise)

    def entropy(self) -> Float[Array, "*batch"]:
        """`log det(2 pi e covariance) / 2`; -inf where that is singular."""
        if isinstance(self.structure, Eigen):
            return 0.5 * jnp.log(2 * math.pi * math.e * self.structure.variances).sum(axis=-1)
        return 0.5 * (self.event_shape[0] * math.log(2 * math.pi * math.e) + self.structure.log_det())

    def _log_density(self, offset: Array, dimensions: Any) -> Array:
        square = self.structure.square(offset)
        constant = dimensions * math.log(2 * math.pi) + self.structure.log_det()
        return -0.5 * (square + jnp.broadcast_to(constant, square.shape))

    def _beside(self, x: Any) -> Array:
        return jnp.broadcast_to(self.center, jnp.broadcast_shapes(jnp.shape(x), self.center.shape))


__all__ = ["MultivariateNormal"]
