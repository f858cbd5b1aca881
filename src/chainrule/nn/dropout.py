"""Dropout: of single entries, of whole channels, of whole branches; and predictions that keep it switched on."""

from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import share, whole
from chainrule.core.types import Array, Key


@final
class Dropout(eqx.Module):
    """Inverted dropout (Srivastava et al., 2014): each entry is kept with probability 1 - p and divided by it.

    Entries are dropped independently, so examples of a batch are too. In inference mode it changes nothing.
    """

    p: float = eqx.field(static=True)
    inference: bool

    def __init__(self, p: float, *, inference: bool = False) -> None:
        self.p = _checked("Dropout", p)
        self.inference = inference

    def __call__(self, x: Array, key: Key) -> Array:
        """The entries that were kept, scaled up; zeros elsewhere."""
        return x if self.inference else _dropped(x, self.p, x.shape, key)


@final
class ChannelDropout(eqx.Module):
    """Drops whole channels of each example (Tompson et al., 2015): neighbouring pixels give each other away."""

    p: float = eqx.field(static=True)
    dimensions: int = eqx.field(static=True)
    inference: bool

    def __init__(self, p: float, *, dimensions: int = 2, inference: bool = False) -> None:
        self.p = _checked("ChannelDropout", p)
        self.dimensions = dimensions
        self.inference = inference

    def __call__(self, x: Array, key: Key) -> Array:
        """The channels that were kept, scaled up; zeros elsewhere."""
        leading = x.shape[: x.ndim - 1 - self.dimensions]
        shape = (*leading, *(1,) * self.dimensions, x.shape[-1])
        return x if self.inference else _dropped(x, self.p, shape, key)


@final
class StochasticDepth(eqx.Module):
    """Drops a whole branch for some examples of a batch (Huang et al., 2016): for the branch of a residual block."""

    p: float = eqx.field(static=True)
    inference: bool

    def __init__(self, p: float, *, inference: bool = False) -> None:
        self.p = _checked("StochasticDepth", p)
        self.inference = inference

    def __call__(self, x: Array, key: Key) -> Array:
        """The examples that were kept, scaled up; zeros elsewhere."""
        return x if self.inference else _dropped(x, self.p, (x.shape[0], *(1,) * (x.ndim - 1)), key)


def monte_carlo(predict: Callable[[Key], Array], key: Key, samples: int) -> tuple[Array, Array]:
    """Mean and standard deviation of predictions with dropout switched on (Gal and Ghahramani, 2016)."""
    samples = whole("monte_carlo", "samples", samples)
    drawn = jax.lax.map(predict, jax.random.split(key, samples))
    return drawn.mean(axis=0), drawn.std(axis=0)


def _checked(where: str, p: float) -> float:
    return share(where, "p", p, "the share that is dropped")


def _dropped(x: Array, p: float, shape: tuple[int, ...], key: Key) -> Array:
    if p == 0:
        return x
    keep = jnp.broadcast_to(jax.random.bernoulli(key, 1 - p, shape), x.shape)
    return jnp.where(keep, x / (1 - p), jnp.zeros_like(x))


__all__ = ["ChannelDropout", "Dropout", "StochasticDepth", "monte_carlo"]
