"""Bijections of every entry by itself: scales and shifts, sigmoid, softplus, leaky ReLU."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.networks.flows.base import Conditions, Elementary, Events, LogDets, Mapped


def over_event(each: Float[Array, "batch ..."]) -> LogDets:
    """The sum over all axes but the first.

    >>> over_event(jnp.ones((2, 3, 4))).tolist()
    [12.0, 12.0]
    """
    return each.reshape(len(each), -1).sum(axis=1)


def event_shape(where: str, shape: Any) -> tuple[int, ...]:
    """The shape of an event, checked.

    >>> event_shape("Sigmoid", (2, 0))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Sigmoid(shape=0): shape must be a whole number of at least 1
    """
    return tuple(whole(where, "shape", size) for size in shape)


@final
class ScaleShift(Elementary):
    """`x = exp(log_scale) z + shift`, entry by entry."""

    log_scale: Float[Array, "*event"]
    shift: Float[Array, "*event"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], log_scale: Any = 0.0, shift: Any = 0.0) -> None:
        self.shape = event_shape("ScaleShift", shape)
        self.log_scale = jnp.broadcast_to(jnp.asarray(log_scale, float), shape)
        self.shift = jnp.broadcast_to(jnp.asarray(shift, float), shape)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the scale, then the shift."""
        del condition
        return Mapped(z * jnp.exp(self.log_scale)[None] + self.shift[None], self._log_det(z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """The other way round."""
        del condition
        return Mapped((x - self.shift[None]) * jnp.exp(-self.log_scale)[None], -self._log_det(x))

    def _log_det(self, like: Events) -> LogDets:
        return jnp.broadcast_to(self.log_scale.sum().astype(like.dtype), (len(like),))


@final
class Sigmoid(Elementary):
    """`x = 1 / (1 + exp(-z))`, onto the interval from 0 to 1; its inverse is the logit.

    >>> Sigmoid((1,)).inverse(jnp.array([[0.5]])).value.tolist()
    [[0.0]]
    """

    shape: tuple[int, ...] = eqx.field(static=True)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """The logarithm of the slope is `log x + log (1 - x)`."""
        del condition
        return Mapped(jax.nn.sigmoid(z), over_event(_log_slope_of_sigmoid(z)))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """The logit."""
        del condition
        z = jnp.log(x) - jnp.log1p(-x)
        return Mapped(z, -over_event(_log_slope_of_sigmoid(z)))


def _log_slope_of_sigmoid(z: Array) -> Array:
    return -jax.nn.softplus(z) - jax.nn.softplus(-z)


@final
class Softplus(Elementary):
    """`x = log(1 + exp(z))`, onto the positive numbers."""

    shape: tuple[int, ...] = eqx.field(static=True)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """The slope is a sigmoid."""
        del condition
        return Mapped(jax.nn.softplus(z), over_event(jax.nn.log_sigmoid(z)))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """`x + log(1 - exp(-x))`."""
        del condition
        z = x + jnp.log(-jnp.expm1(-x))
        return Mapped(z, -over_event(jax.nn.log_sigmoid(z)))


@final
class LeakyReLU(Elementary):
    """`x = z` for positive entries and `x = slope z` for negative ones."""

    shape: tuple[int, ...] = eqx.field(static=True)
    slope: float = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], slope: float = 0.1) -> None:
        if not slope > 0 or not math.isfinite(slope):
            raise ArgumentError(f"LeakyReLU(slope={slope}): only a positive slope can be inverted")
        self.shape, self.slope = event_shape("LeakyReLU", shape), slope

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the slope where negative."""
        del condition
        return Mapped(jnp.where(z < 0, self.slope * z, z), self._log_det(z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By its reciprocal: signs stay as they are."""
        del condition
        return Mapped(jnp.where(x < 0, x / self.slope, x), -self._log_det(x))

    def _log_det(self, like: Events) -> LogDets:
        return over_event(jnp.where(like < 0, math.log(self.slope), 0.0).astype(like.dtype))


__all__ = ["LeakyReLU", "ScaleShift", "Sigmoid", "Softplus", "event_shape", "over_event"]
