"""Spaces: what observations and actions can be."""

import abc
import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key


class Space(eqx.Module):
    """A set of arrays of one shape and type."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one element."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype:
        """Type of its entries."""

    @abc.abstractmethod
    def sample(self, key: Key) -> Array:
        """An element at random."""

    @abc.abstractmethod
    def contains(self, x: Array) -> Array:
        """Whether an array of this shape is an element."""


@final
class Discrete(Space):
    """0, 1, ..., n - 1.

    >>> Discrete(3).contains(jnp.array(3))
    Array(False, dtype=bool)
    """

    n: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.n < 1:
            raise ArgumentError(f"Discrete(n={self.n}): there must be at least one element")

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int32)

    def sample(self, key: Key) -> Array:
        return jax.random.randint(key, (), 0, self.n)

    def contains(self, x: Array) -> Array:
        return (x >= 0) & (x < self.n)


@final
class MultiDiscrete(Space):
    """Several whole numbers side by side, each below a bound of its own."""

    ns: tuple[int, ...] = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not self.ns or min(self.ns) < 1:
            raise ArgumentError(f"MultiDiscrete(ns={self.ns}): every entry needs at least one value")

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.ns),)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.int32)

    def sample(self, key: Key) -> Array:
        return jax.random.randint(key, self.shape, 0, jnp.array(self.ns))

    def contains(self, x: Array) -> Array:
        return ((x >= 0) & (x < jnp.array(self.ns))).all()


@final
class Box(Space):
    """Numbers between bounds, which may be infinite, and may differ from entry to entry.

    >>> Box(-1, 1, (2,)).contains(jnp.array([0.5, 2.0]))
    Array(False, dtype=bool)
    """

    low: np.ndarray
    high: np.ndarray

    def __init__(
        self, low: float | np.ndarray, high: float | np.ndarray, shape: tuple[int, ...] | None = None
    ) -> None:
        shape = np.broadcast_shapes(np.shape(low), np.shape(high)) if shape is None else shape
        self.low = np.broadcast_to(np.asarray(low, np.float32), shape)
        self.high = np.broadcast_to(np.asarray(high, np.float32), shape)
        if not (self.low <= self.high).all():
            raise ArgumentError(f"Box(low={low}, high={high}): low must not lie above high")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float32)

    @property
    def size(self) -> int:
        """How many numbers an element has."""
        return math.prod(self.shape)

    @property
    def bounded(self) -> bool:
        """Whether every bound is finite."""
        return bool(np.isfinite(self.low).all() and np.isfinite(self.high).all())

    def sample(self, key: Key) -> Array:
        """Uniform between finite bounds, else normal, moved to the side of the bound there is."""
        uniform_key, normal_key = jax.random.split(key)
        finite = jnp.isfinite(self.low) & jnp.isfinite(self.high)
        low, high = jnp.where(finite, self.low, 0), jnp.where(finite, self.high, 1)
        uniform = jax.random.uniform(uniform_key, self.shape, minval=low, maxval=high)
        normal = jnp.clip(jax.random.normal(normal_key, self.shape), self.low, self.high)
        return jnp.where(finite, uniform, normal)

    def contains(self, x: Array) -> Array:
        return ((x >= self.low) & (x <= self.high)).all()


__all__ = ["Box", "Discrete", "MultiDiscrete", "Space"]
