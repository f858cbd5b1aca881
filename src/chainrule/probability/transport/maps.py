"""What a plan is used for: mean targets, points on the way, best matches, labels carried over.

A plan is a matrix [n, m] of the mass that goes from each row to each column, whoever found it: `exact` and `sinkhorn`
are alike here, and all of it can be compiled and differentiated.

References: McCann, A convexity principle for interacting gases, 1997 (displacement interpolation); Courty, Flamary,
Tuia and Rakotomamonjy, Optimal transport for domain adaptation, 2017 (barycentric maps, labels).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.checks import check_class_numbers, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int
from chainrule.probability.distributions.parameters import floating, positive, require
from chainrule.probability.transport.marginals import Entries


class Cloud(NamedTuple):
    """Points with weights."""

    points: Float[Array, "points dim"]
    weights: Float[Array, " points"]


class Matches(NamedTuple):
    """For each row of a plan the columns that most of its mass goes to, largest share first."""

    columns: Int[Array, "some matches"]
    shares: Float[Array, "some matches"]


def barycentric_map(plan: Any, y: Any) -> Float[Array, "some dim"]:
    """The mean target of each row, `sum_j P_ij y_j / a_i`.

    >>> barycentric_map([[0.25, 0.25], [0.5, 0.0]], [[0.0], [2.0]]).tolist()
    [[1.0], [0.0]]
    """
    mass, rows = _plan("barycentric_map", plan), floating(y)
    if rows.ndim != 2 or len(rows) != mass.shape[1]:
        raise ArgumentError(
            f"barycentric_map: y of shape {rows.shape} for a plan of shape {mass.shape}",
            remedy="give a row for each column of the plan",
        )
    sums = positive("barycentric_map", "mass of each row", mass.sum(axis=1))
    return mass @ rows / sums[:, None]


def displacement(x: Any, y: Any, plan: Any, t: Any) -> Cloud:
    """Mass on its way from `x` to `y` along straight lines, a share `t` of the way: a point for each entry of the plan.

    `plan` is a matrix, or the `entries` of an exact one, of which there are few. At t = 0 the cloud is that of x, at
    t = 1 that of y.

    >>> found = displacement([[0.0]], [[1.0], [3.0]], [[0.5, 0.5]], t=0.5)
    >>> found.points.tolist(), found.weights.tolist()
    ([[0.5], [1.5]], [0.5, 0.5])
    """
    first, second = floating(x), floating(y)
    share = require("displacement", "t", floating(t), lambda v: (v >= 0) & (v <= 1), "lie between 0 and 1")
    if first.ndim != 2 or second.shape[1:] != first.shape[1:]:
        raise ArgumentError(
            f"displacement: x of shape {first.shape} and y of shape {second.shape}",
            remedy="give rows of equally many numbers",
        )
    if isinstance(plan, Entries):
        entries = plan
    else:
        mass = _plan("displacement", plan)
        if mass.shape != (len(first), len(second)):
            raise ArgumentError(
                f"displacement: a plan of shape {mass.shape} for {len(first)} and {len(second)} points",
                remedy="give a row of x for each row of the plan, a row of y for each column",
            )
        rows, columns = jnp.indices(mass.shape)
        entries = Entries(rows.ravel(), columns.ravel(), mass.ravel())
    points = (1 - share) * first[entries.rows] + share * second[entries.columns]
    return Cloud(points, entries.mass)


def top_matches(plan: Any, count: int = 1) -> Matches:
    """The columns that most of each row's mass goes to.

    >>> top_matches([[0.1, 0.4], [0.5, 0.0]]).columns.tolist()
    [[1], [0]]
    """
    mass = _plan("top_matches", plan)
    if whole("top_matches", "count", count) > mass.shape[1]:
        raise ArgumentError(f"top_matches(count={count}): the plan has {mass.shape[1]} columns")
    sums = mass.sum(axis=1, keepdims=True)
    shares, columns = jax.lax.top_k(mass / jnp.where(sums > 0, sums, 1.0), count)
    return Matches(columns, shares)


def transfer_labels(plan: Any, labels: Any, classes: int) -> Float[Array, "others classes"]:
    """Class probabilities of each column: the shares of its mass that come from rows of each class.

    >>> transfer_labels([[0.5, 0.125], [0.0, 0.375]], [0, 1], classes=2).tolist()
    [[1.0, 0.0], [0.25, 0.75]]
    """
    mass = _plan("transfer_labels", plan)
    numbers = jnp.asarray(labels)
    if numbers.shape != mass.shape[:1]:
        raise ArgumentError(
            f"transfer_labels: labels of shape {numbers.shape} for {mass.shape[0]} rows",
            remedy="give the number of a class for each row",
        )
    check_class_numbers("transfer_labels", "labels", labels, whole("transfer_labels", "classes", classes))
    sums = positive("transfer_labels", "mass of each column", mass.sum(axis=0))
    return mass.T @ jax.nn.one_hot(numbers, classes, dtype=mass.dtype) / sums[:, None]


def _plan(where: str, plan: Any) -> Float[Array, "some others"]:
    mass = floating(plan)
    if mass.ndim != 2 or not mass.size:
        raise ArgumentError(f"{where}: a plan is a matrix, not of shape {mass.shape}")
    return require(where, "plan", mass, lambda v: v >= 0, "not be negative")


__all__ = ["Cloud", "Matches", "barycentric_map", "displacement", "top_matches", "transfer_labels"]
