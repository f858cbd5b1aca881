"""The graph layer: every node mixes with its neighbours before a dense layer that all nodes share."""

from typing import final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.nn.activations import activation as find
from chainrule.nn.linear import Linear


def normalized_adjacency(adjacency: Float[Array, "nodes nodes"]) -> Float[Array, "nodes nodes"]:
    """`D^(-1/2) (A + I) D^(-1/2)` with the degrees D of A + I.

    >>> normalized_adjacency(jnp.array([[0.0, 1.0], [1.0, 0.0]])).round(3).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
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
        self, h: Float[Array, "nodes inputs"], adjacency: Float[Array, "others others"]
    ) -> Float[Array, "nodes outputs"]:
        """New features of every node; edges may carry weights, which must not be negative."""
        if len(h) != len(adjacency):
            raise ArgumentError(
                f"GraphLayer: features of {len(h)} nodes, but an adjacency of {len(adjacency)}"
            )
        return find(self.activation)(normalized_adjacency(adjacency) @ self.linear(h))


__all__ = ["GraphLayer", "normalized_adjacency"]
