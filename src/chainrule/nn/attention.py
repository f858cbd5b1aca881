"""Self-attention and the pre-norm transformer block (Vaswani et al., 2017; Xiong et al., 2020)."""

import math
from typing import final

import equinox as eqx
import jax

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
    >>> layer(jax.numpy.zeros((2, 7, 16))).shape
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
        query, key, value = (mixed[:, :, part] for part in range(3))
        out = jax.nn.dot_product_attention(query, key, value, is_causal=self.causal)
        return self.outward(out.reshape(x.shape))


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


__all__ = ["SelfAttention", "TransformerBlock"]
