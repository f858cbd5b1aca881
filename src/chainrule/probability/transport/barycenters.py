"""Means of distributions by transport: what is nearest to several of them at once.

    min over p of sum_k λ_k OT(p, b_k)

On a fixed support the weights are unknown: a linear program, or with entropy a few products a round (iterative Bregman
projections). On a free support the points are: each round moves them to the mean of their targets under exact plans,
which never raises the cost.

References: Agueh and Carlier, Barycenters in the Wasserstein space, 2011; Benamou, Carlier, Cuturi, Nenna and Peyré,
Iterative Bregman projections for regularized transportation problems, 2015; Cuturi and Doucet, Fast computation of
Wasserstein barycenters, 2014.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.parameters import finite, floating, positive, probabilities
from chainrule.probability.transport.costs import cost_matrix, two_sets, weights_of
from chainrule.probability.transport.exact import exact
from chainrule.probability.transport.maps import barycentric_map

_VARIABLES = 200_000
"""Larger linear programs are refused."""
_EVERY = 10
"""Rounds between two looks at the error."""
_MOST = 10_000
_SETTLED = 1e-5
"""A move that is not worth mentioning, beside the largest coordinate."""


class FixedBarycenter(NamedTuple):
    """Weights on given points."""

    weights: Float[Array, " points"]
    error: float
    """How much mass of the plans is not where it should be; 0 where no entropy is used."""
    converged: bool


class FreeBarycenter(NamedTuple):
    """Points of equal weights."""

    points: Float[Array, "points dim"]
    costs: tuple[float, ...]
    """The weighted mean of the squared distances W_2² to all clouds, before every round and at the end."""
    converged: bool
    """Whether the last round moved nothing worth mentioning."""


def fixed_barycenter(
    histograms: Any, cost: Any, shares: Any = None, eps: float | None = None
) -> FixedBarycenter:
    """The histogram nearest to `histograms` [k, m], for costs [n, m] from its points to theirs; `shares` weigh them.

    Without `eps` it is exact, by linear programming; `eps` blurs it and scales to long histograms.

    >>> apart = cost_matrix(np.arange(5.0)[:, None], np.arange(5.0)[:, None])
    >>> fixed_barycenter([[1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0]], apart).weights.round(6).tolist()
    [0.0, 0.0, 1.0, 0.0, 0.0]
    """
    where = "fixed_barycenter"
    targets = probabilities(f"{where}: histograms", histograms, remedy="divide each histogram by its sum")
    matrix = finite(where, "cost", floating(cost))
    if targets.ndim != 2 or matrix.ndim != 2 or targets.shape[1] != matrix.shape[1]:
        raise ArgumentError(
            f"{where}: histograms of shape {targets.shape} and costs of shape {matrix.shape}",
            remedy="give a row for each histogram, and costs with as many columns as these",
        )
    weights = _shares(where, shares, len(targets), matrix.dtype)
    if eps is None:
        return _by_program(
            np.asarray(targets, np.float64), np.asarray(matrix, np.float64), np.asarray(weights)
        )
    strength = positive(where, "eps", floating(eps)).astype(matrix.dtype)
    tolerance = jnp.asarray(1e-3 if matrix.dtype == jnp.float32 else 1e-6, matrix.dtype)
    found, error = _by_projections(targets.astype(matrix.dtype), matrix, weights, strength, tolerance)
    if not bool(error <= tolerance):
        raise DivergedError(
            f"{where}: {float(error):.2g} of the mass is misplaced after {_MOST} rounds with eps={float(strength):.3g}",
            remedy="use a larger eps, or none for the exact barycentre",
        )
    return FixedBarycenter(found / found.sum(), float(error), True)


def free_barycenter(
    clouds: Sequence[Any],
    start: Any,
    weights: Sequence[Any] | None = None,
    shares: Any = None,
    *,
    rounds: int = 50,
) -> FreeBarycenter:
    """Points of equal weights nearest to several clouds of rows in squared distance, from the points of `start` on.

    `weights` are those of the clouds' points, `shares` those of the clouds. A local minimum: other starts may lead
    elsewhere.

    >>> found = free_barycenter([[[0.0], [1.0]], [[4.0], [5.0]]], start=[[0.0], [0.1]])
    >>> found.points.tolist(), found.converged
    ([[2.0], [3.0]], True)
    """
    where = "free_barycenter"
    if not len(clouds):
        raise ArgumentError(f"{where}: no clouds", remedy="give at least one set of rows")
    sets = [
        two_sets(f"{where}: start (x) and clouds[{k}] (y)", start, cloud) for k, cloud in enumerate(clouds)
    ]
    points = sets[0][0]
    if weights is not None and len(weights) != len(clouds):
        raise ArgumentError(f"{where}: weights for {len(weights)} clouds of {len(clouds)}")
    masses = [
        weights_of(where, "weights", None if weights is None else weights[k], len(cloud), points.dtype)
        for k, (_, cloud) in enumerate(sets)
    ]
    lam = _shares(where, shares, len(clouds), points.dtype)
    even = jnp.full(len(points), 1 / len(points), points.dtype)
    costs: list[float] = []
    most, settled = whole(where, "rounds", rounds), False
    while True:
        plans = [
            exact(even, mass, cost_matrix(points, cloud))
            for (_, cloud), mass in zip(sets, masses, strict=True)
        ]
        costs.append(sum(float(share * found.cost) for share, found in zip(lam, plans, strict=True)))
        if settled or len(costs) > most:
            return FreeBarycenter(points, tuple(costs), settled)
        targets = (
            share * barycentric_map(found.plan, cloud)
            for share, found, (_, cloud) in zip(lam, plans, sets, strict=True)
        )
        moved = sum(targets, jnp.zeros_like(points))
        settled = bool(jnp.abs(moved - points).max() <= _SETTLED * jnp.abs(moved).max())
        points = moved


def _shares(where: str, shares: Any, count: int, dtype: Any) -> Array:
    if shares is None:
        return jnp.full(count, 1 / count, dtype)
    found = probabilities(f"{where}: shares", shares, remedy="divide shares by their sum").astype(dtype)
    if found.shape != (count,):
        raise ArgumentError(f"{where}(shares): shape {found.shape} for {count} distributions")
    return found


def _by_program(targets: np.ndarray, cost: np.ndarray, shares: np.ndarray) -> FixedBarycenter:
    """Weights p and a plan for each histogram, with rows that sum to p: all unknowns of one linear program."""
    (points, others), count = cost.shape, len(targets)
    if count * cost.size > _VARIABLES:
        raise ArgumentError(
            f"fixed_barycenter: a linear program with {count * cost.size} variables is too large",
            remedy=f"use entropy: eps={0.01 * cost.mean():.2g}",
        )
    identity, none = scipy.sparse.eye_array(count), scipy.sparse.coo_array((count * others, points))
    rows = scipy.sparse.kron(scipy.sparse.eye_array(points), np.ones((1, others)))
    columns = scipy.sparse.kron(np.ones((1, points)), scipy.sparse.eye_array(others))
    equal = scipy.sparse.kron(np.ones((count, 1)), -scipy.sparse.eye_array(points))
    sums = scipy.sparse.block_array(
        [[equal, scipy.sparse.kron(identity, rows)], [none, scipy.sparse.kron(identity, columns)]],
        format="csc",
    )
    prices = np.concatenate([np.zeros(points), *(share * cost.ravel() for share in shares)])
    found = scipy.optimize.linprog(
        prices, A_eq=sums, b_eq=np.concatenate([np.zeros(count * points), targets.ravel()]), method="highs"
    )
    if found.x is None:
        raise DivergedError(f"fixed_barycenter: HiGHS found no answer: {found.message}", remedy="use eps")
    weights = np.maximum(found.x[:points], 0.0)
    return FixedBarycenter(floating(weights / weights.sum()), 0.0, found.status == 0)


@jax.jit
def _by_projections(
    targets: Array, cost: Array, shares: Array, eps: Array, tolerance: Array
) -> tuple[Array, Array]:
    """Scalings of exp(-cost / eps) in logarithms, one pair for each histogram, and the weighted mean of their rows."""
    kernel = -cost / eps
    goal = jnp.log(targets)

    def rows(u: Array) -> Array:
        v = goal - jax.nn.logsumexp(u[:, :, None] + kernel[None], axis=1)
        return jax.nn.logsumexp(v[:, None, :] + kernel[None], axis=2)

    def step(_: Array, pair: tuple[Array, Array]) -> tuple[Array, Array]:
        sums = rows(pair[0])
        mean = (shares[:, None] * sums).sum(axis=0)
        return mean[None] - sums, mean

    def several(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        u, mean, _, count = carry
        u, mean = jax.lax.fori_loop(0, _EVERY, step, (u, mean))
        # Once columns are right, too, the rows of all plans stay at their mean.
        error = (shares[:, None] * jnp.abs(jnp.exp(u + rows(u)) - jnp.exp(mean)[None])).sum()
        return u, mean, error, count + _EVERY

    def unfinished(carry: tuple[Array, Array, Array, Array]) -> Array:
        return (carry[2] > tolerance) & (carry[3] < _MOST)

    start = (
        jnp.zeros((len(targets), cost.shape[0]), cost.dtype),
        jnp.zeros(cost.shape[0], cost.dtype),
        jnp.full((), jnp.inf, cost.dtype),
        jnp.zeros((), int),
    )
    _, mean, error, _ = jax.lax.while_loop(unfinished, several, start)
    return jnp.exp(mean), error


__all__ = ["FixedBarycenter", "FreeBarycenter", "fixed_barycenter", "free_barycenter"]
