"""Attention of a recurrent decoder to the states of its encoder (Bahdanau et al., 2015; Luong et al., 2015)."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.nn import Linear
from chainrule.nn.attention import softmax

KINDS = ("dot", "bilinear", "additive")


@final
class Aligner(eqx.Module):
    """Attention of one decoder state q to encoder states s_k (Bahdanau et al., 2015; Luong et al., 2015).

    Scores are `q · s_k` (dot), `q W · s_k` (bilinear) or `w · tanh([q; s_k] W + b)` (additive).

    >>> aligner = Aligner("bilinear", queries=3, keys=4, key=jax.random.key(0))
    >>> mean, weights = aligner(jnp.zeros((2, 3)), aligner.prepare(jnp.ones((2, 5, 4))), jnp.ones((2, 5), bool))
    >>> mean.shape, weights.shape
    ((2, 4), (2, 5))
    """

    query: Linear | None
    key: Linear | None
    score: Linear | None

    def __init__(self, kind: str, *, queries: int, keys: int, key: Key) -> None:
        check_choice("Aligner", "kind", kind, KINDS)
        if kind == "dot" and queries != keys:
            raise ArgumentError(
                f"attention=dot: decoder states have {queries} entries and encoder states {keys}; they must be equal",
                remedy="use attention=bilinear",
            )
        first, second, third = jax.random.split(key, 3)
        self.query, self.key, self.score = None, None, None
        if kind == "bilinear":
            self.query = Linear(queries, keys, initializer="xavier", bias=False, key=first)
        if kind == "additive":  # the two halves of one matrix, so that the encoder's is applied once
            self.query = Linear(queries, keys, initializer="xavier", bias=False, key=first)
            self.key = Linear(keys, keys, initializer="xavier", key=second)
            self.score = Linear(keys, 1, initializer="xavier", bias=False, key=third)

    def prepare(
        self, states: Float[Array, "batch source keys"]
    ) -> tuple[Float[Array, "batch source keys"], Float[Array, "batch source keys"]]:
        """Encoder states, and what of the scores depends on them alone."""
        return states, states if self.key is None else self.key(states)

    def __call__(
        self,
        query: Float[Array, "batch queries"],
        prepared: tuple[Float[Array, "batch source keys"], Float[Array, "batch source keys"]],
        valid: Bool[Array, "batch source"],
    ) -> tuple[Float[Array, "batch keys"], Float[Array, "batch source"]]:
        """The mean of the encoder states, and the weights it was taken by."""
        states, keys = prepared
        projected = query if self.query is None else self.query(query)
        if self.score is None:
            scores = jnp.einsum("bsk,bk->bs", keys, projected)
        else:
            scores = self.score(jnp.tanh(keys + projected[:, None, :]))[..., 0]
        weights = softmax(scores, where=valid).astype(states.dtype)
        return jnp.einsum("bs,bsk->bk", weights, states), weights


__all__ = ["KINDS", "Aligner"]
