"""Residual dense blocks whose features a level and a condition scale and shift."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.networks.conditioning import ConditionedNetwork, ConditionEmbedding, Inject
from chainrule.networks.conditions import ImageEncoder, MakeConditionEncoder
from chainrule.nn import LayerNorm, Linear


@final
class ResidualMLPBlock(eqx.Module):
    """`h + gate(c) f((1 + scale(c)) norm(h) + shift(c))`; gates start at zero, so that a fresh block does nothing."""

    norm: LayerNorm
    modulation: Linear
    first: Linear
    second: Linear

    def __init__(self, width: int, key: Key) -> None:
        one, two, three = jax.random.split(key, 3)
        self.norm = LayerNorm(width)
        self.modulation = Linear(width, 3 * width, key=one, initializer="zero")
        self.first = Linear(width, width, key=two, gain=math.sqrt(2))
        self.second = Linear(width, width, key=three)

    def __call__(self, h: Float[Array, "batch width"], c: Float[Array, "batch width"]) -> Array:
        """The features, moved on under the condition `c`."""
        scale, shift, gate = jnp.split(self.modulation(c), 3, axis=1)
        inner = (1 + scale) * self.norm(h) + shift
        return h + gate * self.second(jax.nn.silu(self.first(inner)))


@final
class ResidualMLP(ConditionedNetwork):
    """Entries in, residual dense blocks under the level and the condition, entries out.

    >>> network = eqx.filter_eval_shape(ResidualMLP, 3, key=jax.random.key(0))
    >>> eqx.filter_eval_shape(network, jnp.zeros((2, 3)), jnp.zeros(())).shape
    (2, 3)
    """

    entry: Linear
    embedding: ConditionEmbedding
    blocks: tuple[ResidualMLPBlock, ...]
    norm: LayerNorm
    exit: Linear

    def __init__(
        self,
        dimensions: int,
        *,
        read: MakeConditionEncoder | None = None,
        inject: Inject = "auto",
        width: int = 256,
        depth: int = 3,
        key: Key,
    ) -> None:
        keys = jax.random.split(key, depth + 3)
        self.embedding = ConditionEmbedding(width, width, read, inject, keys[1], positions=False)
        self.entry = Linear(dimensions + _entries(self.embedding), width, key=keys[0])
        self.blocks = tuple(ResidualMLPBlock(width, k) for k in keys[3:])
        self.norm = LayerNorm(width)
        self.exit = Linear(width, dimensions, key=keys[2], initializer="zero")

    def __call__(self, x: Float[Array, "batch ..."], level: Array, condition: Any = None) -> Array:
        return self.exit(self.features(x, level, condition)).reshape(x.shape).astype(x.dtype)

    def features(
        self, x: Float[Array, "batch ..."], level: Array, condition: Any = None
    ) -> Float[Array, "batch width"]:
        """What the last layer reads."""
        c = self.embedding(level, condition, len(x))
        if c.beside is not None:
            c = c._replace(beside=c.beside.reshape(len(x), -1))
        h = c.scaled(self.entry(c.widened(x.reshape(len(x), -1))))
        for block in self.blocks:
            h = block(h, c.vector)
        return self.norm(h)


def _entries(embedding: ConditionEmbedding) -> int:
    """Entries that a condition adds to the input."""
    if isinstance(embedding.condition, ImageEncoder):
        height, width, _ = embedding.condition.shape
        return height * width * embedding.added
    return embedding.added


__all__ = ["ResidualMLP", "ResidualMLPBlock"]
