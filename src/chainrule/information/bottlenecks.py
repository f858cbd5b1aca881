"""The information bottleneck: what of x is worth keeping if it is y that matters.

z is made from x alone and shall say much of y in few bits: minimise I(X; Z) - beta I(Z; Y). At small beta one cluster
holds everything; at critical values of beta clusters split. The problem is not convex: random starts stick in poor
solutions where beta is large, so that solutions are also followed downwards from a beta at which every x has a cluster
of its own, and the best of all is kept.

References: Tishby, Pereira and Bialek, The information bottleneck method, 1999; Strouse and Schwab, The deterministic
information bottleneck, Neural Computation, 2017.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.bottleneck_steps import BottleneckProblem, identity, perturbed, random_starts
from chainrule.information.entropies import shared, total
from chainrule.information.hard_clusters import hard_clusters
from chainrule.information.tables import table
from chainrule.information.units import scale, takes_base

_RATIO = 1.3
"""Between two values of beta on the way down."""
_DEAD = 1e-9
_SAME = 1e-4
"""Clusters whose p(y given z) differ by less in total variation are one."""


@final
@dataclass(frozen=True, eq=False)
class Bottleneck:
    """Soft clusters of x, and what they keep."""

    beta: float
    rate: float
    """I(X; Z)."""
    relevance: float
    """I(Z; Y)."""
    objective: float
    """What was minimised: I(X; Z) - beta I(Z; Y), or H(Z) - beta I(Z; Y) of hard clusters."""
    unit: str
    encoder: np.ndarray
    """p(z given x), one row for each x; rows of x without probability are zero."""
    clusters: np.ndarray
    """p(z), largest first; clusters that died or became the same are left out."""
    decoder: np.ndarray
    """p(y given z), one row for each cluster."""
    converged: bool

    @property
    def cardinality(self) -> int:
        """Clusters that are left."""
        return len(self.clusters)

    @property
    def effective_cardinality(self) -> float:
        """2^H(Z): how many clusters of equal size would have this entropy."""
        return math.exp(total(self.clusters))

    def __str__(self) -> str:
        return (
            f"beta {self.beta:g}: I(X;Z) {self.rate:.6f}, I(Z;Y) {self.relevance:.6f} {self.unit}, "
            f"{self.cardinality} clusters"
        )


@final
@dataclass(frozen=True, eq=False)
class BottleneckCurve:
    """Solutions for many beta, in increasing order: points of a concave curve with slope 1 / beta."""

    points: tuple[Bottleneck, ...]
    unit: str
    first_transition: float
    """The beta at which one cluster stops being stable: the inverse square of the second singular value."""

    @property
    def betas(self) -> np.ndarray:
        """Values of beta."""
        return np.array([point.beta for point in self.points])

    @property
    def rates(self) -> np.ndarray:
        """I(X; Z)."""
        return np.array([point.rate for point in self.points])

    @property
    def relevances(self) -> np.ndarray:
        """I(Z; Y)."""
        return np.array([point.relevance for point in self.points])

    @property
    def cardinalities(self) -> np.ndarray:
        """Numbers of clusters."""
        return np.array([point.cardinality for point in self.points])

    @property
    def critical_betas(self) -> np.ndarray:
        """Where clusters become more: between two neighbouring values, or `first_transition` if that is there."""
        betas, counts = self.betas, self.cardinalities
        found = []
        for low, high in zip(range(len(betas) - 1), range(1, len(betas)), strict=True):
            if counts[high] > counts[low]:
                exact = counts[low] == 1 and betas[low] <= self.first_transition <= betas[high]
                found.append(self.first_transition if exact else math.sqrt(betas[low] * betas[high]))
        return np.array(found)


@takes_base
def bottleneck(
    joint: Any,
    beta: float,
    *,
    clusters: int | None = None,
    deterministic: bool = False,
    restarts: int = 10,
    seed: int = 0,
    tol: float = 1e-11,
    most: int = 20_000,
    unit: str = "bits",
) -> Bottleneck:
    """The bottleneck of a joint table p(x, y) at one beta; `clusters` is at most the number of x and one more.

    `deterministic=True` minimises H(Z) - beta I(Z; Y) instead: every x belongs to one cluster.

    >>> table = np.array([[0.45, 0.05], [0.05, 0.45]])
    >>> print(bottleneck(table, 2.0))
    beta 2: I(X;Z) 0.696433, I(Z;Y) 0.407234 bits, 2 clusters
    >>> bottleneck(table, 1.5).cardinality
    1
    """
    curve = bottleneck_curve(
        joint,
        [beta],
        clusters=clusters,
        deterministic=deterministic,
        restarts=restarts,
        seed=seed,
        tol=tol,
        most=most,
        unit=unit,
    )
    return curve.points[0]


@takes_base
def bottleneck_curve(
    joint: Any,
    betas: Sequence[float] | None = None,
    *,
    clusters: int | None = None,
    deterministic: bool = False,
    restarts: int = 10,
    seed: int = 0,
    tol: float = 1e-11,
    most: int = 20_000,
    unit: str = "bits",
) -> BottleneckCurve:
    """The bottleneck for many beta: followed downwards from every x for itself, then compared with random starts.

    By default 25 values from just below the first transition, or a jump before it, to twenty times its beta.

    >>> curve = bottleneck_curve([[0.45, 0.05], [0.05, 0.45]], [1.2, 2.0, 5.0])
    >>> curve.rates.round(4).tolist(), round(curve.first_transition, 4)
    ([0.0, 0.6964, 0.9978], 1.5625)
    """
    where = "bottleneck"
    scale(unit, where)
    values, problem, possible = _problem(where, joint)
    first = first_transition(values)
    around = first_split(values) if math.isfinite(first) else 1.0
    chosen = np.geomspace(0.8, 20.0, 25) * around if betas is None else np.asarray(betas, np.float64)
    if chosen.ndim != 1 or not chosen.size or not np.isfinite(chosen).all() or not (chosen > 0).all():
        raise ArgumentError(f"{where}(beta={betas}): beta is a positive number")
    count = len(problem.source) if clusters is None else whole(where, "clusters", clusters)
    if count > len(problem.source) + 1:
        raise ArgumentError(
            f"{where}(clusters={count}): {len(problem.source)} possible x never need more than one cluster more"
        )
    restarts, seed = whole(where, "restarts", restarts, least=0), whole(where, "seed", seed, least=0)
    ordered = np.unique(chosen)[::-1]
    if deterministic:
        found = {float(b): hard_clusters(problem, b, count, restarts, seed) for b in ordered}
        states = {b: (encoder, True) for b, encoder in found.items()}
    else:
        states = _annealed(problem, ordered, count, restarts, np.random.default_rng(seed), tol, most)
    points = tuple(
        _result(problem, beta, *states[beta], possible, deterministic, unit) for beta in sorted(states)
    )
    return BottleneckCurve(points, unit, first)


def first_transition(joint: Any) -> float:
    """The beta above which one cluster for everything is no longer best, as far as small changes of it go.

    The inverse square of the second singular value of p(x, y) / sqrt(p(x) p(y)).

    >>> round(first_transition([[0.45, 0.05], [0.05, 0.45]]), 4)
    1.5625
    """
    values = table("first_transition", "joint", joint, 2)
    values = values[values.sum(axis=1) > 0][:, values.sum(axis=0) > 0]
    scaled = values / np.sqrt(np.outer(values.sum(axis=1), values.sum(axis=0)))
    singular = np.linalg.svd(scaled, compute_uv=False)
    second = float(singular[1]) if len(singular) > 1 else 0.0
    return 1 / second**2 if second > 1e-8 else math.inf


def first_split(joint: Any) -> float:
    """The beta above which one cluster is surely not best: `first_transition`, or where telling x itself is better.

    Solutions may jump from one cluster to many while one is still stable: beta I(X; Y) is more than H(X) by then.

    >>> from chainrule.information import noisy_typewriter
    >>> table = noisy_typewriter(12, 3) / 12
    >>> round(first_transition(table), 4), round(first_split(table), 4)
    (4.8231, 3.585)
    """
    values = table("first_split", "joint", joint, 2)
    shared_by_both = shared(values)
    alone = total(values.sum(axis=1)) / shared_by_both if shared_by_both > 1e-12 else math.inf
    return min(first_transition(values), alone)


def _annealed(
    problem: BottleneckProblem,
    betas: np.ndarray,
    clusters: int,
    restarts: int,
    draws: np.random.Generator,
    tol: float,
    most: int,
) -> dict[float, tuple[np.ndarray, bool]]:
    """The best encoder for each beta, given from the largest to the smallest."""
    inputs = len(problem.source)
    apart = identity(inputs, clusters)
    together = np.eye(clusters)[np.zeros(inputs, int)][None]
    carried, beta = apart, 10 * float(betas[0])
    found: dict[float, tuple[np.ndarray, bool]] = {}
    for target in betas.tolist():
        while beta / _RATIO > target:
            beta /= _RATIO
            carried = problem.solve(perturbed(carried, draws), beta, tol=1e-7, most=300).encoder
        beta = target
        starts = [perturbed(carried, draws), apart, perturbed(apart, draws)]
        starts += [random_starts(restarts, inputs, clusters, draws)] if restarts else []
        found[target] = _best(problem, np.concatenate([*starts, together]), target, tol, most)
        carried = found[target][0][None]
    # Solutions of smaller beta may be better starts than those of larger ones: once more, upwards.
    for below, above in zip(betas[:0:-1].tolist(), betas[-2::-1].tolist(), strict=True):
        starts = [perturbed(found[below][0][None], draws), found[above][0][None]]
        found[above] = _best(problem, np.concatenate(starts), above, tol, most)
    return found


def _best(
    problem: BottleneckProblem, starts: np.ndarray, beta: float, tol: float, most: int
) -> tuple[np.ndarray, bool]:
    """Look at all starts for a while, and go on with the best three."""
    tried = problem.solve(starts, beta, tol=1e-6, most=200)
    kept = np.argsort(problem.objective(tried.encoder, beta))[:3]
    state = problem.solve(tried.encoder[kept], beta, tol=tol, most=most)
    values = problem.objective(state.encoder, beta)
    best = int(np.argmin(values))
    if values[best] > -1e-10:
        # Nothing is worth telling: one cluster, and not many that are nearly the same.
        return np.eye(starts.shape[2])[np.zeros(starts.shape[1], int)], True
    return state.encoder[best], bool(state.converged[best])


def _problem(where: str, joint: Any) -> tuple[np.ndarray, BottleneckProblem, np.ndarray]:
    values = table(where, "joint", joint, 2)
    mass = values.sum(axis=1)
    possible = mass > 0
    return values, BottleneckProblem(mass[possible], values[possible] / mass[possible][:, None]), possible


def _result(
    problem: BottleneckProblem,
    beta: float,
    encoder: np.ndarray,
    converged: bool,
    possible: np.ndarray,
    deterministic: bool,
    unit: str,
) -> Bottleneck:
    factor = scale(unit)
    encoder = merged(problem, encoder)
    mass, decoder = problem.decoder(encoder)
    rate, relevance, _ = (float(one[0]) for one in problem.measures(encoder[None]))
    first = total(mass) if deterministic else rate
    whole_encoder = np.zeros((len(possible), encoder.shape[1]))
    whole_encoder[possible] = encoder
    return Bottleneck(
        float(beta),
        rate * factor,
        relevance * factor,
        (first - beta * relevance) * factor,
        unit,
        whole_encoder,
        mass,
        decoder,
        converged,
    )


def merged(problem: BottleneckProblem, encoder: np.ndarray) -> np.ndarray:
    """The encoder without dead clusters, with clusters that say the same of y made one, the largest first."""
    mass, decoder = problem.decoder(encoder)
    kept: list[int] = []
    columns: list[np.ndarray] = []
    for z in np.argsort(-mass, kind="stable").tolist():
        if mass[z] <= _DEAD:
            continue
        near = [k for k, other in enumerate(kept) if np.abs(decoder[z] - decoder[other]).sum() / 2 < _SAME]
        if near:
            columns[near[0]] = columns[near[0]] + encoder[:, z]
        else:
            kept.append(z)
            columns.append(encoder[:, z])
    stacked = np.stack(columns, axis=1)
    stacked = stacked[:, np.argsort(-(problem.source @ stacked), kind="stable")]
    return np.asarray(stacked / stacked.sum(axis=1, keepdims=True))


__all__ = [
    "Bottleneck",
    "BottleneckCurve",
    "bottleneck",
    "bottleneck_curve",
    "first_split",
    "first_transition",
    "merged",
]
