"""Rate-distortion: the fewest bits with which a source can be told at a given loss, with a proof.

`rate_distortion` finds one point of the curve by its slope, with Blahut's bounds around it; `rate_at` finds the rate at
a given distortion. Normal sources and Shannon's lower bound have closed forms.

Reference: Blahut, Computation of channel capacity and rate-distortion functions, IEEE Transactions on Information
Theory, 1972; Cover and Thomas, Elements of Information Theory, 2nd edition, 2006, chapter 10.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import logsumexp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.information.climbing import climb, tolerance
from chainrule.information.entropies import entropy, shared, total
from chainrule.information.tables import numbers, table
from chainrule.information.units import scale, takes_base
from chainrule.probability.distributions import Distribution

_STEEPEST = 1e9


@final
@dataclass(frozen=True, eq=False)
class RateDistortionPoint:
    """A point of the rate-distortion curve between two bounds."""

    rate: float
    """What the encoder found needs: an upper bound of the rate at this distortion."""
    gap: float
    """The rate at this distortion is at least `rate - gap`."""
    distortion: float
    slope: float
    """s in p(z given x) ~ p(z) exp(-s d(x, z)): by how many nats the rate falls for one more unit of distortion."""
    encoder: np.ndarray
    """p(z given x), one row for each x."""
    output: np.ndarray
    """p(z)."""
    iterations: int
    converged: bool
    unit: str

    def __str__(self) -> str:
        return f"{self.rate:.6f} {self.unit} (at most {self.gap:.1e} too many) at distortion {self.distortion:.6g}"


@takes_base
def rate_distortion(
    p: Any, d: Any, slope: float, tol: float = 1e-9, most: int = 100_000, unit: str = "bits"
) -> RateDistortionPoint:
    """The point of the curve of a source p with this slope; `d[x, z]` is what it costs to tell z instead of x.

    >>> point = rate_distortion([0.5, 0.5], [[0, 1], [1, 0]], slope=np.log(9))
    >>> round(point.distortion, 6), round(point.rate, 6)
    (0.1, 0.531004)
    """
    where = "rate_distortion"
    factor = scale(unit, where)
    source, cost = _problem(where, p, d)
    tol = tolerance(where, tol)
    if not 0 <= slope < math.inf:
        raise ArgumentError(
            f"{where}(slope={slope}): the rate falls as distortion grows; its slope is given without its sign"
        )
    return _point(source, cost, slope, tol / factor, whole(where, "most", most), factor, unit)


@takes_base
def rate_at(
    p: Any, d: Any, distortion: float, tol: float = 1e-9, most: int = 100_000, unit: str = "bits"
) -> RateDistortionPoint:
    """The rate that a source needs at most at a given distortion, by bisection of the slope.

    Where the curve is straight, two of its points are mixed. The gap is that of the best slope's lower bound.

    >>> print(rate_at([0.6, 0.4], [[0, 1], [1, 0]], 0.1))
    0.501955 bits (at most ... too many) at distortion 0.1
    """
    where = "rate_at"
    factor = scale(unit, where)
    source, cost = _problem(where, p, d)
    least, flat = float(source @ cost.min(axis=1)), float((source @ cost).min())
    if not least <= distortion < math.inf:
        raise ArgumentError(
            f"{where}(distortion={distortion}): no code does better than {least:.6g}, the cost of the best z for each x"
        )
    tol, most = tolerance(where, tol), whole(where, "most", most)
    if distortion >= flat:
        return _untold(source, cost, unit)
    low, high = 0.0, 1.0 / max(float(np.ptp(cost)), 1e-300)
    above, below = (_point(source, cost, s, tol / factor / 4, most, factor, unit) for s in (low, high))
    while below.distortion > distortion and high < _STEEPEST:
        low, above, high = high, below, 2 * high
        below = _point(source, cost, high, tol / factor / 4, most, factor, unit)
    for _ in range(200):
        if high - low <= 1e-12 * high or abs(below.distortion - distortion) <= 1e-13:
            break
        middle = _point(source, cost, (low + high) / 2, tol / factor / 4, most, factor, unit)
        if middle.distortion > distortion:
            low, above = middle.slope, middle
        else:
            high, below = middle.slope, middle
    return _mixed(source, cost, above, below, float(distortion), factor, unit)


@final
@dataclass(frozen=True, eq=False)
class RateDistortionCurve:
    """Points of the curve by slope, steepest first."""

    points: tuple[RateDistortionPoint, ...]
    unit: str

    @property
    def rates(self) -> np.ndarray:
        """Rates, falling."""
        return np.array([point.rate for point in self.points])

    @property
    def distortions(self) -> np.ndarray:
        """Distortions, rising."""
        return np.array([point.distortion for point in self.points])

    @property
    def slopes(self) -> np.ndarray:
        """Slopes, in nats for one unit of distortion."""
        return np.array([point.slope for point in self.points])

    @property
    def gap(self) -> float:
        """The largest of the gaps."""
        return max(point.gap for point in self.points)


@takes_base
def rate_distortion_curve(
    p: Any,
    d: Any,
    slopes: Sequence[float] | None = None,
    tol: float = 1e-7,
    most: int = 20_000,
    unit: str = "bits",
) -> RateDistortionCurve:
    """The curve at many slopes; by default 33 that reach from nearly no rate to nearly no distortion.

    >>> curve = rate_distortion_curve([0.6, 0.4], [[0, 1], [1, 0]])
    >>> curve.rates.shape, curve.gap < 1e-6
    ((33,), True)
    """
    _, cost = _problem("rate_distortion_curve", p, d)
    tol = tolerance("rate_distortion_curve", tol)
    if slopes is None:
        apart = cost[cost > cost.min()] - cost.min()
        smallest = float(apart.min()) if apart.size else 1.0
        slopes = np.geomspace(0.05 / float(apart.max()) if apart.size else 1.0, 12 / smallest, 33).tolist()
    if not len(slopes):
        raise ArgumentError("rate_distortion_curve(slopes=[]): a curve has at least one point")
    found = [rate_distortion(p, d, slope, tol, most, unit) for slope in sorted(slopes, reverse=True)]
    return RateDistortionCurve(tuple(found), unit)


@takes_base
def shannon_lower_bound(
    source: Any, distortion: float, measure: str = "hamming", unit: str = "bits"
) -> float:
    """A rate that no code of this distortion can go below.

    `measure="hamming"`: source is a vector of probabilities and the distortion a share of errors; the bound is
    H - h(D) - D log(k - 1). `measure="squared"`: source is a distribution with a density on the line and the distortion
    a mean square; the bound is h(X) - 1/2 log(2 pi e D), exact for normal sources.

    >>> round(shannon_lower_bound([0.6, 0.4], 0.1), 6)
    0.501955
    """
    where = "shannon_lower_bound"
    factor = scale(unit, where)
    check_choice(where, "measure", measure, ("hamming", "squared"))
    if not 0 <= distortion < math.inf:
        raise ArgumentError(f"{where}(distortion={distortion}): a distortion is a number of at least 0")
    if measure == "squared":
        if not isinstance(source, Distribution) or not distortion > 0:
            raise ArgumentError(
                f"{where}(source): a squared distortion above 0 of a distribution with a density is needed",
                remedy="for example shannon_lower_bound(Normal(0.0, 1.0), 0.1, measure='squared')",
            )
        bound = entropy(source, "nats") - math.log(2 * math.pi * math.e * distortion) / 2
    else:
        if isinstance(source, Distribution):
            raise ArgumentError(
                f"{where}(source): shares of errors are of symbols, and a {type(source).__name__} has a density",
                remedy='measure="squared", or a vector of probabilities',
            )
        chances = table(where, "source", source, 1)
        others = max(len(chances) - 1, 1)
        # Beyond the share at which errors are as likely as any symbol, an error says nothing more.
        share = min(distortion, others / (others + 1))
        bound = total(chances) - total(np.array([share, 1 - share])) - share * math.log(others)
    return max(bound, 0.0) * factor


@final
@dataclass(frozen=True, eq=False)
class WaterFilling:
    """How independent normal components share a distortion."""

    rate: float
    unit: str
    level: float
    """Distortion of every component that is told at all; the others have their variance."""
    distortions: np.ndarray
    rates: np.ndarray

    def __str__(self) -> str:
        active = int((self.rates > 0).sum())
        return f"{self.rate:.6f} {self.unit}, {active} of {len(self.rates)} components at distortion {self.level:.6g}"


@takes_base
def gaussian_rate_distortion(variances: Any, distortion: float, unit: str = "bits") -> WaterFilling:
    """The rate of independent normal components at a total squared distortion, by reverse water-filling.

    >>> print(gaussian_rate_distortion([4.0, 1.0, 0.25], 1.25))
    2.000000 bits, 2 of 3 components at distortion 0.5
    """
    where = "gaussian_rate_distortion"
    factor = scale(unit, where)
    spread = numbers(where, "variances", variances, 1)
    if not 0 < distortion < math.inf:
        raise ArgumentError(f"{where}(distortion={distortion}): only infinitely many bits have no distortion")
    ordered = np.sort(spread)
    # With the k smallest under water, the others share what these leave of the distortion.
    dry = len(ordered) - np.arange(len(ordered))
    levels = (distortion - np.concatenate([[0.0], np.cumsum(ordered)[:-1]])) / dry
    fits = levels <= ordered
    level = float(levels[np.argmax(fits)]) if fits.any() else float(ordered[-1])
    each = np.minimum(spread, level)
    rates = (
        np.where(spread > level, np.log(np.maximum(spread, 1e-300) / max(level, 1e-300)) / 2, 0.0) * factor
    )
    return WaterFilling(float(rates.sum()), unit, level, each, rates)


def _problem(where: str, p: Any, d: Any) -> tuple[np.ndarray, np.ndarray]:
    source = table(where, "p", p, 1)
    cost = np.asarray(d, np.float64)
    if cost.ndim != 2 or len(cost) != len(source) or not cost.shape[1]:
        raise ArgumentError(
            f"{where}(d): needs a row for each of the {len(source)} symbols, not shape {cost.shape}",
            remedy="d[x, z] is what it costs to tell z instead of x",
        )
    if not np.isfinite(cost).all() or (cost < 0).any():
        raise ArgumentError(f"{where}(d): distortions are finite and never negative")
    return source, cost


def _point(
    source: np.ndarray, cost: np.ndarray, slope: float, tol: float, most: int, factor: float, unit: str
) -> RateDistortionPoint:
    """Raise sum_x p(x) log sum_z q(z) exp(-s d) over q; what it lacks to the highest is what the rate has too much."""
    kernel = np.exp(-slope * (cost - cost.min(axis=1, keepdims=True)))
    root = np.sqrt(source)

    def evaluate(output: np.ndarray) -> tuple[float, np.ndarray]:
        sums = np.maximum(kernel @ output, 1e-300)
        return float(source @ np.log(sums)), np.log(np.maximum((source / sums) @ kernel, 1e-300))

    def newton(output: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return kernel * (root / np.maximum(kernel @ output, 1e-300))[:, None], 2 * root

    found = climb(evaluate, newton, cost.shape[1], tol, most)
    gap = max(found.upper - found.value, 0.0)
    encoder = kernel * found.weights
    encoder /= encoder.sum(axis=1, keepdims=True)
    joint = source[:, None] * encoder
    return RateDistortionPoint(
        shared(joint) * factor,
        gap * factor,
        float((joint * cost).sum()),
        float(slope),
        encoder,
        joint.sum(axis=0),
        len(found.bounds),
        gap <= tol,
        unit,
    )


def _untold(source: np.ndarray, cost: np.ndarray, unit: str) -> RateDistortionPoint:
    """The same answer for every symbol, the one that costs least: nothing has to be told."""
    encoder = np.zeros(cost.shape)
    encoder[:, int(np.argmin(source @ cost))] = 1.0
    return RateDistortionPoint(
        0.0, 0.0, float((source @ cost).min()), 0.0, encoder, encoder[0].copy(), 0, True, unit
    )


def _mixed(
    source: np.ndarray,
    cost: np.ndarray,
    above: RateDistortionPoint,
    below: RateDistortionPoint,
    distortion: float,
    factor: float,
    unit: str,
) -> RateDistortionPoint:
    """Two encoders of neighbouring slopes, mixed to have the distortion exactly, and what no encoder can go below."""
    apart = above.distortion - below.distortion
    share = min(max((distortion - below.distortion) / apart, 0.0), 1.0) if apart > 0 else 0.0
    encoder = share * above.encoder + (1 - share) * below.encoder
    joint = source[:, None] * encoder
    rate = shared(joint)
    # Any p(z) and slope bound the curve from below by a straight line; take the higher of the two.
    lower = max(_line(source, cost, one, distortion) for one in (above, below))
    return RateDistortionPoint(
        rate * factor,
        max(rate - lower, 0.0) * factor,
        float((joint * cost).sum()),
        below.slope,
        encoder,
        joint.sum(axis=0),
        above.iterations + below.iterations,
        above.converged and below.converged,
        unit,
    )


def _line(source: np.ndarray, cost: np.ndarray, at: RateDistortionPoint, distortion: float) -> float:
    with np.errstate(divide="ignore"):
        log_sum = logsumexp(np.log(at.output) - at.slope * cost, axis=1)
        log_ratio = logsumexp(np.log(source)[:, None] - at.slope * cost - log_sum[:, None], axis=0)
    return float(-at.slope * distortion - source @ log_sum - log_ratio.max())


__all__ = [
    "RateDistortionCurve",
    "RateDistortionPoint",
    "WaterFilling",
    "gaussian_rate_distortion",
    "rate_at",
    "rate_distortion",
    "rate_distortion_curve",
    "shannon_lower_bound",
]
