"""Distributions of positive numbers: waiting times."""

from typing import Any, final

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln, xlogy

from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Univariate
from chainrule.probability.distributions.parameters import broadcast, positive
from chainrule.probability.distributions.supports import RealInterval


@final
class Exponential(Univariate):
    """The time until an event that comes at a constant `rate`.

    >>> float(Exponential(2.0).mean)
    0.5
    """

    rate: Float[Array, "*batch"]

    def __init__(self, rate: Any = 1.0) -> None:
        (rate,) = broadcast("Exponential", rate=rate)
        self.rate = positive("Exponential", "rate", rate)

    @property
    def support(self) -> RealInterval:
        """Numbers that are not negative."""
        return RealInterval(jnp.zeros_like(self.rate), jnp.full_like(self.rate, jnp.inf))

    @property
    def mean(self) -> Array:
        """`1 / rate`."""
        return 1 / self.rate

    @property
    def variance(self) -> Array:
        """`1 / rate²`."""
        return 1 / jnp.square(self.rate)

    def log_density(self, x: Array) -> Array:
        """`log rate - rate x`."""
        return jnp.log(self.rate) - self.rate * x

    def draw_each(self, key: Key) -> Array:
        """A unit exponential over the rate."""
        return jax.random.exponential(key, self.rate.shape, self.dtype) / self.rate

    def entropy(self) -> Float[Array, "*batch"]:
        """`1 - log rate`."""
        return 1 - jnp.log(self.rate)


@final
class Gamma(Univariate):
    """The time until `concentration` events at a constant `rate`, for any positive concentration.

    >>> float(Gamma(3.0, 2.0).mean)
    1.5
    """

    concentration: Float[Array, "*batch"]
    rate: Float[Array, "*batch"]

    def __init__(self, concentration: Any, rate: Any = 1.0) -> None:
        concentration, rate = broadcast("Gamma", concentration=concentration, rate=rate)
        self.concentration = positive("Gamma", "concentration", concentration)
        self.rate = positive("Gamma", "rate", rate)

    @property
    def support(self) -> RealInterval:
        """Numbers that are not negative."""
        return RealInterval(jnp.zeros_like(self.rate), jnp.full_like(self.rate, jnp.inf))

    @property
    def mean(self) -> Array:
        """`concentration / rate`."""
        return self.concentration / self.rate

    @property
    def variance(self) -> Array:
        """`concentration / rate²`."""
        return self.concentration / jnp.square(self.rate)

    def log_density(self, x: Array) -> Array:
        """`a log b + (a - 1) log x - b x - log Gamma(a)`."""
        a, b = self.concentration, self.rate
        return a * jnp.log(b) + xlogy(a - 1, x) - b * x - gammaln(a)

    def draw_each(self, key: Key) -> Array:
        """With the derivative of the implicit reparametrisation (Figurnov, Mohamed and Mnih, 2018)."""
        return jax.random.gamma(key, self.concentration, dtype=self.dtype) / self.rate

    def entropy(self) -> Float[Array, "*batch"]:
        """`a - log b + log Gamma(a) + (1 - a) digamma(a)`."""
        a = self.concentration
        return a - jnp.log(self.rate) + gammaln(a) + (1 - a) * digamma(a)


__all__ = ["Exponential", "Gamma"]
