"""Corruptions of examples that are no Gaussian noise: entries that go missing, or become black or white.

They make a code that does not hang on single entries (Vincent et al., 2008). What a denoiser of them learns is still
the mean of clean examples given corrupted ones; the gradient of a log-density it is not.
"""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.networks import units


class Corruption(eqx.Module):
    """A random change of single entries, in the units of the model."""

    share: eqx.AbstractVar[float]
    """Of the entries that change."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "*entries"], key: Key) -> Float[Array, "*entries"]:
        """Entries, some of them changed."""


@final
class Masking(Corruption):
    """Entries become zero: black of images, the mean of standardised data.

    >>> Masking(1.0)(jnp.ones(2), jax.random.key(0)).tolist()
    [0.0, 0.0]
    """

    share: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*entries"], key: Key) -> Float[Array, "*entries"]:
        return jnp.where(jax.random.bernoulli(key, self.share, x.shape), jnp.zeros_like(x), x)


@final
class SaltAndPepper(Corruption):
    """Entries become 0 or 1, as often the one as the other.

    >>> sorted(set(SaltAndPepper(1.0)(jnp.full(9, 0.5), jax.random.key(0)).tolist()))
    [0.0, 1.0]
    """

    share: float = eqx.field(static=True)

    def __call__(self, x: Float[Array, "*entries"], key: Key) -> Float[Array, "*entries"]:
        where, which = jax.random.split(key)
        extreme = jax.random.bernoulli(which, 0.5, x.shape).astype(x.dtype)
        return jnp.where(jax.random.bernoulli(where, self.share, x.shape), extreme, x)


def corruption(name: str, share: float, schema: Schema) -> Corruption:
    """A corruption by its name, for data that it makes sense of."""
    if name == "masking":
        return Masking(share)
    if not units.unit(schema):
        raise ArgumentError(
            f"corruption={name}: these data have no least and no largest value to change entries to",
            remedy="use corruption=masking or gaussian",
        )
    return SaltAndPepper(share)


__all__ = ["Corruption", "Masking", "SaltAndPepper", "corruption"]
