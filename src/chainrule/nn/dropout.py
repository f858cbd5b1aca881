"""Dropout."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key


@final
class Dropout(eqx.Module):
    """Inverted dropout (Srivastava et al., 2014): each entry is kept with probability 1 - p and divided by it.

    Entries are dropped independently, so examples of a batch are too. In inference mode it changes nothing.
    """

    p: float = eqx.field(static=True)
    inference: bool

    def __init__(self, p: float, *, inference: bool = False) -> None:
        if not 0 <= p < 1:
            raise ArgumentError(f"Dropout(p={p}): p is the share that is dropped and must lie in [0, 1)")
        self.p = p
        self.inference = inference

    def __call__(self, x: Array, key: Key) -> Array:
        """The entries that were kept, scaled up; zeros elsewhere."""
        if self.inference or self.p == 0:
            return x
        keep = jax.random.bernoulli(key, 1 - self.p, x.shape)
        return jnp.where(keep, x / (1 - self.p), jnp.zeros_like(x))


__all__ = ["Dropout"]
