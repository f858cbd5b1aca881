"""The distribution of grids of codes, code after code: `p(c) = Π_t p(c_t | c_<t)`, row by row."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn import Embedding, LayerNorm, Linear, TransformerBlock
from chainrule.probability.distributions.outputs import tempered

_HEADS = 4


@final
class CodePrior(eqx.Module):
    """A small causal transformer over the codes of an example, or with no blocks one distribution for each place.

    >>> prior = CodePrior(locations=4, codes=3, width=8, layers=1, key=jax.random.key(0))
    >>> prior.log_prob(jnp.zeros((2, 4), int)).shape, prior.sample(jax.random.key(1), 5).shape
    ((2,), (5, 4))
    """

    positions: Float[Array, "locations width"]
    embedding: Embedding | None
    blocks: tuple[TransformerBlock, ...]
    norm: LayerNorm
    head: Linear
    codes: int = eqx.field(static=True)

    def __init__(self, *, locations: int, codes: int, width: int, layers: int, key: Key) -> None:
        keys = jax.random.split(key, 3 + layers)
        self.positions = random.normal(keys[0], (locations, width), 0.02 if layers else 1.0)
        # One more word stands before the first code.
        self.embedding = Embedding(codes + 1, width, deviation=0.1, key=keys[1]) if layers else None
        self.blocks = tuple(
            TransformerBlock(width, heads=_HEADS, causal=True, layers=layers, key=k) for k in keys[3:]
        )
        self.norm = LayerNorm(width)
        self.head = Linear(width, codes, gain=0.1, key=keys[2])
        self.codes = codes

    def logits(self, indices: Int[Array, "batch locations"]) -> Float[Array, "batch locations codes"]:
        """Logits of every code given those before it."""
        start = jnp.full((len(indices), 1), self.codes, indices.dtype)
        h = self._entered(jnp.concatenate([start, indices[:, :-1]], axis=1), self.positions)
        for block in self.blocks:
            h = block(h)
        return self._read(h)

    def log_prob(self, indices: Int[Array, "batch locations"]) -> Float[Array, " batch"]:
        """The log-probability of each grid."""
        found = jax.nn.log_softmax(self.logits(indices))
        return jnp.take_along_axis(found, indices[..., None], axis=-1)[..., 0].sum(axis=-1)

    def sample(
        self, key: Key, n: int, temperature: Float[Array, ""] | float = 1.0
    ) -> Int[Array, "n locations"]:
        """Grids drawn code after code, in one compiled loop that computes nothing twice."""
        locations = len(self.positions)
        caches = tuple(block.cache(n, locations) for block in self.blocks)

        def step(carry: tuple[Array, tuple], now: tuple[Array, Array]) -> tuple[tuple[Array, tuple], Array]:
            (before, caches), (position, k) = carry, now
            h, after = self._entered(before[:, None], position[None]), []
            for block, cache in zip(self.blocks, caches, strict=True):
                h, later = block.advance(h, cache)
                after.append(later)
            drawn = jax.random.categorical(k, tempered(self._read(h)[:, 0], temperature)).astype(jnp.int32)
            return (drawn, tuple(after)), drawn

        start = jnp.full((n,), self.codes, jnp.int32)
        _, drawn = jax.lax.scan(step, (start, caches), (self.positions, jax.random.split(key, locations)))
        return drawn.T

    def _entered(self, before: Int[Array, "batch time"], positions: Float[Array, "time width"]) -> Array:
        where = jnp.broadcast_to(positions[None], (len(before), *positions.shape))
        return where if self.embedding is None else where + self.embedding(before)

    def _read(self, h: Float[Array, "batch time width"]) -> Float[Array, "batch time codes"]:
        found = self.head(self.norm(h))
        return found.astype(jnp.promote_types(found.dtype, jnp.float32))


__all__ = ["CodePrior"]
