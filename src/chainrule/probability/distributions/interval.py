"""Distributions of numbers in an interval."""

from typing import Any, final

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, xlog1py, xlogy

from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Univariate
from chainrule.probability.distributions.parameters import broadcast, finite, positive, require
from chainrule.probability.distributions.special import log_beta
from chainrule.probability.distributions.supports import RealInterval


@final
class Uniform(Univariate):
    """All numbers between `low` and `high` alike.

    >>> float(Uniform(0.0, 2.0).variance)
    0.333...
    """

    low: Float[Array, "*batch"]
    high: Float[Array, "*batch"]

    def __init__(self, low: Any = 0.0, high: Any = 1.0) -> None:
        low, high = broadcast("Uniform", low=low, high=high)
        self.low, high = finite("Uniform", "low", low), finite("Uniform", "high", high)
        width = require("Uniform", "high - low", high - self.low, lambda v: v > 0, "be positive")
        # What a check returns must be used, or compilers drop the check with it.
        self.high = jnp.where(width > 0, high, jnp.nan)

    @property
    def support(self) -> RealInterval:
        """The interval, ends included."""
        return RealInterval(self.low, self.high)

    @property
    def mean(self) -> Array:
        """The middle."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Array:
        """The squared width over 12."""
        return jnp.square(self.high - self.low) / 12

    def log_density(self, x: Array) -> Array:
        """Less the logarithm of the width, everywhere."""
        return jnp.zeros_like(x) - jnp.log(self.high - self.low)

    def draw_each(self, key: Key) -> Array:
        """A share of the width."""
        share = jax.random.uniform(key, self.low.shape, self.dtype)
        return self.low + (self.high - self.low) * share

    def entropy(self) -> Float[Array, "*batch"]:
        """The logarithm of the width."""
        return jnp.log(self.high - self.low)


@final
class Beta(Univariate):
    """Numbers between 0 and 1 with the density `x^(alpha - 1) (1 - x)^(beta - 1) / B(alpha, beta)`.

    >>> float(Beta(1.0, 3.0).mean)
    0.25
    """

    alpha: Float[Array, "*batch"]
    beta: Float[Array, "*batch"]

    def __init__(self, alpha: Any, beta: Any) -> None:
        alpha, beta = broadcast("Beta", alpha=alpha, beta=beta)
        self.alpha = positive("Beta", "alpha", alpha)
        self.beta = positive("Beta", "beta", beta)

    @property
    def support(self) -> RealInterval:
        """The unit interval."""
        return RealInterval(jnp.zeros_like(self.alpha), jnp.ones_like(self.alpha))

    @property
    def mean(self) -> Array:
        """`alpha / (alpha + beta)`."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def variance(self) -> Array:
        """`mean (1 - mean) / (alpha + beta + 1)`."""
        total = self.alpha + self.beta
        return self.alpha * self.beta / (jnp.square(total) * (total + 1))

    def log_density(self, x: Array) -> Array:
        """`(alpha - 1) log x + (beta - 1) log(1 - x) - log B(alpha, beta)`."""
        return xlogy(self.alpha - 1, x) + xlog1py(self.beta - 1, -x) - log_beta(self.alpha, self.beta)

    def draw_each(self, key: Key) -> Array:
        """From two gamma draws, with their implicit derivative."""
        return jax.random.beta(key, self.alpha, self.beta, dtype=self.dtype)

    def entropy(self) -> Float[Array, "*batch"]:
        """`log B - (alpha - 1) psi(alpha) - (beta - 1) psi(beta) + (alpha + beta - 2) psi(alpha + beta)`."""
        a, b = self.alpha, self.beta
        outer = (a + b - 2) * digamma(a + b)
        return log_beta(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + outer


__all__ = ["Beta", "Uniform"]
