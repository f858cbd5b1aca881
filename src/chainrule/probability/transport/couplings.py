"""Pairs drawn from a plan between two batches: noise and data that belong together, for flow matching.

Trained on pairs of independent draws, paths of a flow cross; on pairs of a transport plan between batches they hardly
do. A plan of a batch is a biased estimate of that between the distributions, the less so the larger the batch.

References: Tong et al., Improving and generalizing flow-based generative models with minibatch optimal transport, 2024;
Pooladian et al., Multisample flow matching, ICML 2023.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int, Key
from chainrule.probability.distributions.parameters import floating, require
from chainrule.probability.transport.costs import Cost, cost_matrix
from chainrule.probability.transport.exact import exact
from chainrule.probability.transport.sinkhorn import sinkhorn


class CoupledRows(NamedTuple):
    """Rows of one batch and rows of another that belong together."""

    first: Int[Array, " pairs"]
    second: Int[Array, " pairs"]


def draw_pairs(key: Key, plan: Any, count: int | None = None) -> CoupledRows:
    """Pairs (i, j) drawn with the probabilities of a plan [n, m], exact or entropic; works in compiled code.

    Without `count` every row is in one pair, with a partner drawn from its own row: with equal weights of the rows
    these are draws from the plan with less variance, and of a permutation the permutation itself. With `count` pairs
    are drawn independently.

    >>> found = draw_pairs(jax.random.key(0), [[0.0, 0.5], [0.5, 0.0]])
    >>> found.first.tolist(), found.second.tolist()
    ([0, 1], [1, 0])
    """
    mass = floating(plan)
    if mass.ndim != 2 or not mass.size:
        raise ArgumentError(f"draw_pairs: a plan is a matrix, not of shape {mass.shape}")
    mass = require("draw_pairs", "plan", mass, lambda v: v >= 0, "not be negative")
    logs = jnp.log(mass)
    if count is None:
        sums = require("draw_pairs", "mass of each row", mass.sum(axis=1), lambda v: v > 0, "be positive")
        return CoupledRows(jnp.arange(len(sums)), jax.random.categorical(key, logs, axis=1))
    total = require("draw_pairs", "mass of the plan", mass.sum(), lambda v: v > 0, "be positive")
    logs = logs - jnp.log(total)
    drawn = jax.random.categorical(key, logs.ravel(), shape=(whole("draw_pairs", "count", count),))
    return CoupledRows(drawn // mass.shape[1], drawn % mass.shape[1])


def batch_pairs(
    key: Key, x: Any, y: Any, eps: Any = None, *, cost: Cost = "sqeuclidean", count: int | None = None
) -> CoupledRows:
    """Pairs of rows of two batches by the plan between them: the exact one, or with `eps` the entropic one.

    The exact plan is found on the host; compiled code gives an `eps`. `count` as for `draw_pairs`.

    >>> found = batch_pairs(jax.random.key(0), [[0.0], [1.0]], [[5.0], [4.0]])
    >>> found.second.tolist()
    [1, 0]
    """
    costs = cost_matrix(x, y, cost)
    weights = [jnp.full(size, 1 / size, costs.dtype) for size in costs.shape]
    found = (
        exact(weights[0], weights[1], costs) if eps is None else sinkhorn(weights[0], weights[1], costs, eps)
    )
    return draw_pairs(key, found.plan, count)


__all__ = ["CoupledRows", "batch_pairs", "draw_pairs"]
