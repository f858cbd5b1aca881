"""Ratings from results: Elo by maximum likelihood, with intervals, and the gate that a candidate must pass.

The chance of one side to beat another is 1 / (1 + 10^((R' - R) / 400)), draws count half. The ratings that make all
results together most likely are found by Newton's method on a concave function (Bradley and Terry, 1952); the curvature
there gives their errors. Only differences are determined: one side, `random` where it took part, is put at 0.
"""

from collections.abc import Mapping
from typing import NamedTuple, final

import numpy as np
import scipy.special
import scipy.stats

from chainrule.agents.arena.matches import Match
from chainrule.core.errors import ArgumentError, DataError

_SCALE = np.log(10) / 400
"""Nats of the odds for a point of rating."""


@final
class Rating(NamedTuple):
    """A rating with its 95 % interval."""

    elo: float
    low: float
    high: float
    games: int


@final
class Gate(NamedTuple):
    """Whether a candidate takes over, and what its result means."""

    passed: bool
    probability: float
    """Of so many points or more against an equal rival, if all games are decided."""
    elo: float
    """What the share of points is worth."""


def elo_of_share(share: float) -> float:
    """The difference of ratings at which a share of the points is expected.

    >>> round(elo_of_share(0.55)), round(elo_of_share(0.875))
    (35, 338)
    """
    if not 0 <= share <= 1:
        raise ArgumentError(f"elo_of_share(share={share}): a share lies between 0 and 1")
    return float(scipy.special.logit(share) / _SCALE)


def gate(points: float, games: int, threshold: float = 0.55) -> Gate:
    """Whether a candidate with so many points has at least the share `threshold` of them.

    >>> verdict = gate(220, 400)
    >>> verdict.passed, round(verdict.probability, 4), round(verdict.elo)
    (True, 0.0255, 35)
    """
    if games < 1 or not 0 <= points <= games or not 0 < threshold <= 1:
        raise ArgumentError(
            f"gate(points={points}, games={games}, threshold={threshold}): needs 0 <= points <= games, games >= 1 "
            "and a threshold between 0 and 1"
        )
    by_chance = float(scipy.stats.binom.sf(np.ceil(points) - 1, games, 0.5))
    enough = points >= threshold * games - 1e-9  # 0.55 of 400 is 220, whatever rounding says
    return Gate(enough, by_chance, elo_of_share(points / games))


def ratings(
    results: Mapping[tuple[str, str], Match | tuple[int, int, int]],
    *,
    anchor: str = "random",
    prior: float = 1.0,
) -> dict[str, Rating]:
    """Ratings of all sides, the best first, from matches or (wins, draws, losses) between pairs of names.

    `prior` drawn games are added to every pair that met: without them a side that won all its games would have no
    finite rating. Where `anchor` took no part, the weakest side is put at 0.
    """
    if prior < 0:
        raise ArgumentError(f"ratings(prior={prior}): needs at least 0 games")
    names = sorted({name for pair in results for name in pair})
    number = {name: i for i, name in enumerate(names)}
    points = np.zeros((len(names), len(names)))
    for (one, other), match in results.items():
        wins, draws, losses = match[:3]
        if not wins + draws + losses:
            continue
        points[number[one], number[other]] += wins + draws / 2 + prior / 2
        points[number[other], number[one]] += losses + draws / 2 + prior / 2
    played = points + points.T
    _check_connected(names, played)
    zero = number[anchor] if anchor in number else int(_most_likely(points, 0)[0].argmin())
    strengths, covariance = _most_likely(points, zero)
    errors = 1.959964 * np.sqrt(np.diag(covariance))
    met = played - prior * (played > 0)
    found = {
        name: Rating(
            float(strengths[i] / _SCALE),
            float((strengths[i] - errors[i]) / _SCALE),
            float((strengths[i] + errors[i]) / _SCALE),
            round(met[i].sum()),
        )
        for name, i in number.items()
    }
    return dict(sorted(found.items(), key=lambda item: -item[1].elo))


def _most_likely(points: np.ndarray, fixed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-strengths with that of `fixed` at 0, and their covariance."""
    count = len(points)
    free = np.arange(count) != fixed
    played = points + points.T
    strengths = np.zeros(count)
    curvature = np.zeros((count, count))
    for _ in range(100):
        chances = scipy.special.expit(strengths[:, None] - strengths[None])
        slope = (points - played * chances).sum(1)
        weights = played * chances * (1 - chances)
        curvature = np.diag(weights.sum(1)) - weights
        step = np.zeros(count)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        strengths += np.clip(step, -2, 2)  # far from the maximum Newton's step is too long
        if np.abs(step).max() < 1e-10:
            break
    else:
        raise DataError(
            "ratings have no maximum: some side won all its games",
            remedy="ratings(..., prior=1) keeps them finite",
        )
    covariance = np.zeros((count, count))
    covariance[np.ix_(free, free)] = np.linalg.inv(curvature[np.ix_(free, free)])
    return strengths, covariance


def _check_connected(names: list[str], played: np.ndarray) -> None:
    reached = np.arange(len(names)) == 0
    for _ in names:
        reached = reached | (played[reached] > 0).any(0)
    if not reached.all():
        apart = ", ".join(name for name, there in zip(names, reached, strict=True) if not there)
        raise DataError(
            f"no games join {apart} to the others",
            remedy="ratings compare only sides that have met, directly or not",
        )


__all__ = ["Gate", "Rating", "elo_of_share", "gate", "ratings"]
