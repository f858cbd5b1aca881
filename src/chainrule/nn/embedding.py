"""Token embeddings, which may be tied to the output layer."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int as Whole

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key


@final
class Embedding(eqx.Module):
    """A table of vectors, one row for each token; entries start at N(0, `deviation`²).

    A lookup gathers rows; it is never a product with one-hot vectors. `logits` uses the same table backwards: a model
    whose input and output share an embedding has one array, whose gradient is the sum over both uses.

    >>> table = Embedding(65, 16, key=jax.random.key(0))
    >>> table(jnp.array([[3, 1, 4]])).shape, table.logits(jnp.ones((1, 3, 16))).shape
    ((1, 3, 16), (1, 3, 65))
    """

    weight: Float[Array, "tokens features"]

    def __init__(self, tokens: int, features: int, *, deviation: float = 0.02, key: Key) -> None:
        tokens, features = whole("Embedding", "tokens", tokens), whole("Embedding", "features", features)
        self.weight = random.normal(key, (tokens, features), deviation)

    def __call__(self, index: Int[Array, "*leading"]) -> Float[Array, "*leading features"]:
        """The vector of every token.

        A number outside the table is an error where numbers are known. Inside compiled code they are not, and its
        vector is NaN, as is all that follows from it; JAX by itself would take the nearest row, and count negative
        numbers from the end.
        """
        check_tokens(index, len(self.weight))
        if not isinstance(index, jax.core.Tracer):
            return self.weight[index]
        rows = jnp.where(index < 0, len(self.weight), index.astype(jnp.int32))
        return self.weight.at[rows].get(mode="fill", fill_value=jnp.nan)

    def logits(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading tokens"]:
        """The inner product of every vector with every row."""
        with jax.named_scope("Embedding"):
            flat = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
            # The contraction names its axes so that no transposed copy of a large table is made.
            out = jnp.einsum("nd,vd->nv", flat, self.weight)
            return out.reshape(*x.shape[:-1], self.weight.shape[0])


def check_tokens(numbers: Int[Array, "*leading"], tokens: int) -> None:
    """Raise unless every number is that of a token; inside compiled code, where they are unknown, nothing happens."""
    if isinstance(numbers, jax.core.Tracer):
        return
    index: Whole[np.ndarray, "*leading"] = np.asarray(numbers)
    for bad in np.argwhere((index < 0) | (index >= tokens))[:1]:
        where = f" at position {bad[-1]}" if len(bad) else ""
        raise ArgumentError(
            f"token number {index[tuple(bad)]}{where}: the vocabulary has 0 to {tokens - 1}",
            remedy="encode texts with the tokenizer of the model: model.tokenizer.encode(text)",
        )


__all__ = ["Embedding", "check_tokens"]
