"""Diffusion transformer (Peebles and Xie, 2023): patches as tokens, adaptive layer normalisation.

Every block is normalised, scaled, shifted and gated by the level and the condition (adaLN-zero); gates start at zero,
so that a fresh network returns zeros.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.conditioning import (
    ConditionedNetwork,
    ConditionEmbedding,
    Conditioning,
    Inject,
    Maps,
    TokenAttention,
)
from chainrule.networks.conditions import MakeConditionEncoder, check_image_condition
from chainrule.networks.patches import check_patch, cut, join
from chainrule.nn import LayerNorm, Linear, SelfAttention

_Tokens = Float[Array, "batch time width"]


@final
class DiTBlock(eqx.Module):
    """`h + gate attention(film(norm(h)))`, then the same with a feed-forward network in place of attention.

    Where there are tokens of a condition, every patch gathers from them in between.
    """

    norms: tuple[LayerNorm, LayerNorm]
    modulation: Linear
    attention: SelfAttention
    widen: Linear
    narrow: Linear
    cross_norm: LayerNorm | None
    cross: TokenAttention | None

    def __init__(self, width: int, heads: int, source: int | None, key: Key) -> None:
        keys = jax.random.split(key, 4)
        self.norms = (LayerNorm(width), LayerNorm(width))
        self.modulation = Linear(width, 6 * width, key=keys[0], initializer="zero")
        self.attention = SelfAttention(width, heads=heads, key=keys[1])
        self.widen = Linear(width, 4 * width, key=keys[2])
        self.narrow = Linear(4 * width, width, key=keys[3])
        self.cross_norm = None if source is None else LayerNorm(width)
        self.cross = None if source is None else TokenAttention(width, source, jax.random.fold_in(key, 1))

    def __call__(self, h: _Tokens, c: Conditioning, grid: tuple[int, int]) -> tuple[_Tokens, Maps]:
        """The tokens of a grid of patches, moved on under the conditioning."""
        scale, shift, gate, scale_2, shift_2, gate_2 = jnp.split(
            self.modulation(c.vector)[:, None], 6, axis=-1
        )
        h = h + gate * self.attention((1 + scale) * self.norms[0](h) + shift)
        maps: Maps = ()
        if self.cross is not None and self.cross_norm is not None:
            gathered, maps = self.cross(self.cross_norm(h).reshape(len(h), *grid, h.shape[-1]), c)
            h = h + gathered.reshape(h.shape)
        inner = self.widen((1 + scale_2) * self.norms[1](h) + shift_2)
        return h + gate_2 * self.narrow(jax.nn.gelu(inner)), maps


@final
class DiT(ConditionedNetwork):
    """Patches of the image in, patches out.

    >>> network = eqx.filter_eval_shape(DiT, (8, 8, 1), key=jax.random.key(0))
    >>> eqx.filter_eval_shape(network, jnp.zeros((2, 8, 8, 1)), jnp.zeros(())).shape
    (2, 8, 8, 1)
    """

    entry: Linear
    embedding: ConditionEmbedding
    blocks: tuple[DiTBlock, ...]
    norm: LayerNorm
    modulation: Linear
    exit: Linear
    patch: int = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        patch: int = 2,
        width: int = 192,
        depth: int = 6,
        heads: int = 3,
        read: MakeConditionEncoder | None = None,
        inject: Inject = "auto",
        key: Key,
    ) -> None:
        check_patch(shape, patch)
        if width % 4:
            raise ArgumentError(f"width={width}: positions in two dimensions need a multiple of 4")
        keys = jax.random.split(key, depth + 4)
        self.embedding = ConditionEmbedding(width, width, read, inject, keys[1])
        if self.embedding.added:
            check_image_condition(self.embedding.condition, shape)
        self.entry = Linear(patch * patch * (shape[2] + self.embedding.added), width, key=keys[0])
        self.blocks = tuple(DiTBlock(width, heads, self.embedding.source, k) for k in keys[4:])
        self.norm = LayerNorm(width)
        self.modulation = Linear(width, 2 * width, key=keys[2], initializer="zero")
        self.exit = Linear(width, patch * patch * shape[2], key=keys[3], initializer="zero")
        self.patch = patch

    def __call__(self, x: Float[Array, "batch ..."], level: Array, condition: Any = None) -> Array:
        return self._run(x, self.embedding(level, condition, len(x)))[0]

    def attention_maps(self, x: Float[Array, "batch ..."], level: Array, condition: Any) -> Maps:
        return self._run(x, self.embedding(level, condition, len(x), keep_maps=True))[1]

    def _run(self, x: Float[Array, "batch ..."], c: Conditioning) -> tuple[Array, Maps]:
        rows, columns = (n // self.patch for n in x.shape[1:3])
        h = c.scaled(self.entry(cut(c.widened(x), self.patch)))
        h = h + jnp.asarray(positions(rows, columns, h.shape[-1]), h.dtype)[None]
        maps: Maps = ()
        for block in self.blocks:
            h, more = block(h, c, (rows, columns))
            maps += more
        scale, shift = jnp.split(self.modulation(c.vector)[:, None], 2, axis=-1)
        out = self.exit((1 + scale) * self.norm(h) + shift).astype(x.dtype)
        return join(out, x.shape[1:], self.patch), maps


def positions(rows: int, columns: int, width: int) -> Float[np.ndarray, "time width"]:
    """Sines and cosines of the row in the first half of the entries, of the column in the second.

    >>> positions(2, 3, 8).shape
    (6, 8)
    """
    frequencies = 10_000.0 ** -(np.arange(width // 4) / (width // 4))
    grid = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1).reshape(-1, 2)
    angles = grid[:, :, None] * frequencies[None, None]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=2).reshape(len(grid), width)


__all__ = ["DiT", "DiTBlock", "positions"]
