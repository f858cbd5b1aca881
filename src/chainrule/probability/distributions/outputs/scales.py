"""Where the scale of an output distribution comes from: it is fixed, learnt once for all entries, or one per entry.

Scales stay above a floor. Without one the likelihood of an entry that is predicted exactly has no upper limit, and
training ends in it.
"""

import abc
import math
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float

FLOOR = 1e-3
"""The least scale."""
_WIDEST = 7.0
"""Logarithms of scales stay within this, smoothly."""


class Scale(eqx.Module):
    """A positive number for each entry."""

    @property
    @abc.abstractmethod
    def parameter_count(self) -> int:
        """How many of an entry's parameters it takes."""

    @abc.abstractmethod
    def of(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The scale of each entry, from its parameters."""


@final
class FixedScale(Scale):
    """A number that is not learnt.

    >>> FixedScale(0.0)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: FixedScale(value=0.0): a scale is at least 0.001
    """

    value: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not FLOOR <= self.value < math.inf:
            raise ArgumentError(f"FixedScale(value={self.value}): a scale is at least {FLOOR:g}")

    @property
    def parameter_count(self) -> int:
        """None."""
        return 0

    def of(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The same number everywhere."""
        return jnp.full(parameters.shape[:-1], self.value, parameters.dtype)


@final
class SharedScale(Scale):
    """One number for all entries, which is learnt.

    >>> SharedScale(0.5).of(jnp.zeros((2, 0))).round(4).tolist()
    [0.5, 0.5]
    """

    raw: Float[Array, ""]

    def __init__(self, start: float | Array = 1.0) -> None:
        self.raw = jnp.asarray(unbounded(start))

    @property
    def parameter_count(self) -> int:
        """None."""
        return 0

    def of(self, parameters: Float[Array, "*entries parameters"]) -> Float[Array, "*entries"]:
        """The same number everywhere."""
        return jnp.broadcast_to(bounded(self.raw.astype(parameters.dtype)), parameters.shape[:-1])


@final
class EntryScale(Scale):
    """A number for each entry, which the network gives."""

    @property
    def parameter_count(self) -> int:
        """One."""
        return 1

    def of(self, parameters: Float[Array, "*entries 1"]) -> Float[Array, "*entries"]:
        """The (bounded) exponential of the parameter."""
        return bounded(parameters[..., 0])


def bounded(raw: Array) -> Array:
    """A scale above the floor, from any number."""
    return FLOOR + jnp.exp(_WIDEST * jnp.tanh(raw / _WIDEST))


def unbounded(scale: float | Array | np.ndarray) -> Array:
    """The number that `bounded` turns into this scale; what lies outside of its range becomes the nearest within."""
    least, most = (math.exp(sign * _WIDEST * 0.999) for sign in (-1, 1))
    return _WIDEST * jnp.arctanh(jnp.log(jnp.clip(jnp.asarray(scale) - FLOOR, least, most)) / _WIDEST)


__all__ = ["FLOOR", "EntryScale", "FixedScale", "Scale", "SharedScale", "bounded", "unbounded"]
