"""The network that says which tokens were there before a chain replaced some of them."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.networks.conditioning import ConditionEmbedding
from chainrule.networks.conditions import MakeConditionEncoder
from chainrule.networks.dit import DiTBlock
from chainrule.nn import Embedding, LayerNorm, Linear

_HEAD = 32
"""Numbers that a head of attention compares."""
_LAM = 8.0
"""The network is told the log odds that a token was kept, between minus and plus this."""


@final
class TokenDenoiser(eqx.Module):
    """A transformer over all places at once, told how many tokens were kept and perhaps a condition.

    A fresh one finds all words equally likely.

    >>> make = lambda key: TokenDenoiser(6, words=3, states=4, width=8, depth=1, read=None, key=key)
    >>> network = eqx.filter_eval_shape(make, jax.random.key(0))
    >>> eqx.filter_eval_shape(network, jnp.zeros((2, 6), int), jnp.ones(2)).shape
    (2, 6, 3)
    """

    tokens: Embedding
    positions: Float[Array, "locations width"]
    embedding: ConditionEmbedding
    blocks: tuple[DiTBlock, ...]
    norm: LayerNorm
    modulation: Linear
    exit: Linear

    def __init__(
        self,
        locations: int,
        *,
        words: int,
        states: int,
        width: int,
        depth: int,
        read: MakeConditionEncoder | None,
        key: Key,
    ) -> None:
        heads = max(1, width // _HEAD)
        if width % heads:
            raise ArgumentError(
                f"width={width}: {heads} heads divide it evenly", remedy=f"use width={heads * _HEAD}"
            )
        keys = jax.random.split(key, depth + 5)
        self.tokens = Embedding(states, width, deviation=1.0, key=keys[0])
        self.positions = random.normal(keys[1], (locations, width), 1.0)
        self.embedding = ConditionEmbedding(width, width, read, "film", keys[2])
        self.blocks = tuple(DiTBlock(width, heads, None, k) for k in keys[5:])
        self.norm = LayerNorm(width)
        self.modulation = Linear(width, 2 * width, key=keys[3], initializer="zero")
        self.exit = Linear(width, words, key=keys[4], initializer="zero")

    def __call__(
        self, x: Int[Array, "batch locations"], kept: Float[Array, "*batch"], condition: Any = None
    ) -> Float[Array, "batch locations words"]:
        """Logits of the clean tokens; `kept` is the chance that one was not touched, one for all or each example."""
        least = jax.nn.sigmoid(-_LAM)
        lam = jax.scipy.special.logit(jnp.clip(kept, least, 1 - least)).astype(self.positions.dtype)
        c = self.embedding(lam, condition, len(x))
        h = self.tokens(x) + self.positions[None]
        for block in self.blocks:
            h, _ = block(h, c, (len(self.positions), 1))
        scale, shift = jnp.split(self.modulation(c.vector)[:, None], 2, axis=-1)
        logits = self.exit((1 + scale) * self.norm(h) + shift)
        return logits.astype(jnp.promote_types(logits.dtype, jnp.float32))


__all__ = ["TokenDenoiser"]
