"""Kernels of one coordinate with a meaning of their own: Brownian motion, periodic and cosine."""

from typing import Any, final

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.distances import pairwise_squares
from chainrule.kernels.kernel import ChecksPoints, Kernel, Points
from chainrule.probability.distances import squared_distances
from chainrule.probability.distributions.parameters import floating, positive, require


@final
class Brownian(ChecksPoints):
    """`min(s, t)` for times that are not negative: the covariance of Brownian motion, whose variance is the time.

    >>> float(Brownian()(0.3, 0.7))
    0.3...
    """

    def accept(self, x: Points) -> None:
        _times(x)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return jnp.minimum(_times(x)[:, None], _times(y)[None, :])

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return _times(x)


def _times(x: Array) -> Array:
    if x.shape[1] != 1:
        raise ArgumentError(f"Brownian: times are one number each, not {x.shape[1]}", remedy="use OnColumns")
    return require("Brownian", "time", x[:, 0], lambda v: v >= 0, "be at least 0")


@final
class Periodic(Kernel):
    """`exp(-2 sum_d sin²(pi (x_d - y_d) / period) / scale²)`: functions that repeat."""

    log_scale: Scalar
    log_period: Scalar

    def __init__(self, scale: Any = 1.0, period: Any = 1.0) -> None:
        self.log_scale = jnp.log(positive("Periodic", "scale", floating(scale)))
        self.log_period = jnp.log(positive("Periodic", "period", floating(period)))

    @property
    def scale(self) -> Scalar:
        """The length over which values stay similar, in units of the circle."""
        return jnp.exp(self.log_scale)

    @property
    def period(self) -> Scalar:
        """The distance after which functions repeat."""
        return jnp.exp(self.log_period)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        # Chords of the circle: |e^ia - e^ib|² = 4 sin²((a - b) / 2).
        return jnp.exp(-pairwise_squares(self._circle(x), self._circle(y)) / (2 * jnp.square(self.scale)))

    def _circle(self, x: Array) -> Array:
        turned = 2 * jnp.pi * x / self.period
        return jnp.concatenate([jnp.cos(turned), jnp.sin(turned)], axis=1)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return jnp.ones(len(x), jnp.result_type(x, self.log_scale))


@final
class Cosine(Kernel):
    """`cos(2 pi sum_d (x_d - y_d) / period)`: one frequency along the diagonal of all coordinates."""

    log_period: Scalar

    def __init__(self, period: Any = 1.0) -> None:
        self.log_period = jnp.log(positive("Cosine", "period", floating(period)))

    @property
    def period(self) -> Scalar:
        """The distance after which functions repeat."""
        return jnp.exp(self.log_period)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        apart = x.sum(axis=1)[:, None] - y.sum(axis=1)[None, :]
        return jnp.cos(2 * np.pi * apart / self.period)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return jnp.ones(len(x), jnp.result_type(x, self.log_period))


@final
class White(Kernel):
    """`variance` where two points are the same, zero elsewhere: noise of every point for itself."""

    log_variance: Scalar

    def __init__(self, variance: Any = 1.0) -> None:
        self.log_variance = jnp.log(positive("White", "variance", floating(variance)))

    @property
    def variance(self) -> Scalar:
        """Of the noise."""
        return jnp.exp(self.log_variance)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        return jnp.where(squared_distances(x, y) == 0, self.variance, 0.0)

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return jnp.broadcast_to(self.variance, (len(x),))


__all__ = ["Brownian", "Cosine", "Periodic", "White"]
