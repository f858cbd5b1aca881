"""The distribution of probability vectors."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln, xlogy
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution, Shape, events
from chainrule.probability.distributions.parameters import floating, positive
from chainrule.probability.distributions.supports import Support


@final
class Dirichlet(Distribution):
    """Probability vectors with a density proportional to `prod x_i^(concentration_i - 1)`.

    The density is that of all entries but the last, which the others determine.

    >>> Dirichlet([1.0, 2.0, 5.0]).mean.tolist()
    [0.125, 0.25, 0.625]
    """

    concentration: Float[Array, "*batch d"]

    def __init__(self, concentration: Any) -> None:
        concentration = floating(concentration)
        if concentration.ndim == 0 or concentration.shape[-1] < 2:
            raise ArgumentError(
                f"Dirichlet: concentration needs the shape (..., d) with d > 1, not {concentration.shape}",
                remedy="one probability has a Beta distribution",
            )
        self.concentration = positive("Dirichlet", "concentration", concentration)

    @property
    def batch_shape(self) -> Shape:
        """All axes but the last."""
        return self.concentration.shape[:-1]

    @property
    def event_shape(self) -> Shape:
        """Probability vectors."""
        return self.concentration.shape[-1:]

    @property
    def support(self) -> "Simplex":
        """All probability vectors."""
        return Simplex()

    @property
    def mean(self) -> Array:
        """The concentration over its sum."""
        return self.concentration / self.concentration.sum(axis=-1, keepdims=True)

    @property
    def variance(self) -> Array:
        """`m (1 - m) / (sum + 1)` of the mean `m`."""
        return self.mean * (1 - self.mean) / (self.concentration.sum(axis=-1, keepdims=True) + 1)

    @property
    def covariance(self) -> Array:
        """`(diag(m) - m m^T) / (sum + 1)`."""
        mean, total = self.mean, self.concentration.sum(axis=-1)[..., None, None]
        eye = jnp.broadcast_to(jnp.eye(mean.shape[-1], dtype=mean.dtype), (*mean.shape, mean.shape[-1]))
        return (eye * mean[..., None] - mean[..., None] * mean[..., None, :]) / (total + 1)

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the density; -inf for what is no probability vector."""
        x = events(self, x)
        inside = self.support.contains(x)
        safe = jnp.where(inside[..., None], x, 1 / x.shape[-1])
        powers = jnp.broadcast_to(self.concentration - 1, x.shape)
        found = xlogy(powers, safe).sum(axis=-1)
        found = found - jnp.broadcast_to(self.log_normalization(), found.shape)
        return jnp.where(inside, found, jnp.where(jnp.isnan(x).any(axis=-1), jnp.nan, -jnp.inf))

    def log_normalization(self) -> Float[Array, "*batch"]:
        """The logarithm of the multivariate beta function."""
        return gammaln(self.concentration).sum(axis=-1) - gammaln(self.concentration.sum(axis=-1))

    def draw(self, key: Key, shape: Shape) -> Array:
        """Normalised gamma draws, with their implicit derivative."""
        return jax.random.dirichlet(key, self.concentration, shape, self.concentration.dtype)

    def entropy(self) -> Float[Array, "*batch"]:
        """`log B(a) + (sum - d) psi(sum) - sum (a_i - 1) psi(a_i)`."""
        a, total = self.concentration, self.concentration.sum(axis=-1)
        own = ((a - 1) * digamma(a)).sum(axis=-1)
        return self.log_normalization() + (total - a.shape[-1]) * digamma(total) - own


@final
class Simplex(Support):
    """Probability vectors: no entry negative, and a sum of one up to rounding."""

    tolerance: float = eqx.field(static=True, default=1e-5)

    @property
    def is_discrete(self) -> bool:
        """No."""
        return False

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether it is a probability vector."""
        x = jnp.asarray(x)
        return (x >= 0).all(axis=-1) & (jnp.abs(x.sum(axis=-1) - 1) <= self.tolerance)


__all__ = ["Dirichlet", "Simplex"]
