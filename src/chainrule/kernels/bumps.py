"""Bumps that density estimates are sums of: functions of the distance alone, with integral one in any dimension.

Each knows its logarithm by the squared distance and draws vectors with that density: a direction, and a length.
"""

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key


@dataclass(frozen=True)
class Bump(abc.ABC):
    """A density of vectors that depends on their length alone."""

    @abc.abstractmethod
    def log_value(self, squares: Array, features: int) -> Array:
        """The logarithm of the density by squared length."""

    @abc.abstractmethod
    def lengths(self, key: Key, n: int, features: int) -> Float[Array, " n"]:
        """Lengths of vectors with this density."""

    def draw(self, key: Key, n: int, features: int) -> Float[Array, "n features"]:
        """Vectors with this density."""
        direction, length = jax.random.split(key)
        normal = jax.random.normal(direction, (n, features))
        unit = normal / jnp.linalg.norm(normal, axis=1, keepdims=True)
        return unit * self.lengths(length, n, features)[:, None]


def log_ball(features: int) -> float:
    """The logarithm of the volume of the ball of radius one.

    >>> round(math.exp(log_ball(2)) / math.pi, 12)
    1.0
    """
    return features / 2 * math.log(math.pi) - math.lgamma(features / 2 + 1)


def _inside(squares: Array, values: Array) -> Array:
    """Logarithms of values where the distance is below one; `-inf`, with derivative zero, elsewhere."""
    near = squares < 1
    return jnp.where(near, jnp.log(jnp.where(near, values, 1.0)), -jnp.inf)


@final
@dataclass(frozen=True)
class GaussianBump(Bump):
    """`exp(-r²/2)`."""

    def log_value(self, squares: Array, features: int) -> Array:
        return -0.5 * squares - 0.5 * features * math.log(2 * math.pi)

    def lengths(self, key: Key, n: int, features: int) -> Float[Array, " n"]:
        return jnp.sqrt(2 * jax.random.gamma(key, features / 2, (n,)))


@final
@dataclass(frozen=True)
class EpanechnikovBump(Bump):
    """`1 - r²` up to r = 1: the bump with the least mean squared error."""

    def log_value(self, squares: Array, features: int) -> Array:
        return _inside(squares, 1 - squares) + math.log((features + 2) / 2) - log_ball(features)

    def lengths(self, key: Key, n: int, features: int) -> Float[Array, " n"]:
        return jnp.sqrt(jax.random.beta(key, features / 2, 2.0, (n,)))


@final
@dataclass(frozen=True)
class UniformBump(Bump):
    """The same up to r = 1."""

    def log_value(self, squares: Array, features: int) -> Array:
        return _inside(squares, jnp.ones_like(squares)) - log_ball(features)

    def lengths(self, key: Key, n: int, features: int) -> Float[Array, " n"]:
        return jax.random.uniform(key, (n,)) ** (1 / features)


@final
@dataclass(frozen=True)
class TriangularBump(Bump):
    """`1 - r` up to r = 1."""

    def log_value(self, squares: Array, features: int) -> Array:
        return _inside(squares, 1 - _length(squares)) + math.log(features + 1) - log_ball(features)

    def lengths(self, key: Key, n: int, features: int) -> Float[Array, " n"]:
        return jax.random.beta(key, float(features), 2.0, (n,))


@final
@dataclass(frozen=True)
class ExponentialBump(Bump):
    """`exp(-r)`."""

    def log_value(self, squares: Array, features: int) -> Array:
        return -_length(squares) - math.lgamma(features + 1) - log_ball(features)

    def lengths(self, key: Key, n: int, features: int) -> Float[Array, " n"]:
        return jax.random.gamma(key, float(features), (n,))


def _length(squares: Array) -> Array:
    apart = squares > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1.0)), 0.0)


BUMPS: Mapping[str, Bump] = {
    "gaussian": GaussianBump(),
    "epanechnikov": EpanechnikovBump(),
    "uniform": UniformBump(),
    "triangular": TriangularBump(),
    "exponential": ExponentialBump(),
}

__all__ = ["BUMPS", "Bump", "log_ball"]
