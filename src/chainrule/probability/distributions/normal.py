"""The normal distribution of numbers."""

import math
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Univariate
from chainrule.probability.distributions.parameters import broadcast, finite, positive
from chainrule.probability.distributions.supports import Reals


@final
class Normal(Univariate):
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
        z = (x - self.center) / self.scale
        return -0.5 * jnp.square(z) - jnp.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def draw_each(self, key: Key) -> Array:
        """`mean + scale * noise`."""
        return self.center + self.scale * jax.random.normal(key, self.center.shape, self.dtype)

    def entropy(self) -> Float[Array, "*batch"]:
        """`log(scale sqrt(2 pi e))`."""
        return jnp.log(self.scale) + 0.5 * math.log(2 * math.pi * math.e)


__all__ = ["Normal"]
