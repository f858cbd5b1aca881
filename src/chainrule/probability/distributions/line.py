"""Distributions on the whole line with heavier tails than the normal one."""

import math
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma

from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import HasIntervals, Univariate
from chainrule.probability.distributions.parameters import broadcast, finite, positive, require
from chainrule.probability.distributions.special import log_beta
from chainrule.probability.distributions.supports import Reals


@final
class Laplace(Univariate):
    """The density `exp(-|x - mean| / scale) / (2 scale)`.

    >>> float(Laplace(0.0, 2.0).variance)
    8.0
    """

    center: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def __init__(self, mean: Any = 0.0, scale: Any = 1.0) -> None:
        mean, scale = broadcast("Laplace", mean=mean, scale=scale)
        self.center = finite("Laplace", "mean", mean)
        self.scale = positive("Laplace", "scale", scale)

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
        """`2 scale²`."""
        return 2 * jnp.square(self.scale)

    def log_density(self, x: Array) -> Array:
        """`-|x - mean| / scale - log(2 scale)`."""
        return -jnp.abs(x - self.center) / self.scale - jnp.log(2 * self.scale)

    def draw_each(self, key: Key) -> Array:
        """The mean and scaled noise."""
        return self.center + self.scale * jax.random.laplace(key, self.scale.shape, self.dtype)

    def entropy(self) -> Float[Array, "*batch"]:
        """`1 + log(2 scale)`."""
        return 1 + jnp.log(2 * self.scale)


@final
class Logistic(HasIntervals):
    """The distribution function `sigmoid((x - mean) / scale)`.

    >>> float(Logistic().log_prob(0.0))  # log(1 / 4)
    -1.386...
    """

    center: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def __init__(self, mean: Any = 0.0, scale: Any = 1.0) -> None:
        mean, scale = broadcast("Logistic", mean=mean, scale=scale)
        self.center = finite("Logistic", "mean", mean)
        self.scale = positive("Logistic", "scale", scale)

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
        """`pi² scale² / 3`."""
        return math.pi**2 / 3 * jnp.square(self.scale)

    def log_density(self, x: Array) -> Array:
        """`log sigmoid(z) + log sigmoid(-z) - log scale`, z = (x - mean) / scale."""
        z = (x - self.center) / self.scale
        return jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z) - jnp.log(self.scale)

    def log_interval(self, low: Array, high: Array) -> Array:
        """`sigmoid(h) - sigmoid(l) = sigmoid(h) sigmoid(-l) (1 - exp(l - h))`: nothing cancels in the tails."""
        low, high = (low - self.center) / self.scale, (high - self.center) / self.scale
        return jax.nn.log_sigmoid(high) + jax.nn.log_sigmoid(-low) + jnp.log1p(-jnp.exp(low - high))

    def draw_each(self, key: Key) -> Array:
        """The mean and scaled noise."""
        return self.center + self.scale * jax.random.logistic(key, self.scale.shape, self.dtype)

    def entropy(self) -> Float[Array, "*batch"]:
        """`2 + log scale`."""
        return 2 + jnp.log(self.scale)


@final
class StudentT(Univariate):
    """Student's t with so many `degrees` of freedom, moved and scaled; one degree is Cauchy's distribution.

    >>> float(StudentT(3.0).variance)
    3.0
    """

    degrees: Float[Array, "*batch"]
    location: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def __init__(self, degrees: Any, location: Any = 0.0, scale: Any = 1.0) -> None:
        degrees, location, scale = broadcast("StudentT", degrees=degrees, location=location, scale=scale)
        self.degrees = positive("StudentT", "degrees", degrees)
        self.location = finite("StudentT", "location", location)
        self.scale = positive("StudentT", "scale", scale)

    @property
    def support(self) -> Reals:
        """The real line."""
        return Reals()

    @property
    def mean(self) -> Array:
        """The location; with one degree of freedom or less there is none."""
        degrees = require(
            "StudentT", "degrees", self.degrees, lambda v: v > 1, "exceed 1 for a mean to exist"
        )
        return jnp.where(degrees > 1, self.location, jnp.nan)

    @property
    def variance(self) -> Array:
        """`scale² degrees / (degrees - 2)`, infinite up to 2 degrees; with one or less there is none."""
        wanted = "exceed 1 for a variance to exist"
        degrees = require("StudentT", "degrees", self.degrees, lambda v: v > 1, wanted)
        above = jnp.where(degrees > 2, degrees, 3.0)
        return jnp.where(degrees > 2, jnp.square(self.scale) * above / (above - 2), jnp.inf)

    def log_density(self, x: Array) -> Array:
        """`-(n + 1)/2 log(1 + z²/n) - log(scale sqrt(n) B(1/2, n/2))`, z = (x - location) / scale."""
        n = self.degrees
        z = (x - self.location) / self.scale
        return -0.5 * (n + 1) * jnp.log1p(jnp.square(z) / n) - self._log_normalization()

    def draw_each(self, key: Key) -> Array:
        """Normal noise over the root of a gamma draw, with its implicit derivative."""
        return self.location + self.scale * jax.random.t(key, self.degrees, dtype=self.dtype)

    def entropy(self) -> Float[Array, "*batch"]:
        """`(n + 1)/2 (psi((n + 1)/2) - psi(n/2)) + log(scale sqrt(n) B(1/2, n/2))`."""
        n = self.degrees
        return 0.5 * (n + 1) * (digamma(0.5 * (n + 1)) - digamma(0.5 * n)) + self._log_normalization()

    def _log_normalization(self) -> Array:
        n = self.degrees
        return jnp.log(self.scale) + 0.5 * jnp.log(n) + log_beta(jnp.full_like(n, 0.5), 0.5 * n)


__all__ = ["Laplace", "Logistic", "StudentT"]
