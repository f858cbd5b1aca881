"""The normal distribution of numbers."""

import math
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import HasIntervals
from chainrule.probability.distributions.parameters import broadcast, finite, positive
from chainrule.probability.distributions.supports import Reals


@final
class Normal(HasIntervals):
    """N(mean, scale²): `scale` is the standard deviation.

    >>> round(float(Normal(0.0, 2.0).log_prob(1.0)), 4)
    -1.7371
    """

    center: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def __init__(self, mean: Any = 0.0, scale: Any = 1.0) -> None:
        mean, scale = broadcast("Normal", mean=mean, scale=scale)
        self.center = finite("Normal", "mean", mean)
        self.scale = positive("Normal", "scale", scale)

    @property
    def support(self) -> Reals:
        """The real line."""
        return Reals()

    @property
    def mean(self) -> Array:
        """The centre."""
        return self.center

    @property
    def variance(self) -> Array:
        """`scale²`."""
        return jnp.square(self.scale)

    def log_density(self, x: Array) -> Array:
        """`-z²/2 - log scale - log(2 pi)/2`, z = (x - mean) / scale."""
        return log_density(x, self.center, self.scale)

    def log_interval(self, low: Array, high: Array) -> Array:
        """By logarithms of the distribution function."""
        return log_interval((low - self.center) / self.scale, (high - self.center) / self.scale)

    def draw_each(self, key: Key) -> Array:
        """`mean + scale * noise`."""
        return self.center + self.scale * jax.random.normal(key, self.center.shape, self.dtype)

    def entropy(self) -> Float[Array, "*batch"]:
        """`log(scale sqrt(2 pi e))`."""
        return jnp.log(self.scale) + 0.5 * math.log(2 * math.pi * math.e)


def log_density(x: Array, mean: Any, scale: Any) -> Array:
    """Logarithm of the density of each number by itself; nothing is checked."""
    return -0.5 * jnp.square((x - mean) / scale) - jnp.log(scale) - 0.5 * math.log(2 * math.pi)


def kl(mean: Any, scale: Any, other_mean: Any, other_scale: Any) -> Array:
    """KL divergence of each number's distribution from the other; nothing is checked."""
    ratio = jnp.square(scale / other_scale)
    return 0.5 * (jnp.square((mean - other_mean) / other_scale) + ratio - 1 - jnp.log(ratio))


def log_interval(low: Array, high: Array) -> Array:
    """Logarithm of P(low < Z <= high) for standard normal numbers.

    >>> float(log_interval(jnp.array(10.0), jnp.array(jnp.inf)))
    -53.23...
    """
    # In the right tail both cumulative probabilities round to one: reflect it to the left.
    flip = low > 0
    high, low = jnp.where(flip, -low, high), jnp.where(flip, -high, low)
    top, bottom = jax.scipy.special.log_ndtr(high), jax.scipy.special.log_ndtr(low)
    return top + jnp.log1p(-jnp.exp(jnp.minimum(bottom - top, -1e-30)))


__all__ = ["Normal", "kl", "log_density", "log_interval"]
