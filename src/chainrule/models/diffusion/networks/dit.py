"""The transformer denoiser (Peebles and Xie, 2023): patches as tokens, blocks that noise level and class steer.

Every block is normalised, scaled, shifted and gated by the condition (adaLN-zero); gates start at zero, so that a fresh
network predicts nothing.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.networks.base import Network
from chainrule.models.diffusion.networks.embedding import Context
from chainrule.models.diffusion.process import Level
from chainrule.nn import LayerNorm, Linear, SelfAttention

_Tokens = Float[Array, "batch time width"]


@final
class Block(eqx.Module):
    """`h + gate attention(film(norm(h)))`, then the same with a feed-forward network in place of attention."""

    norms: tuple[LayerNorm, LayerNorm]
    modulation: Linear
    attention: SelfAttention
    widen: Linear
    narrow: Linear

    def __init__(self, width: int, heads: int, key: Key) -> None:
        keys = jax.random.split(key, 4)
        self.norms = (LayerNorm(width), LayerNorm(width))
        self.modulation = Linear(width, 6 * width, key=keys[0], initializer="zero")
        self.attention = SelfAttention(width, heads=heads, key=keys[1])
        self.widen = Linear(width, 4 * width, key=keys[2])
        self.narrow = Linear(4 * width, width, key=keys[3])

    def __call__(self, h: _Tokens, c: Float[Array, "batch width"]) -> _Tokens:
        """The tokens, moved on under the condition `c`."""
        scale, shift, gate, scale_2, shift_2, gate_2 = jnp.split(self.modulation(c)[:, None], 6, axis=-1)
        h = h + gate * self.attention((1 + scale) * self.norms[0](h) + shift)
        inner = self.widen((1 + scale_2) * self.norms[1](h) + shift_2)
        return h + gate_2 * self.narrow(jax.nn.gelu(inner))


@final
class DiTDenoiser(Network):
    """Patches of the picture in, patches out.

    >>> network = eqx.filter_eval_shape(DiTDenoiser, (8, 8, 1), key=jax.random.key(0))
    >>> predict = lambda network, x: network.predict(x, Level(0.6, 0.8))
    >>> eqx.filter_eval_shape(predict, network, jnp.zeros((2, 8, 8, 1))).shape
    (2, 8, 8, 1)
    """

    entry: Linear
    context: Context
    blocks: tuple[Block, ...]
    norm: LayerNorm
    modulation: Linear
    exit: Linear
    patch: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    target: str = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        patch: int = 2,
        width: int = 192,
        depth: int = 6,
        heads: int = 3,
        classes: int = 0,
        target: str = "v",
        key: Key,
    ) -> None:
        if len(shape) != 3 or shape[0] % patch or shape[1] % patch:
            raise ArgumentError(
                f"shape {shape} cannot be cut into patches of {patch} x {patch}",
                remedy="use a patch that divides both sides",
            )
        if width % 4:
            raise ArgumentError(f"width={width}: positions in two dimensions need a multiple of 4")
        keys = jax.random.split(key, depth + 4)
        entries = patch * patch * shape[2]
        self.entry = Linear(entries, width, key=keys[0])
        self.context = Context(width, classes, keys[1])
        self.blocks = tuple(Block(width, heads, k) for k in keys[4:])
        self.norm = LayerNorm(width)
        self.modulation = Linear(width, 2 * width, key=keys[2], initializer="zero")
        self.exit = Linear(width, entries, key=keys[3], initializer="zero")
        self.patch, self.classes, self.target = patch, classes, target

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        c = self.context(level.lam, condition, len(x))
        tokens = cut(x, self.patch)
        rows, columns = (n // self.patch for n in x.shape[1:3])
        h = self.entry(tokens)
        h = h + jnp.asarray(positions(rows, columns, h.shape[-1]), h.dtype)[None]
        for block in self.blocks:
            h = block(h, c)
        scale, shift = jnp.split(self.modulation(c)[:, None], 2, axis=-1)
        out = self.exit((1 + scale) * self.norm(h) + shift).astype(x.dtype)
        return joined(out, x.shape, self.patch)


def positions(rows: int, columns: int, width: int) -> Float[np.ndarray, "time width"]:
    """Sines and cosines of the row in the first half of the entries, of the column in the second.

    >>> positions(2, 3, 8).shape
    (6, 8)
    """
    frequencies = 10_000.0 ** -(np.arange(width // 4) / (width // 4))
    grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1).reshape(-1, 2)
    angles = grid[:, :, None] * frequencies[None, None]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=2).reshape(len(grid), width)


def cut(x: Float[Array, "batch height width channels"], patch: int) -> Float[Array, "batch time entries"]:
    """Pictures as rows of patches.

    >>> x = jnp.arange(2 * 4 * 6 * 3.0).reshape(2, 4, 6, 3)
    >>> bool((joined(cut(x, 2), x.shape, 2) == x).all())
    True
    """
    batch, height, width, channels = x.shape
    parts = x.reshape(batch, height // patch, patch, width // patch, patch, channels).swapaxes(2, 3)
    return parts.reshape(batch, -1, patch * patch * channels)


def joined(tokens: Float[Array, "batch time entries"], shape: tuple[int, ...], patch: int) -> Array:
    """The way back to pictures of this shape."""
    _, height, width, channels = shape
    rows, columns = height // patch, width // patch
    parts = tokens.reshape(len(tokens), rows, columns, patch, patch, channels).swapaxes(2, 3)
    return parts.reshape(len(tokens), height, width, channels)


__all__ = ["Block", "DiTDenoiser", "cut", "joined", "positions"]
