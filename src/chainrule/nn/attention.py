"""Self-attention and the pre-norm transformer block (Vaswani et al., 2017; Xiong et al., 2020)."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.nn.activations import activation
from chainrule.nn.linear import Linear
from chainrule.nn.normalize import LayerNorm


@final
class SelfAttention(eqx.Module):
    """Multi-head self-attention over the time axis; queries, keys and values come from one matrix product.

    With `causal`, a position sees itself and what came before.

    >>> layer = SelfAttention(16, heads=4, causal=True, key=jax.random.key(0))
    >>> layer(jnp.zeros((2, 7, 16))).shape
    (2, 7, 16)
    """

    inward: Linear
    outward: Linear
    heads: int = eqx.field(static=True)
    causal: bool = eqx.field(static=True)

    def __init__(
        self, width: int, *, heads: int, causal: bool = False, initializer: str = "xavier", key: Key
    ) -> None:
        if heads < 1 or width % heads:
            raise ArgumentError(f"SelfAttention(heads={heads}): a width of {width} cannot be split evenly")
        first, second = jax.random.split(key)
        self.inward = Linear(width, 3 * width, initializer=initializer, key=first)
        self.outward = Linear(width, width, initializer=initializer, key=second)
        self.heads = heads
        self.causal = causal

    def __call__(self, x: Float[Array, "*leading time width"]) -> Float[Array, "*leading time width"]:
        """What every position gathers from those it sees."""
        *leading, time, width = x.shape
        mixed = self.inward(x).reshape(math.prod(leading), time, 3, self.heads, width // self.heads)
        query, key, value = mixed.transpose(2, 0, 3, 1, 4)  # each (batch, heads, time, width of a head)
        out = attend(query, key, value, self.causal)
        return self.outward(out.swapaxes(1, 2).reshape(x.shape))


def attend(
    query: Float[Array, "*leading time width"],
    key: Float[Array, "*leading others width"],
    value: Float[Array, "*leading others outputs"],
    causal: bool,
) -> Float[Array, "*leading time outputs"]:
    """Means of the values, weighted by the softmax of `query · key / sqrt(width)`, in float32 or wider."""
    scores = jnp.einsum("...qd,...kd->...qk", query, key) / math.sqrt(query.shape[-1])
    scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(jnp.broadcast_to(seen, scores.shape), scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    return jnp.einsum("...qk,...kd->...qd", weights, value)


@final
class TransformerBlock(eqx.Module):
    """`x + attention(norm(x))`, then `x + feedforward(norm(x))` with four times the width within."""

    first_norm: LayerNorm
    attention: SelfAttention
    second_norm: LayerNorm
    widen: Linear
    narrow: Linear
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        causal: bool = False,
        activation: str = "gelu",
        factor: int = 4,
        key: Key,
    ) -> None:
        keys = jax.random.split(key, 3)
        self.first_norm = LayerNorm(width)
        self.attention = SelfAttention(width, heads=heads, causal=causal, key=keys[0])
        self.second_norm = LayerNorm(width)
        self.widen = Linear(width, factor * width, key=keys[1])
        self.narrow = Linear(factor * width, width, key=keys[2])
        self.activation = activation

    def __call__(self, x: Float[Array, "*leading time width"]) -> Float[Array, "*leading time width"]:
        """The positions after one round of gathering and thinking."""
        x = x + self.attention(self.first_norm(x))
        return x + self.narrow(activation(self.activation)(self.widen(self.second_norm(x))))


__all__ = ["SelfAttention", "TransformerBlock", "attend"]
