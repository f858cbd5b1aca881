"""How far generated examples are from real ones: the three distances a generator can be trained by."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.probability.transport.costs import pairwise
from chainrule.probability.transport.entropic.costs import EntropicProblem
from chainrule.probability.transport.entropic.iteration import DEPTH, StoppingRule
from chainrule.probability.transport.entropic.kernel import CostMatrix
from chainrule.probability.transport.entropic.marginals import Balanced
from chainrule.probability.transport.entropic.solving import EntropicSolution, solved, solved_with_itself

_MOST = 500
"""Iterations of a solver within a step of training."""

Rows = Float[Array, "some entries"]
Others = Float[Array, "others entries"]


class TransportDistance(NamedTuple):
    """A distance that can be minimised, and how far its solver was from the end."""

    value: Scalar
    error: Scalar


def mean_cost(x: Rows, cost: str) -> Scalar:
    """The mean cost between examples of one set: what eps is measured in."""
    return pairwise(cost)(x, x).mean()


def suited_eps(cost: str) -> float:
    """The eps, beside the mean cost, that goes with a cost where none is given.

    >>> suited_eps("euclidean"), suited_eps("sqeuclidean")
    (0.01, 0.05)
    """
    return 0.01 if cost == "euclidean" else 0.05


def entropic(x: Rows, y: Others, eps: Scalar, cost: str) -> TransportDistance:
    """The entropic cost, whose nearest distribution is a shrunken one."""
    found = _between(x, y, eps, cost)
    return TransportDistance(found.value, found.error)


def divergence(x: Rows, y: Others, eps: Scalar, cost: str) -> TransportDistance:
    """The Sinkhorn divergence; the term of the real examples alone is a constant to generators."""
    cross = _between(x, y, eps, cost)
    real, own = (_with_itself(rows, eps, cost) for rows in (jax.lax.stop_gradient(x), y))
    value = cross.value - own.value / 2 - jax.lax.stop_gradient(real.value) / 2
    return TransportDistance(value, jnp.maximum(cross.error, jnp.maximum(own.error, real.error)))


def sliced(x: Rows, y: Rows, directions: int, key: Key) -> TransportDistance:
    """The mean over random directions of squared transport along each, which is sorting; on the line it is exact."""
    drawn = jax.random.normal(key, (directions if x.shape[1] > 1 else 1, x.shape[1]), x.dtype)
    axes = drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)
    apart = jnp.sort(axes @ x.T, axis=1) - jnp.sort(axes @ y.T, axis=1)
    return TransportDistance(jnp.square(apart).mean(), jnp.zeros((), x.dtype))


def _between(x: Rows, y: Others, eps: Scalar, cost: str) -> EntropicSolution:
    problem = EntropicProblem(_even(x), _even(y), eps, Balanced())
    return solved(CostMatrix(pairwise(cost)(x, y)), problem, _limits(x), DEPTH)


def _with_itself(x: Rows, eps: Scalar, cost: str) -> EntropicSolution:
    return solved_with_itself(
        CostMatrix(pairwise(cost)(x, x)), EntropicProblem(_even(x), _even(x), eps, Balanced()), _limits(x)
    )


def _even(x: Rows) -> Float[Array, " some"]:
    return jnp.full(len(x), 1 / len(x), x.dtype)


def _limits(x: Rows) -> StoppingRule:
    return StoppingRule(1e-3 if x.dtype == jnp.float32 else 1e-9, _MOST)


__all__ = ["TransportDistance", "divergence", "entropic", "mean_cost", "sliced", "suited_eps"]
