"""Levels as numbers that a density can be given: noise that fills the gaps between them, and a logit behind it.

A density of numbers that only take some values could grow without limit. Noise over the gap between two levels makes
them continuous, and the mean over the noise of the log-density is a bound of the log-probability of the level
(`chainrule.networks.units.dequantized`). The mean of more densities before the logarithm is a tighter one. A logit
takes the edges of the interval away, beyond which a flow would otherwise have to put nothing.

References: Theis, van den Oord and Bethge, A note on the evaluation of generative models, ICLR 2016; Dinh,
Sohl-Dickstein and Bengio, Density estimation using Real NVP, ICLR 2017; Burda, Grosse and Salakhutdinov, Importance
weighted autoencoders, ICLR 2016.
"""

import math
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.networks import units
from chainrule.networks.flows.base import Conditions, Elementary, Events, Mapped
from chainrule.networks.flows.elementwise import event_shape, over_event


@final
class LogitOfLevels(Elementary):
    """`logit(margin + (1 - 2 margin) y)` from data to codes, with y the place of an entry between 0 and 1.

    Data in the units of the model have `levels` values from 0 to 1, and half a gap of noise beyond either end; without
    levels they are from 0 to 1 themselves. Entries further out have no code and no density.

    >>> layer = LogitOfLevels((1,), 256)
    >>> round(float(layer.inverse(jnp.array([[0.5]])).value[0, 0]), 4)
    0.0
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    levels: int = eqx.field(static=True)
    margin: float = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], levels: int, margin: float = 0.05) -> None:
        if not 0 < margin < 0.5:
            raise ArgumentError(
                f"LogitOfLevels(margin={margin:g}): a margin lies between 0 and 0.5",
                remedy="use 0.05, or 1e-6",
            )
        self.shape, self.levels, self.margin = event_shape("LogitOfLevels", shape), levels, margin

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """A sigmoid, less the margin."""
        del condition
        y = (jax.nn.sigmoid(z) - self.margin) / (1 - 2 * self.margin)
        slope = jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)
        return Mapped(self._outward(y), over_event(slope) + self._constant(len(z[0].reshape(-1))))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """The logit; where an entry has no code, the volume is none, and with it the density."""
        del condition
        y = self.margin + (1 - 2 * self.margin) * self._inward(x)
        inside = ((y > 0) & (y < 1)).reshape(len(x), -1).all(axis=1)
        tiny, eps = jnp.finfo(x.dtype).tiny, jnp.finfo(x.dtype).eps
        y = jnp.clip(y, tiny, 1 - eps)
        z = jnp.log(y) - jnp.log1p(-y)
        slope = jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)
        volume = -over_event(slope) - self._constant(len(x[0].reshape(-1)))
        return Mapped(z, jnp.where(inside, volume, -jnp.inf))

    def _inward(self, x: Array) -> Array:
        return (x * (self.levels - 1) + 0.5) / self.levels if self.levels else x

    def _outward(self, y: Array) -> Array:
        return (y * self.levels - 0.5) / (self.levels - 1) if self.levels else y

    def _constant(self, entries: int) -> float:
        """What scales add to the change of volume from codes to data."""
        widths = math.log(self.levels / (self.levels - 1)) if self.levels else 0.0
        return entries * (widths - math.log(1 - 2 * self.margin))


def logit_layer(schema: Schema, margin: float) -> LogitOfLevels | None:
    """The logit that a flow of these data begins with; none where the margin is zero.

    >>> logit_layer(Schema("points", (2,)), 0.05)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: logit_margin=0.05: a logit is for data from 0 to 1; these are standardised
           use logit_margin=0
    """
    if not margin:
        return None
    if not units.unit(schema):
        raise ArgumentError(
            f"logit_margin={margin:g}: a logit is for data from 0 to 1; these are standardised",
            remedy="use logit_margin=0",
        )
    return LogitOfLevels(schema.shape, schema.levels, margin)


def dequantized_bound(
    log_prob: Callable[[Array], Float[Array, " batch"]],
    schema: Schema,
    x: Array,
    key: Key,
    draws: int = 1,
    gaps: Float[Array, " *shape"] | None = None,
) -> Float[Array, " batch"]:
    """`log mean exp` of log-densities over so many draws of noise: on average a bound of log p, tighter with more.

    >>> flat = lambda x: jnp.zeros(len(x))  # a uniform density, which noise makes no difference to
    >>> dequantized_bound(flat, Schema("image", (1, 1, 1), levels=4), jnp.zeros((2, 1, 1, 1)), jax.random.key(0), 8)
    Array([0., 0.], dtype=float32)
    """
    return weighted_bound(lambda key: log_prob(units.dequantized(schema, x, key, gaps)), key, draws)


def weighted_bound(
    one: Callable[[Key], Float[Array, " batch"]], key: Key, draws: int
) -> Float[Array, " batch"]:
    """`log mean exp` of so many bounds of log p, each the logarithm of an estimate of p that is right on average.

    >>> float(weighted_bound(lambda key: jnp.full(1, 2.0), jax.random.key(0), 3)[0])
    2.0
    """
    draws = whole("weighted_bound", "draws", draws)
    each = jax.lax.map(one, jax.random.split(key, draws))
    return jax.nn.logsumexp(each, axis=0) - math.log(draws)


__all__ = ["LogitOfLevels", "dequantized_bound", "logit_layer", "weighted_bound"]
