"""Importance weights: the mean they estimate, how sure it is, and whether their tail lets it be trusted.

Draws Z from q with weights `w = p(Z) / q(Z)` estimate the normalisation of p by the mean of w. Its logarithm is biased
low, and heavy tails of w make both the estimate and its standard error worthless without a sign of it in either. The
shape of the tail, fitted by a generalised Pareto distribution, is that sign: with shape k, moments of order 1/k and
above are infinite.
"""

import math
import warnings
from typing import Any, NamedTuple, final

import numpy as np
from scipy.special import logsumexp

from chainrule.core.errors import ArgumentError, ChainruleWarning

NO_VARIANCE = 0.5
"""Above this shape of the tail weights have no variance."""
UNRELIABLE = 0.7
"""Above this shape no practical number of draws is enough (Vehtari et al., 2024)."""
_MOST_DOUBT = 0.2
"""Few draws leave everything possible; no more than this is held against them."""
_ALIKE = 1e-3
"""Relative differences of weights that may be rounding of logarithms of up to a thousand nats in single precision."""
_FEWEST = 5
"""Weights a tail needs to be fitted."""


@final
class WeightReport(NamedTuple):
    """What importance weights tell, for each set of them: arrays over all axes but that of the draws."""

    log_mean: np.ndarray
    """Logarithm of the mean weight; in expectation too low."""
    corrected: np.ndarray
    """The same with its bias taken off by the jackknife."""
    standard_error: np.ndarray
    """Of both, by the jackknife."""
    effective_sample_size: np.ndarray
    """`(sum w)^2 / sum w^2`: as many draws from p itself would be as good."""
    pareto_k: np.ndarray
    """Shape of the tail of the weights; -inf where they are all alike, nan where they are too few to tell."""
    draws: int

    @property
    def reliable(self) -> np.ndarray:
        """Where the estimate can be trusted: the tail is not too heavy, and there were draws enough to tell."""
        return self.pareto_k <= UNRELIABLE

    def interval(self, deviations: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
        """Ends of an interval around the corrected estimate, so many standard errors to both sides."""
        half = deviations * self.standard_error
        return self.corrected - half, self.corrected + half

    def concern(self) -> str:
        """What is wrong with the weights, in a sentence; empty if nothing is."""
        k = np.atleast_1d(self.pareto_k)
        of = "" if k.size == 1 else f" for {{}} of {k.size:,} sets of weights"
        if np.isnan(k).any():
            return f"{self.draws} draws are too few to judge the tail of the weights: use 25 or more"
        if (heavy := int((k > UNRELIABLE).sum())) > 0:
            return (
                f"Pareto k is {k.max():.2f}, above {UNRELIABLE}{of.format(heavy)}: a few draws decide, and the "
                "estimate is likely to be too low; use a wider or better fitting proposal"
            )
        # The shape itself is known within (1 + k) / sqrt(tail) only: a variance should be beyond doubt.
        doubt = 2 * np.maximum(1 + k, 0.0) / math.sqrt(_tail(self.draws))
        uncertain = k + np.minimum(doubt, _MOST_DOUBT)
        if (heavy := int((uncertain > NO_VARIANCE).sum())) > 0:
            return (
                f"Pareto k is {k.max():.2f}, not clearly below {NO_VARIANCE}{of.format(heavy)}: the weights may have "
                "no finite variance, and then standard errors are too small"
            )
        return ""


def weight_report(log_weights: Any, *, warn: bool = True) -> WeightReport:
    """Mean, standard error, effective sample size and Pareto k of importance weights, whose first axis are the draws.

    A warning says so where the tail of the weights is too heavy (Pareto k not clearly below 0.5, or above 0.7).

    >>> report = weight_report(np.full(100, -2.0))  # weights of an exact posterior are all alike
    >>> float(report.log_mean), float(report.standard_error), float(report.effective_sample_size)
    (-2.0, 0.0, 100.0)
    """
    logs = np.asarray(log_weights, np.float64)
    if logs.ndim == 0 or len(logs) < 2:
        raise ArgumentError(
            f"weight_report: log_weights of shape {logs.shape}; the first axis are the draws, at least two of them"
        )
    if np.isnan(logs).any() or (logs == np.inf).any():
        raise ArgumentError(
            "weight_report: some log_weights are NaN or infinite",
            remedy="look at the densities: log p(x, z) and log q(z) must be finite where z is drawn",
        )
    draws, batch = len(logs), logs.shape[1:]
    flat = logs.reshape(draws, -1)
    log_mean = logsumexp(flat, axis=0) - math.log(draws)
    # Relative to their mean, so that nothing over- or underflows; all-zero weights stay zero.
    weights = np.exp(flat - np.where(np.isfinite(log_mean), log_mean, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        without_one = log_mean + np.log(np.maximum(draws - weights, 0.0) / (draws - 1))
        mean_without = without_one.mean(axis=0)
        spread = np.square(without_one - mean_without).sum(axis=0)
        squares = np.square(weights).sum(axis=0)
        size = np.where(squares > 0, np.square(weights.sum(axis=0)) / squares, 0.0)
        corrected = draws * log_mean - (draws - 1) * mean_without
    report = WeightReport(
        log_mean.reshape(batch),
        np.where(np.isfinite(corrected), corrected, log_mean).reshape(batch),
        np.sqrt(np.where(np.isfinite(spread), spread * (draws - 1) / draws, np.inf)).reshape(batch),
        size.reshape(batch),
        np.array([pareto_k(column) for column in weights.T]).reshape(batch),
        draws,
    )
    if warn and (concern := report.concern()):
        warnings.warn(concern, ChainruleWarning, stacklevel=2)
    return report


def pareto_k(weights: np.ndarray) -> float:
    """Shape of the tail of positive weights: of the `min(n / 5, 3 sqrt(n))` largest, over the largest of the others."""
    count = _tail(len(weights))
    if count < _FEWEST:
        return math.nan
    ordered = np.sort(weights)
    tail = ordered[-count:] - ordered[-count - 1]
    if ordered[-1] - ordered[0] <= _ALIKE * ordered[-1]:
        return -math.inf
    tail = tail[tail > 0]
    return _generalized_pareto_shape(tail) if len(tail) >= _FEWEST else math.inf


def _tail(draws: int) -> int:
    return math.ceil(min(draws / 5, 3 * math.sqrt(draws)))


def _generalized_pareto_shape(excesses: np.ndarray) -> float:
    """Shape of the generalised Pareto distribution of these ordered excesses over a threshold.

    With `b = -k / scale` the likelihood has one maximum in k for each b, `k(b) = mean log(1 - b x)`. The estimate is
    the mean of b over that profile, on a grid with a weakly informative prior (Zhang and Stephens, 2009), and k is
    drawn to one half as if ten more excesses had said so (Vehtari et al., 2024).
    """
    n = len(excesses)
    grid = 30 + int(math.sqrt(n))
    quarter = excesses[int(n / 4 + 0.5) - 1]
    b = 1 / excesses[-1] + (1 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3 * quarter)
    k = np.log1p(-b[:, None] * excesses).mean(axis=1)
    profile = n * (np.log(-b / k) - k - 1)
    share = np.exp(profile - logsumexp(profile))
    best = float(share @ b)
    shape = float(np.log1p(-best * excesses).mean())
    return (n * shape + 10 * 0.5) / (n + 10)


__all__ = ["NO_VARIANCE", "UNRELIABLE", "WeightReport", "pareto_k", "weight_report"]
