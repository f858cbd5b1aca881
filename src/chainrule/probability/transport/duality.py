"""Certificates of transport: potentials bound its cost from below, couplings from above.

    max a·f + b·g,  f_i + g_j <= C_ij      (Kantorovich, 1942)

Any pair of potentials that respects the costs is a lower bound and any coupling an upper one, whoever found them. The
c-transform makes the best feasible partner of a potential; rounding makes a true coupling of a nearly right plan. The
two turn every result into an interval that holds the answer.

References: Villani, Optimal Transport: Old and New, 2009, chapter 5; Altschuler, Weed and Rigollet, Near-linear time
approximation algorithms for optimal transport via Sinkhorn iteration, NeurIPS 2017 (rounding).
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.parameters import floating, require
from chainrule.probability.transport.costs import weights_of
from chainrule.probability.transport.marginals import check_totals


class Bounds(NamedTuple):
    """An interval that holds the cost of the best plan, and what proves it: feasible potentials and a coupling."""

    lower: Scalar
    upper: Scalar
    potentials: tuple[Float[Array, " some"], Float[Array, " others"]]
    """f and g with f_i + g_j <= C_ij."""
    plan: Float[Array, "some others"]
    """A coupling: its rows sum to a, its columns to b."""

    @property
    def gap(self) -> Scalar:
        """Length of the interval."""
        return self.upper - self.lower


def c_transform(cost: Any, potential: Any, axis: int = 0) -> Float[Array, " points"]:
    """The largest potential of the other side that respects the costs: `min_i C_ij - f_i` over `axis`.

    `axis` is that of the cost matrix to which the potential belongs: 0 for one of rows, which gives one of columns.

    >>> c_transform([[0.0, 1.0], [2.0, 0.0]], [0.5, 0.0]).tolist()
    [-0.5, 0.0]
    """
    matrix, values = floating(cost), floating(potential)
    if axis not in (0, 1):
        raise ArgumentError(f"c_transform(axis={axis}): 0 for a potential of rows, 1 for one of columns")
    if matrix.ndim != 2 or values.shape != (matrix.shape[axis],):
        raise ArgumentError(
            f"c_transform: a potential of shape {values.shape} does not fit axis {axis} of costs {matrix.shape}",
            remedy="axis is 0 for a potential of rows, 1 for one of columns",
        )
    return (matrix - jnp.expand_dims(values, 1 - axis)).min(axis=axis)


def rounded(plan: Any, a: Any, b: Any) -> Float[Array, "some others"]:
    """The coupling that a nearly right plan becomes: rows and columns scaled down where they exceed, the rest spread.

    It differs from the plan by at most twice the plan's error of marginals, in the sum of absolute values.

    >>> rounded([[0.5, 0.1], [0.0, 0.5]], [0.5, 0.5], [0.5, 0.5]).sum(axis=1).tolist()
    [0.5, 0.5]
    """
    mass, rows, columns = floating(plan), floating(a), floating(b)
    if mass.shape != (*rows.shape, *columns.shape) or mass.ndim != 2:
        raise ArgumentError(
            f"rounded: a plan of shape {mass.shape} with weights of shapes {rows.shape} and {columns.shape}",
            remedy="give a weight for each row and for each column",
        )
    mass = require("rounded", "plan", mass, lambda v: (v >= 0) & (v < np.inf), "be finite and not negative")
    rows = check_totals("rounded", weights_of("rounded", "a", rows, len(rows)), columns)
    columns = weights_of("rounded", "b", columns, len(columns))
    mass = mass * _no_more(rows, mass.sum(axis=1))[:, None]
    mass = mass * _no_more(columns, mass.sum(axis=0))[None, :]
    # What rows and columns still lack; rounding of sums must not make any of it negative.
    some, others = (jnp.maximum(lack, 0.0) for lack in (rows - mass.sum(axis=1), columns - mass.sum(axis=0)))
    missing = others.sum()
    share = others / jnp.where(missing > 0, missing, 1.0)
    return mass + some[:, None] * share[None, :]


def bounds(a: Any, b: Any, cost: Any, f: Any, plan: Any) -> Bounds:
    """An interval around the cost of the best plan, from any potential `f` of the rows and any nearly right plan.

    >>> found = bounds([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], [0.0, 0.0], [[0.4, 0.1], [0.1, 0.4]])
    >>> float(found.lower), round(float(found.upper), 6)
    (0.0, 0.2)
    """
    matrix, some, others = floating(cost), floating(a), floating(b)
    g = c_transform(matrix, f, axis=0)
    f = c_transform(matrix, g, axis=1)
    coupling = rounded(plan, some, others)
    return Bounds(some @ f + others @ g, (matrix * coupling).sum(), (f, g), coupling)


def slack(cost: Any, f: Any, g: Any) -> Float[Array, "some others"]:
    """`C_ij - f_i - g_j`: not negative for feasible potentials, zero wherever an optimal plan has mass.

    >>> slack([[0.0, 1.0], [1.0, 0.0]], [0.0, 0.5], [0.0, -0.5]).tolist()
    [[0.0, 1.5], [0.5, 0.0]]
    """
    matrix, rows, columns = floating(cost), floating(f), floating(g)
    if matrix.ndim != 2 or (*rows.shape, *columns.shape) != matrix.shape:
        raise ArgumentError(
            f"slack: potentials of shapes {rows.shape} and {columns.shape} do not fit costs of shape {matrix.shape}",
            remedy="give a potential for each row and for each column",
        )
    return matrix - rows[:, None] - columns[None, :]


def lipschitz_constant(values: Any, distance: Any) -> Scalar:
    """The largest `|f_i - f_j| / d_ij` of a function on finitely many points, given all their distances.

    Infinite where it differs at distance zero. Potentials of transport whose cost is a distance have at most 1.

    >>> float(lipschitz_constant([0.0, 1.0, 1.0], [[0.0, 2.0, 3.0], [2.0, 0.0, 1.0], [3.0, 1.0, 0.0]]))
    0.5
    """
    heights, apart = floating(values), floating(distance)
    if apart.shape != (*heights.shape, *heights.shape) or apart.ndim != 2:
        raise ArgumentError(
            f"lipschitz_constant: distances of shape {apart.shape} for {heights.shape} values",
            remedy="give the distances of all points, as a square matrix",
        )
    rise = jnp.abs(heights[:, None] - heights[None, :])
    ratio = rise / jnp.where(apart > 0, apart, 1.0)
    return jnp.where(apart > 0, ratio, jnp.where(rise > 0, jnp.inf, 0.0)).max(initial=0.0)


def _no_more(wanted: Array, found: Array) -> Array:
    """Factors of at most one that leave no sum above what is wanted."""
    return jnp.minimum(1.0, wanted / jnp.where(found > 0, found, 1.0))


__all__ = ["Bounds", "bounds", "c_transform", "lipschitz_constant", "rounded", "slack"]
