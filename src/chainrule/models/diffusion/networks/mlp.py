"""A denoiser without any idea of space: residual dense blocks that the noise level and the class scale and shift."""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.base import Denoiser
from chainrule.models.diffusion.networks.embedding import FEATURES, waves
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
class MLPDenoiser(Denoiser):
    """Entries in, residual blocks under the noise level and the class, entries out.

    The last class number, `classes`, stands for no class in particular.
    """

    entry: Linear
    level: tuple[Linear, Linear]
    names: Float[Array, "classes_and_none width"] | None
    blocks: tuple[Block, ...]
    norm: LayerNorm
    exit: Linear
    classes: int = eqx.field(static=True)
    target: str = eqx.field(static=True)

    def __init__(
        self,
        dimensions: int,
        *,
        classes: int = 0,
        width: int = 256,
        depth: int = 3,
        target: str = "v",
        key: Key,
    ) -> None:
        keys = jax.random.split(key, depth + 5)
        self.entry = Linear(dimensions, width, key=keys[0])
        self.level = (
            Linear(FEATURES, width, key=keys[1], gain=math.sqrt(2)),
            Linear(width, width, key=keys[2]),
        )
        self.names = jax.random.normal(keys[3], (classes + 1, width)) if classes else None
        self.blocks = tuple(Block(width, k) for k in keys[5:])
        self.norm = LayerNorm(width)
        self.exit = Linear(width, dimensions, key=keys[4], initializer="zero")
        self.classes = classes
        self.target = target

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        lam = jnp.broadcast_to(level.lam, (len(x),))
        first, second = self.level
        c = second(jax.nn.silu(first(waves(lam))))
        if self.names is not None:
            wanted = self.classes if condition is None else condition
            c = c + self.names[jnp.broadcast_to(jnp.asarray(wanted), (len(x),))]
        c = jax.nn.silu(c)
        h = self.entry(x.reshape(len(x), -1))
        for block in self.blocks:
            h = block(h, c)
        return self.exit(self.norm(h)).reshape(x.shape)

    def null(self, condition: Any) -> Array:
        """The number that stands for no class in particular."""
        return jnp.full_like(jnp.asarray(condition), self.classes)


__all__ = ["Block", "MLPDenoiser"]
