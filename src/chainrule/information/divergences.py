"""How far apart two samples are: a lower bound of an f-divergence between the laws they were drawn from.

A critic is fitted on one half of both samples and scored on the other. On points it never saw its bound is, on average,
never above the divergence; on those it was fitted on it can be, because a critic can learn the points by heart.

Reference: Nguyen, Wainwright and Jordan, Estimating divergence functionals and the likelihood ratio by convex risk
minimization, IEEE Transactions on Information Theory, 2010.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.information.critics import Critic, Fitted, fit, rows_of
from chainrule.probability.divergences import FDivergence, f_divergences

_LEAST = 20
"""Points of each sample: four to score on for each kept apart."""
_HEAVY = 0.25
"""A single term with more of the sum of squares than this makes a standard error that cannot be trusted."""


@final
@dataclass(frozen=True)
class DivergenceEstimate:
    """A lower bound of a divergence with its standard error, and the critic that gives it.

    `value` is E_p T - E_q f*(T) over the points scored on, in nats for divergences of logarithms.
    """

    divergence: FDivergence
    value: float
    error: float
    """Standard error of the value: what other draws of the points scored on would change."""
    on_fitted: float
    """The same critic's bound on the points it was fitted on; by how much it is higher was learned by heart."""
    critic: Critic
    """T(x), as a function of points."""
    scored_on: str
    """Which half the value is of, in words."""
    counts: tuple[int, int]
    """Points of each sample that it was scored on."""
    steps: int
    """Steps of training that were made."""
    best_step: int
    """The one whose weights were kept."""
    curve: Float[np.ndarray, "looks 3"]
    """Step, the bound on training batches, and that on the points kept apart to stop by."""
    remarks: tuple[str, ...] = ()
    """What a reader has to know of this number."""

    def __str__(self) -> str:
        return (
            f"{self.divergence.name} of at least {self.value:.4g} ± {self.error:.2g}, "
            f"on {self.scored_on}: {self.counts[0]:,} and {self.counts[1]:,} points"
        )


def divergence_estimate(
    x: Any,
    y: Any,
    divergence: str | FDivergence = "KL",
    *,
    width: int = 64,
    depth: int = 2,
    steps: int = 2000,
    every: int = 10,
    patience: int = 50,
    batch: int = 512,
    lr: float = 2e-3,
    score_on_fitted: bool = False,
    key: Key | None = None,
) -> DivergenceEstimate:
    """A lower bound of the divergence from two samples alone, points along the first axis: no densities, no model.

    A dense network (`width`, `depth` hidden layers) is fitted on a random half of both samples; a fifth of that half
    says when to stop: after `patience` looks, one every `every` steps, that are no better than the best. The bound of
    the other half is returned. `score_on_fitted=True` fits, stops and scores on one and the same half instead, which
    can exceed the true value; it is for showing that. `key` shuffles, draws weights and batches (default
    `jax.random.key(0)`).

    >>> draws = np.random.default_rng(0).normal(size=(2, 400))
    >>> found = divergence_estimate(draws[0], draws[1] + 8.0, "total variation", steps=100)
    >>> found.value > 0.9, found.counts
    (True, (200, 200))
    """
    one = divergence if isinstance(divergence, FDivergence) else f_divergences[divergence]
    first, second = _samples(x, y)
    sizes = {
        "width": width,
        "depth": depth,
        "steps": steps,
        "every": every,
        "patience": patience,
        "batch": batch,
    }
    for name, size in sizes.items():
        whole("divergence_estimate", name, size)
    if not 0 < lr < math.inf:
        raise ArgumentError(
            f"divergence_estimate(lr={lr}): a learning rate is positive", remedy="2e-3 is usual"
        )
    shuffled, drawn, batches = jax.random.split(jax.random.key(0) if key is None else key, 3)
    halves = [_halves(rows, k) for rows, k in zip((first, second), jax.random.split(shuffled), strict=True)]
    # The points to stop by belong to the half that is fitted: the other half is seen once, at the end.
    used, kept = zip(*((half[len(half) // 5 :], half[: len(half) // 5]) for half, _ in halves), strict=True)
    scored = tuple(other for _, other in halves)
    if score_on_fitted:
        used = kept = scored = tuple(half for half, _ in halves)
    every = min(every, steps)
    fitted = fit(
        _start(one, used, width, depth, drawn),
        jnp.asarray(used[0]),
        jnp.asarray(used[1]),
        (jnp.asarray(kept[0]), jnp.asarray(kept[1])),
        batches,
        steps=steps,
        every=every,
        patience=patience,
        batch=batch,
        lr=lr,
    )
    return _estimate(one, fitted, used, scored, score_on_fitted, every)


def _start(divergence: FDivergence, used: Sequence[np.ndarray], width: int, depth: int, key: Key) -> Critic:
    """A critic that says nothing yet, of points standardised as both samples together are."""
    pooled = np.concatenate(used)
    mean, spread = pooled.mean(axis=0), pooled.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0).astype(np.float32)
    ratio = float(min(map(len, used)))
    arrays = jnp.asarray(mean), jnp.asarray(scale)
    return Critic(divergence, *arrays, ratio=ratio, width=width, depth=depth, key=key)


def _estimate(
    one: FDivergence,
    fitted: Fitted,
    used: Sequence[np.ndarray],
    scored: Sequence[np.ndarray],
    score_on_fitted: bool,
    every: int,
) -> DivergenceEstimate:
    value, error, heaviest = _bound(*fitted.critic.terms(*scored))
    steps, best_step = int(fitted.steps), int(fitted.at)
    curve = np.asarray(fitted.curve)[: steps // every]
    return DivergenceEstimate(
        divergence=one,
        value=value,
        error=error,
        on_fitted=_bound(*fitted.critic.terms(*used))[0],
        critic=fitted.critic,
        scored_on="the half it was fitted on" if score_on_fitted else "the half it never saw",
        counts=(len(scored[0]), len(scored[1])),
        steps=steps,
        best_step=best_step,
        curve=np.column_stack([np.arange(1, len(curve) + 1) * every, curve]),
        remarks=_remarks(one, value, error, heaviest, score_on_fitted, best_step, steps),
    )


def _bound(under_p: np.ndarray, under_q: np.ndarray) -> tuple[float, float, float]:
    """The bound, its standard error, and the share of the largest single term in the sum of squares."""
    parts = [np.asarray(one, dtype=np.float64) for one in (under_p, under_q)]
    value = parts[0].mean() - parts[1].mean()
    squares = [np.square(one - one.mean()) / len(one) / max(len(one) - 1, 1) for one in parts]
    variance = sum(float(one.sum()) for one in squares)
    largest = max(float(one.max()) for one in squares)
    return float(value), math.sqrt(variance), largest / variance if variance > 0 else 0.0


def _remarks(
    one: FDivergence,
    value: float,
    error: float,
    heaviest: float,
    score_on_fitted: bool,
    best_step: int,
    made: int,
) -> tuple[str, ...]:
    said = [one.remark] if one.remark else []
    if score_on_fitted:
        said.append("Scored on the points the critic was fitted on: it may exceed the true divergence.")
    if not math.isfinite(value):
        said.append("The bound is not finite: the conjugate overflowed on points the critic never saw.")
    elif not best_step:
        said.append("No step was better than a critic that says nothing: these samples are not told apart.")
    elif value <= one.at_one and heaviest > _HEAVY:
        said.append("No more than a constant critic has: this bound says nothing about these laws.")
    elif value - one.at_one <= 2 * error:
        said.append(
            "Within two standard errors of what equal laws have: these samples do not tell them apart."
        )
    if heaviest > _HEAVY:
        said.append(
            f"One term makes {100 * heaviest:.0f} % of the variance: tails are heavy, and the standard error is itself "
            "uncertain; 2 JSD, squared Hellinger and total variation are bounded."
        )
    if best_step == made:
        said.append(f"The best step was the last one: more than {made:,} steps might raise the bound.")
    return tuple(said)


def _halves(rows: np.ndarray, key: Key) -> tuple[np.ndarray, np.ndarray]:
    order = np.asarray(jax.random.permutation(key, len(rows)))
    half = len(rows) // 2
    return rows[order[:half]], rows[order[half:]]


def _samples(x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    found = []
    for name, sample in (("x", x), ("y", y)):
        points = np.asarray(sample if not isinstance(sample, Array) else np.asarray(sample))
        if points.ndim == 0 or len(points) < _LEAST:
            raise ArgumentError(
                f"divergence_estimate({name}): {len(points) if points.ndim else 1} points are too few to fit on one "
                "half and score on the other",
                remedy=f"give at least {_LEAST} points",
            )
        rows = rows_of(points)
        wrong = ~np.isfinite(rows).all(axis=1)
        if wrong.any():
            raise ArgumentError(
                f"divergence_estimate({name}): point {int(np.argmax(wrong))} has an entry that is not finite",
                remedy=f"leave such points out: {name}[np.isfinite({name})]"
                if points.ndim == 1
                else "leave it out",
            )
        found.append(rows)
    if found[0].shape[1] != found[1].shape[1]:
        raise ArgumentError(
            f"divergence_estimate: points of x have {found[0].shape[1]} entries, those of y {found[1].shape[1]}",
            remedy="compare samples of the same kind of points",
        )
    return found[0], found[1]


__all__ = ["DivergenceEstimate", "divergence_estimate"]
