"""A small bidirectional transformer encoder of token sequences: vectors of all tokens, and of the whole."""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key
from chainrule.nn.attention import Padding, TransformerBlock
from chainrule.nn.normalize import LayerNorm


class EncodedTokens(NamedTuple):
    """Tokens after they have seen each other; the first is the encoder's own."""

    tokens: Float[Array, "batch one_more width"]
    seen: Bool[Array, "batch one_more"]
    """False for padding, True for the first."""

    @property
    def summary(self) -> Float[Array, "batch width"]:
        """The mean of the tokens that are seen: what each of them says is there from the first step of training."""
        there = self.seen[:, :, None].astype(self.tokens.dtype)
        return (self.tokens * there).sum(axis=1) / there.sum(axis=1)


@final
class TokenEncoder(eqx.Module):
    """A learned token in front, learned positions, one transformer block. A sequence of padding alone is valid.

    >>> encoder = TokenEncoder(3, 8, jax.random.key(0))
    >>> found = encoder(jnp.ones((2, 3, 8)), jnp.array([[True, True, False], [False, False, False]]))
    >>> found.tokens.shape, found.seen.astype(int).tolist()
    ((2, 4, 8), [[1, 1, 1, 0], [1, 0, 0, 0]])
    """

    first: Float[Array, " width"]
    positions: Float[Array, "tokens width"]
    block: TransformerBlock
    norm: LayerNorm

    def __init__(self, tokens: int, width: int, key: Key) -> None:
        one, two, three = jax.random.split(key, 3)
        self.first = jax.random.normal(one, (width,))
        self.positions = 0.1 * jax.random.normal(two, (tokens, width))
        heads = max(count for count in (1, 2, 4) if width % count == 0)
        self.block = TransformerBlock(width, heads=heads, key=three)
        self.norm = LayerNorm(width)

    def __call__(
        self, tokens: Float[Array, "batch tokens width"], there: Bool[Array, "batch tokens"]
    ) -> EncodedTokens:
        """The tokens that are there, encoded."""
        h = tokens + self.positions.astype(tokens.dtype)[None]
        first = jnp.broadcast_to(self.first.astype(h.dtype), (len(h), 1, h.shape[2]))
        seen = jnp.concatenate([jnp.ones((len(h), 1), bool), there], axis=1)
        h = self.norm(self.block(jnp.concatenate([first, h], axis=1), mask=Padding(seen)))
        return EncodedTokens(h, seen)


__all__ = ["EncodedTokens", "TokenEncoder"]
