"""Sums and integrals over the outcomes of two distributions: enumeration, quadrature on a line, or draws.

A divergence of densities is the integral of a function of (log p, log q); here are points and weights for it. Where
both distributions list their outcomes, these are the points. Densities of numbers get a composite Gauss-Legendre rule
whose cells follow both distributions and end where a support ends. All others get draws from an even mixture.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleWarning
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.supports import RealInterval

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
"""Of the rule in every cell, which is [-1, 1] here."""
_HALVED = np.zeros(16)
"""Factors on the weights that make the exact rule of every other node, for a second opinion."""
_HALVED[::2] = (
    np.linalg.solve(np.polynomial.legendre.legvander(NODES[::2], 7).T, 2.0 * np.eye(8)[0]) / WEIGHTS[::2]
)
_TAIL = 8 * 1.5 ** np.arange(1, 20)
_CELLS = np.concatenate([-_TAIL[::-1], np.linspace(-8, 8, 97), _TAIL])
"""Ends of cells, in standard deviations from the mean; out to 17,000 of them for the sake of heavy tails."""


class Points(NamedTuple):
    """Points with what is known of both distributions there, `[points, *batch]` each."""

    log_p: Float[Array, "points *batch"]
    log_q: Float[Array, "points *batch"]
    weights: Float[Array, "points *batch"]
    coarse: Float[Array, "points *batch"] | None = None
    """Weights of a rule with half of the nodes, where there is one: both should agree."""
    drawn: bool = False
    """Whether the points are draws, so that sums over them are estimates."""


def integral(
    where: str,
    term: Callable[[Array, Array], Array],
    p: Distribution,
    q: Distribution,
    key: Key | None,
    samples: int,
) -> Float[Array, "*batch"]:
    """The integral of `term(log p, log q)`, which vanishes where p and q do; an estimate comes with a warning."""
    points = points_of(where, p, q, key, samples)
    return weighted_sum(where, p, q, points, term(points.log_p, points.log_q))


def weighted_sum(
    where: str, p: Distribution, q: Distribution, points: Points, values: Float[Array, "points *batch"]
) -> Float[Array, "*batch"]:
    """The sum of values at points; a warning says where it is an estimate, and where quadrature does not settle."""
    used = points.weights > 0
    safe = jnp.where(used, values, 0.0)
    terms = jnp.where(used, points.weights * safe, 0.0)
    total = terms.sum(axis=0)
    if points.drawn:
        _warn_of_draws(where, p, q, terms)
    elif points.coarse is not None and not isinstance(total, jax.core.Tracer):
        fine, coarse = np.asarray(total), np.asarray((points.coarse * safe).sum(axis=0))
        unsettled = np.isfinite(fine) & ~(np.abs(fine - coarse) <= 1e-2 * np.abs(fine) + 1e-4)
        if unsettled.any():
            warnings.warn(
                f"{where}: the integral for {type(p).__name__} and {type(q).__name__} does not settle "
                f"({fine[unsettled].flat[0]:.4g}, with half of the nodes {coarse[unsettled].flat[0]:.4g}); it may be "
                "infinite",
                ChainruleWarning,
                stacklevel=4,
            )
    return total


def _warn_of_draws(
    where: str, p: Distribution, q: Distribution, terms: Float[Array, "points *batch"]
) -> None:
    known = ""
    if not isinstance(terms, jax.core.Tracer):
        exact = np.asarray(terms, dtype=np.float64)
        known = f" (standard error {np.max(exact.std(axis=0)) * len(exact) ** 0.5:.2g})"
    warnings.warn(
        f"{where}: no closed form for {type(p).__name__} and {type(q).__name__}: estimated from {len(terms):,} draws"
        f"{known}; pass key= for other draws, samples= for more",
        ChainruleWarning,
        stacklevel=5,
    )


def points_of(where: str, p: Distribution, q: Distribution, key: Key | None, samples: int) -> Points:
    """Points and weights for two distributions of the same events, by the best rule there is for them."""
    if p.event_shape != q.event_shape:
        raise ArgumentError(
            f"{where}: p draws events of shape {p.event_shape}, q of shape {q.event_shape}",
            remedy="compare distributions of the same events",
        )
    try:
        shape = np.broadcast_shapes(p.batch_shape, q.batch_shape)
    except ValueError:
        raise ArgumentError(
            f"{where}: the batch shapes {p.batch_shape} and {q.batch_shape} do not broadcast"
        ) from None
    p, q = p.batched(shape), q.batched(shape)
    if p.support.is_discrete != q.support.is_discrete:
        return _apart(shape)
    if p.support.is_discrete:
        return _enumerated(p, q) or _drawn(where, p, q, key, samples)
    if p.event_shape == ():
        return _on_a_line(where, p, q) or _drawn(where, p, q, key, samples)
    return _drawn(where, p, q, key, samples)


def _apart(shape: tuple[int, ...]) -> Points:
    """A density against probabilities of single points: each is certain where the other is impossible."""
    log_p = jnp.broadcast_to(jnp.array([0.0, -jnp.inf]).reshape(2, *(1,) * len(shape)), (2, *shape))
    return Points(log_p, log_p[::-1], jnp.ones_like(log_p))


def _enumerated(p: Distribution, q: Distribution) -> Points | None:
    first, second = p.atoms(), q.atoms()
    if first is None or second is None:
        return None
    points = jnp.concatenate([first.points, second.points.astype(first.points.dtype)])
    same = points[:, None] == points[None]
    events = tuple(range(same.ndim - len(p.event_shape), same.ndim))
    # A point that is listed several times, by one or by both, counts once.
    count = same.all(axis=events).sum(axis=1)
    log_p, log_q = p.log_prob(points), q.log_prob(points)
    return Points(log_p, log_q, 1 / count.astype(log_p.dtype))


class Density(NamedTuple):
    """A density of numbers with what a rule for it needs to know, `[*batch]` each."""

    log_prob: Callable[[Array], Array]
    mean: Array
    deviation: Array
    low: Array
    high: Array

    @staticmethod
    def of(p: Distribution, mean: Array, variance: Array) -> "Density":
        """That of a distribution of numbers with this mean and variance."""
        support = p.support
        low, high = (support.low, support.high) if isinstance(support, RealInterval) else (-jnp.inf, jnp.inf)
        ends = (jnp.broadcast_to(jnp.asarray(end, mean.dtype), p.batch_shape) for end in (low, high))
        return Density(p.log_prob, mean, jnp.sqrt(variance), *ends)

    def moved(self, shift: Array, factor: Array) -> "Density":
        """That of the variable stretched by a factor about its mean, then shifted."""

        def image(x: Array) -> Array:
            return self.mean + (x - self.mean) * factor + shift

        def log_prob(x: Array) -> Array:
            return self.log_prob(self.mean + (x - shift - self.mean) / factor) - jnp.log(factor)

        return Density(
            log_prob, self.mean + shift, self.deviation * factor, image(self.low), image(self.high)
        )


def line(p: Density, q: Density) -> tuple[Array, Array]:
    """Nodes and weights of a rule on the line that follows both, `[points, *batch]`, the nodes in increasing order."""
    cells = jnp.asarray(_CELLS, p.mean.dtype).reshape(-1, *(1,) * p.mean.ndim)
    ends = jnp.concatenate([one.mean[None] + one.deviation[None] * cells for one in (p, q)])
    low = jnp.maximum(jnp.minimum(p.low, q.low), ends.min(axis=0))
    high = jnp.minimum(jnp.maximum(p.high, q.high), ends.max(axis=0))
    # The ends of both supports are ends of cells: densities may jump there.
    inner = jnp.concatenate([ends, *(end[None] for end in (p.low, p.high, q.low, q.high))])
    edges = jnp.sort(jnp.clip(inner, low[None], high[None]), axis=0)
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    node = jnp.asarray(NODES, edges.dtype).reshape(1, -1, *(1,) * (edges.ndim - 1))
    weight = jnp.asarray(WEIGHTS, edges.dtype).reshape(node.shape)
    nodes = middle[:, None] + half[:, None] * node
    return nodes.reshape(-1, *edges.shape[1:]), (half[:, None] * weight).reshape(-1, *edges.shape[1:])


def cells(p: Distribution) -> Array:
    """Ends of cells for a rule on the line that follows every distribution of a batch, in no order."""
    one = Density.of(p, p.mean, p.variance)
    ends = one.mean[None] + one.deviation[None] * jnp.asarray(_CELLS, one.mean.dtype).reshape(
        -1, *(1,) * one.mean.ndim
    )
    return jnp.concatenate(
        [jnp.clip(ends, one.low[None], one.high[None]), one.low[None], one.high[None]]
    ).ravel()


def _on_a_line(where: str, p: Distribution, q: Distribution) -> Points | None:
    """Quadrature, if it sees all of both distributions; it takes its cells from their means and variances."""
    try:
        moments = [(one.mean, one.variance) for one in (p, q)]
    except (ArgumentError, CapabilityError):  # there are none, or no formula for them; draws do without
        return None
    log_p, log_q, weights, seen = _resolved(p, q, moments)
    if isinstance(seen, jax.core.Tracer):
        message = (
            f"{where}: quadrature misses a part of these densities; outside of compiled code draws are used"
        )
        weights = eqx.error_if(weights, ~seen, message)
    elif not bool(seen):
        return None
    rules = weights.reshape(-1, len(NODES), *weights.shape[1:])
    coarse = rules * jnp.asarray(_HALVED, weights.dtype).reshape(1, -1, *(1,) * (weights.ndim - 1))
    return Points(log_p, log_q, weights, coarse.reshape(weights.shape))


@eqx.filter_jit
def _resolved(
    p: Distribution, q: Distribution, moments: list[tuple[Array, Array]]
) -> tuple[Array, Array, Array, Array]:
    nodes, weights = line(*(Density.of(one, *known) for one, known in zip((p, q), moments, strict=True)))
    logs = p.log_prob(nodes), q.log_prob(nodes)
    return *logs, weights, sees_all(weights, *logs)


def sees_all(weights: Array, *logs: Array) -> Array:
    """Whether a rule finds the mass of each of these densities, one, up to rounding."""
    masses = jnp.stack([(weights * jnp.exp(log)).sum(axis=0) for log in logs])
    return (jnp.abs(masses - 1) < max(1e-6, 100 * float(jnp.finfo(weights.dtype).eps))).all()


def _drawn(where: str, p: Distribution, q: Distribution, key: Key | None, samples: int) -> Points:
    half = whole(where, "samples", samples, least=2) // 2
    first, second = jax.random.split(jax.random.key(0) if key is None else key)
    drawn = jnp.concatenate([p.sample(first, half), q.sample(second, half)])
    log_p, log_q = p.log_prob(drawn), q.log_prob(drawn)
    return Points(log_p, log_q, 1 / (half * (jnp.exp(log_p) + jnp.exp(log_q))), drawn=True)


__all__ = [
    "NODES",
    "WEIGHTS",
    "Density",
    "Points",
    "cells",
    "integral",
    "line",
    "points_of",
    "sees_all",
    "weighted_sum",
]
