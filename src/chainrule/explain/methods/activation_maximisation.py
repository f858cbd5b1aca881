"""Activation maximisation: images made to excite a class or a channel as much as the range of the data allows.

Gradient ascent on the image (Erhan et al., *Visualizing higher-layer features of a deep network*, 2009; Simonyan et
al., 2014, arXiv:1312.6034). Left alone it ends in patterns too fine to see. Three things hold it back: the image is
moved by a few pixels at random before every step (jitter; Mordvintsev et al., *Inceptionism*, 2015), blurred a little
after it, and drawn back towards a centre. All targets climb at once, in one compiled loop.
"""

from collections.abc import Callable
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key

Excitement: TypeAlias = Callable[[Float[Array, "batch height width channels"]], Float[Array, " batch"]]
"""From images to how much each excites what it is made for."""


@final
class Ascent(eqx.Module):
    """How the climb is held back. What happens in a step, climb and restraint alike, falls linearly to zero.

    >>> Ascent(steps=10, decay=1.5)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Ascent(decay=1.5): a share of the way
           choose a number from 0 to 1
    """

    steps: int = eqx.field(static=True, default=200)
    rate: float = eqx.field(static=True, default=0.05)
    """Root mean square of the first step."""
    jitter: int = eqx.field(static=True, default=1)
    """Most pixels the image is moved by before a step, each way; pixels that come in repeat the edge."""
    blur: float = eqx.field(static=True, default=0.05)
    """Share of the way to the blurred image (weights 1, 2, 1 both ways) after the first step."""
    decay: float = eqx.field(static=True, default=0.01)
    """Share of the way back to the centre after the first step."""

    def __check_init__(self) -> None:
        for name, low in (("steps", 1), ("jitter", 0)):
            value = getattr(self, name)
            if value < low:
                raise ArgumentError(
                    f"Ascent({name}={value}): too few", remedy=f"choose {low} or a larger number"
                )
        for name in ("blur", "decay"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ArgumentError(
                    f"Ascent({name}={value}): a share of the way", remedy="choose a number from 0 to 1"
                )
        if not self.rate > 0:
            raise ArgumentError(
                f"Ascent(rate={self.rate}): the climb needs steps", remedy="choose a positive number"
            )


def climb(
    excitement: Excitement,
    start: Float[Array, "batch height width channels"],
    key: Key,
    ascent: Ascent,
    *,
    low: Float[Array, " channels"],
    high: Float[Array, " channels"],
    centre: Float[Array, "height width channels"],
) -> Float[Array, "batch height width channels"]:
    """The images after the ascent, every colour kept between `low` and `high`.

    Every image goes its own way at the same pace: its gradient is divided by its root mean square. One that excites
    nothing has no gradient and only fades to the centre.
    """
    slope = jax.grad(lambda x, shift: excitement(moved(x, shift, ascent.jitter)).sum())

    def step(x: Array, moment: tuple[Array, Key]) -> tuple[Array, None]:
        share, key = moment
        g = slope(x, jax.random.randint(key, (2,), -ascent.jitter, ascent.jitter + 1))
        size = jnp.sqrt(jnp.square(g).mean(axis=(1, 2, 3), keepdims=True))
        x = x + share * ascent.rate * g / jnp.where(size > 0, size, 1)
        x = x + share * ascent.blur * (blurred(x) - x)
        x = x + share * ascent.decay * (centre[None] - x)
        return jnp.clip(x, low[None, None, None], high[None, None, None]), None

    shares = 1 - jnp.arange(ascent.steps, dtype=start.dtype) / ascent.steps
    found, _ = jax.lax.scan(step, start, (shares, jax.random.split(key, ascent.steps)))
    return found


def moved(
    x: Float[Array, "batch height width channels"], shift: Int[Array, "2"], most: int
) -> Float[Array, "batch height width channels"]:
    """The images moved down and to the right by a shift of at most `most` pixels; the edge is repeated behind them.

    >>> moved(jnp.arange(3.0).reshape(1, 1, 3, 1), jnp.array([0, 1]), 1).ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    wide = jnp.pad(x, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
    return jax.lax.dynamic_slice(wide, (0, most - shift[0], most - shift[1], 0), x.shape)


def blurred(x: Float[Array, "batch height width channels"]) -> Float[Array, "batch height width channels"]:
    """Every pixel the mean of itself and its neighbours with weights 1, 2, 1 both ways; the edge is repeated.

    >>> blurred(jnp.array([0.0, 0.0, 4.0, 0.0]).reshape(1, 1, 4, 1)).ravel().tolist()
    [0.0, 1.0, 2.0, 1.0]
    """
    for axis in (1, 2):
        width = [(0, 0)] * 4
        width[axis] = (1, 1)
        wide, n = jnp.pad(x, width, mode="edge"), x.shape[axis]
        before, here, after = (jax.lax.slice_in_dim(wide, i, i + n, axis=axis) for i in range(3))
        x = (before + 2 * here + after) / 4
    return x


__all__ = ["Ascent", "Excitement", "blurred", "climb", "moved"]
