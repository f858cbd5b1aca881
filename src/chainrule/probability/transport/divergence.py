"""Sinkhorn divergence: entropic transport without its bias (Genevay et al., 2018; Feydy et al., 2019).

    S_eps(x, y) = OT_eps(x, y) - OT_eps(x, x)/2 - OT_eps(y, y)/2,   the same eps three times

The entropic cost of a set from itself is not zero, and what is nearest to a distribution by it is a shrunken copy. With
the costs of both sets from themselves taken away, the divergence is zero for equal distributions and positive for
others, if costs are distances or their squares. For small eps it is transport; for large eps it compares means of
costs, of squared distances nothing but the means of the points.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.types import Scalar
from chainrule.probability.transport.costs import pairwise, two_sets
from chainrule.probability.transport.entropic.costs import Costs, EntropicProblem
from chainrule.probability.transport.entropic.iteration import DEPTH, StoppingRule
from chainrule.probability.transport.entropic.kernel import CostMatrix
from chainrule.probability.transport.entropic.marginals import Balanced
from chainrule.probability.transport.entropic.points import point_costs
from chainrule.probability.transport.entropic.solving import EntropicSolution, solved, solved_with_itself
from chainrule.probability.transport.sinkhorn import (
    MOST,
    as_result,
    checked_weights,
    limits_of,
    strength,
    warn_unless_converged,
)

_DENSE = 2**26
"""Pairs up to which all costs are kept."""


class DivergenceTerms(NamedTuple):
    """The three solutions of a Sinkhorn divergence."""

    cross: EntropicSolution
    first: EntropicSolution
    second: EntropicSolution

    @property
    def value(self) -> Scalar:
        """The divergence."""
        return self.cross.value - self.first.value / 2 - self.second.value / 2

    @property
    def error(self) -> Scalar:
        """The largest error of marginals."""
        return jnp.maximum(self.cross.error, jnp.maximum(self.first.error, self.second.error))


def sinkhorn_divergence(
    x: Any,
    y: Any,
    eps: Any = None,
    *,
    a: Any = None,
    b: Any = None,
    cost: Any = "sqeuclidean",
    p: float = 2.0,
    tolerance: float | None = None,
    max_iterations: int = MOST,
) -> Scalar:
    """How far two sets of points with weights `a` and `b` (none: equal ones) are apart, in units of the cost.

    `eps` is a twentieth of the mean cost between the sets by default, a constant to derivatives. `cost` is a name or a
    function of two points. Derivatives by points, weights and eps come from the envelope theorem. Sets of more than
    2^26 pairs are compared without ever keeping all costs.

    A set moved as a whole is as far away as it was moved, squared:

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> round(float(sinkhorn_divergence(x, x + np.array([[3.0, 4.0]]))), 3)
    25.0
    """
    first, second = two_sets("sinkhorn_divergence", x, y)
    limits = limits_of("sinkhorn_divergence", tolerance, max_iterations, first.dtype)
    between = costs_between(first, second, cost, p)
    rows, columns = checked_weights("sinkhorn_divergence", a, b, between)
    absolute = strength("sinkhorn_divergence", eps, between)
    terms = divergence_terms(first, second, rows, columns, absolute, limits, cost, p)
    worst = terms.cross._replace(error=terms.error)
    seen = as_result(between, EntropicProblem(rows, columns, absolute, Balanced()), worst, limits)
    warn_unless_converged("sinkhorn_divergence", seen)
    return terms.value


def usual_eps(x: Any, y: Any, cost: Any = "sqeuclidean", p: float = 2.0) -> Scalar:
    """A twentieth of the mean cost between two sets: what eps is where none is given.

    >>> round(float(usual_eps([[0.0]], [[2.0]])), 6)
    0.2
    """
    first, second = two_sets("usual_eps", x, y)
    return strength("usual_eps", None, costs_between(first, second, cost, p))


def divergence_terms(
    x: Any, y: Any, a: Any, b: Any, eps: Any, limits: StoppingRule, cost: Any = "sqeuclidean", p: float = 2.0
) -> DivergenceTerms:
    """The three terms, for arguments that were checked."""

    def with_itself(points: Any, weights: Any) -> EntropicSolution:
        problem = EntropicProblem(weights, weights, eps, Balanced())
        return solved_with_itself(costs_between(points, points, cost, p), problem, limits)

    cross = solved(costs_between(x, y, cost, p), EntropicProblem(a, b, eps, Balanced()), limits, DEPTH)
    return DivergenceTerms(cross, with_itself(x, a), with_itself(y, b))


def costs_between(x: Any, y: Any, cost: Any = "sqeuclidean", p: float = 2.0) -> Costs:
    """Costs of two sets of points, kept where they are few."""
    if len(x) * len(y) > _DENSE:
        return point_costs(x, y, cost, p)
    return CostMatrix(jax.jit(pairwise(cost, p))(x, y))


__all__ = ["DivergenceTerms", "costs_between", "divergence_terms", "sinkhorn_divergence", "usual_eps"]
