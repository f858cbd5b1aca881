"""Monge's problem: every point goes to one target as a whole, at least cost.

    min over maps T of sum_i a_i c(x_i, T(x_i)),   T pushes a to b

As many equal weights on both sides always have such a map: an assignment. Other weights may have none, for a map cannot
split mass; Kantorovich's plan can (`exact`), and its barycentric map is the nearest thing to one.

Reference: Villani, Optimal Transport: Old and New, 2009, chapters 1 and 3.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int, Scalar
from chainrule.probability.transport.costs import Cost, cost_matrix, two_sets, weights_of
from chainrule.probability.transport.exact import exact

_PAIRS = 2000
"""So many pairs of points are searched for a map that costs more than the best plan; in general the search is hard."""
_WHOLE = 1e-9
"""A share of a point's mass that counts as all or nothing."""


class MongeMap(NamedTuple):
    """Where each point goes, and what it costs."""

    targets: Int[Array, " some"]
    """The row of y for each row of x."""
    cost: Scalar
    """sum_i a_i c(x_i, y_T(i))."""


def monge(x: Any, y: Any, a: Any = None, b: Any = None, cost: Cost = "sqeuclidean") -> MongeMap:
    """The cheapest map of rows `x` with weights `a` to rows `y` with weights `b`; an error where there is none.

    >>> found = monge([[0.0], [1.0]], [[5.0], [3.0]])
    >>> found.targets.tolist(), float(found.cost)
    ([1, 0], 12.5)
    >>> monge([[0.0]], [[-1.0], [1.0]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: monge: no map exists: point 0 of x, with mass 1, has to split between ...
    """
    first, second = two_sets("monge", x, y)
    some = weights_of("monge", "a", a, len(first), first.dtype)
    others = weights_of("monge", "b", b, len(second), first.dtype)
    costs = cost_matrix(first, second, cost)
    found = exact(some, others, costs)
    plan, mass = np.asarray(found.plan, np.float64), np.asarray(some, np.float64)
    shares = plan / np.where(mass > 0, mass, 1.0)[:, None]
    split = (mass > 0) & (shares.max(axis=1) < 1 - _WHOLE)
    targets = plan.argmax(axis=1)
    if split.any():
        targets = _searched(np.asarray(costs, np.float64), mass, np.asarray(others, np.float64), plan, split)
    # Points without mass go where it is cheapest.
    targets = np.where(mass > 0, targets, np.asarray(costs).argmin(axis=1))
    moved = jnp.take_along_axis(costs, jnp.asarray(targets)[:, None], axis=1)[:, 0]
    return MongeMap(jnp.asarray(targets), some @ moved)


def _searched(
    costs: np.ndarray, a: np.ndarray, b: np.ndarray, plan: np.ndarray, split: np.ndarray
) -> np.ndarray:
    """The best of all maps, where the best plan is none: which rows go where, as an integer program."""
    rows, columns = costs.shape
    too_heavy = np.flatnonzero(split & (a > b.max() * (1 + _WHOLE)))
    if not len(too_heavy) and costs.size > _PAIRS:
        raise _refusal(
            "the cheapest plan is no map, and whether a dearer one exists is hard to tell", a, plan, split
        )
    if not len(too_heavy):
        once = scipy.sparse.kron(scipy.sparse.eye_array(rows), np.ones((1, columns)))
        filled = scipy.sparse.kron(a[None, :], scipy.sparse.eye_array(columns))
        found = scipy.optimize.milp(
            (costs * a[:, None]).ravel(),
            integrality=np.ones(costs.size),
            bounds=scipy.optimize.Bounds(0, 1),
            constraints=scipy.optimize.LinearConstraint(
                scipy.sparse.vstack([once, filled]), *(2 * [np.concatenate([np.ones(rows), b])])
            ),
        )
        if found.x is not None:
            return np.asarray(found.x.reshape(costs.shape).argmax(axis=1))
    certain = np.zeros_like(split)
    certain[too_heavy] = True
    raise _refusal("no map exists", a, plan, certain if len(too_heavy) else split)


def _refusal(words: str, a: np.ndarray, plan: np.ndarray, split: np.ndarray) -> ArgumentError:
    point = int(np.flatnonzero(split)[0])
    targets = np.flatnonzero(plan[point])
    named = ", ".join(map(str, targets[:5])) + (", ..." if len(targets) > 5 else "")
    return ArgumentError(
        f"monge: {words}: point {point} of x, with mass {a[point]:.4g}, has to split between points {named} of y",
        remedy="the cheapest plan: plan = exact(a, b, cost_matrix(x, y)).plan\n"
        "and its mean targets: barycentric_map(plan, y)",
    )


__all__ = ["MongeMap", "monge"]
