"""A denoiser without any idea of space: residual dense blocks that noise level and condition scale and shift."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.networks.base import Network
from chainrule.models.diffusion.networks.conditions import MakeReader, PictureReader, Reader
from chainrule.models.diffusion.networks.embedding import Context, Inject
from chainrule.models.diffusion.process import Level
from chainrule.nn import LayerNorm, Linear


@final
class Block(eqx.Module):
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
class MLPDenoiser(Network):
    """Entries in, residual blocks under the noise level and the condition, entries out."""

    entry: Linear
    context: Context
    blocks: tuple[Block, ...]
    norm: LayerNorm
    exit: Linear
    target: str = eqx.field(static=True)

    def __init__(
        self,
        dimensions: int,
        *,
        read: MakeReader | None = None,
        inject: Inject = "auto",
        width: int = 256,
        depth: int = 3,
        target: str = "v",
        key: Key,
    ) -> None:
        keys = jax.random.split(key, depth + 3)
        self.context = Context(width, width, read, inject, keys[1], places=False)
        self.entry = Linear(dimensions + _entries(self.context), width, key=keys[0])
        self.blocks = tuple(Block(width, k) for k in keys[3:])
        self.norm = LayerNorm(width)
        self.exit = Linear(width, dimensions, key=keys[2], initializer="zero")
        self.target = target

    @property
    def reader(self) -> Reader | None:
        return self.context.reader

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        return self.exit(self.features(x, level, condition)).reshape(x.shape).astype(x.dtype)

    def features(
        self, x: Float[Array, "batch ..."], level: Level, condition: Any = None
    ) -> Float[Array, "batch width"]:
        """What the last layer reads."""
        told = self.context(level.lam, condition, len(x))
        if told.beside is not None:
            told = told._replace(beside=told.beside.reshape(len(x), -1))
        h = told.scaled(self.entry(told.widened(x.reshape(len(x), -1))))
        for block in self.blocks:
            h = block(h, told.vector)
        return self.norm(h)


def _entries(context: Context) -> int:
    """Entries that a condition adds to the input."""
    if isinstance(context.reader, PictureReader):
        height, width, _ = context.reader.shape
        return height * width * context.added
    return context.added


__all__ = ["Block", "MLPDenoiser"]
