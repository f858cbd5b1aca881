"""The graph layer: every node mixes with its neighbours before a dense layer that all nodes share."""

from typing import final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.nn.activations import activation as find
from chainrule.nn.linear import Linear


def normalized_adjacency(adjacency: Float[Array, "..."]) -> Float[Array, "nodes nodes"]:
    """`D^(-1/2) (A + I) D^(-1/2)` with the degrees D of A + I.

    >>> normalized_adjacency(jnp.array([[0.0, 1.0], [1.0, 0.0]])).round(3).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ArgumentError(
            f"normalized_adjacency: an adjacency of shape {adjacency.shape}",
            remedy="it has a row and a column for each node, and entry (i, j) is the weight of the edge between them",
        )
    looped = adjacency + jnp.eye(len(adjacency), dtype=adjacency.dtype)
    root = jnp.sqrt(looped.sum(axis=1))
    return looped / (root[:, None] * root[None, :])


@final
class GraphLayer(eqx.Module):
    """`act(D^(-1/2) (A + I) D^(-1/2) H W)` (Kipf and Welling, 2017, arXiv:1609.02907)."""

    linear: Linear
    activation: str = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, *, activation: str = "relu", key: Key) -> None:
        self.linear = Linear(inputs, outputs, key=key, gain=find(activation).gain, bias=False)
        self.activation = activation

    def __call__(
        self, h: Float[Array, "nodes inputs"], adjacency: Float[Array, "..."]
    ) -> Float[Array, "nodes outputs"]:
        """New features of every node; edges may carry weights, which must not be negative."""
        mixed = normalized_adjacency(adjacency)
        if len(h) != len(mixed):
            raise ArgumentError(f"GraphLayer: features of {len(h)} nodes, but an adjacency of {len(mixed)}")
        return find(self.activation)(mixed @ self.linear(h))


__all__ = ["GraphLayer", "normalized_adjacency"]
