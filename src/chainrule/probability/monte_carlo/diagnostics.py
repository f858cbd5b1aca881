"""Diagnostics of Markov chains: whether several agree (R-hat), and how many independent draws they are worth (ESS).

Chains are split in halves, so that a drift shows as a disagreement, and values are replaced by normal scores of their
ranks, so that both numbers exist where variances do not.

Reference: Vehtari, Gelman, Simpson, Carpenter, Buerkner, Rank-normalization, folding, and localization, 2021.
"""

import math
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from chainrule.core.errors import ArgumentError

MIXED = 1.01
"""R-hat above this says that the chains have not seen the same distribution."""
_FEWEST = 4
"""Draws of a chain below which nothing can be said."""


def rhat(draws: Any) -> np.ndarray:
    """Rank-normalised split R-hat of draws `[chains, draws, *event]`, for every entry of the event.

    The larger of two: for where the chains are, and for how widely they spread. It is 1 where they agree, and not a
    number where a quantity never changes.

    >>> rng = np.random.default_rng(0)
    >>> apart = rng.normal(size=(4, 200)) + np.array([[0.0], [0.0], [0.0], [3.0]])
    >>> bool(rhat(apart) > 1.3), bool(rhat(apart[:3]) < 1.02)
    (True, True)
    """
    halves, event = _halves("rhat", draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.fmax(_spread_ratio(_scores(halves)), _spread_ratio(_scores(folded))).reshape(event)


def bulk_ess(draws: Any) -> np.ndarray:
    """Effective sample size for the centre of the distribution: of the normal scores of the ranks."""
    halves, event = _halves("bulk_ess", draws)
    return _effective(_scores(halves)).reshape(event)


def tail_ess(draws: Any) -> np.ndarray:
    """Effective sample size for the tails: the smaller of those of the 5 % and the 95 % quantile."""
    halves, event = _halves("tail_ess", draws)
    ends = np.quantile(halves, (0.05, 0.95), axis=(0, 1))
    return np.fmin(*(_effective((halves <= end).astype(np.float64)) for end in ends)).reshape(event)


def mean_ess(draws: Any) -> np.ndarray:
    """Effective sample size for the mean: its variance is that of the distribution divided by this.

    Unlike the other two it takes the values themselves, so the variance must be finite.
    """
    halves, event = _halves("mean_ess", draws)
    return _effective(halves).reshape(event)


def _halves(where: str, draws: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Both halves of every chain, `[2 chains, half, entries]` (a middle draw is left out), and the event's shape."""
    values = np.asarray(draws, np.float64)
    if values.ndim < 2 or values.shape[1] < _FEWEST:
        raise ArgumentError(
            f"{where}: draws of shape {values.shape}; the axes are chains, draws and those of a state, with at least "
            f"{_FEWEST} draws",
            remedy="give one chain as draws[None]",
        )
    if not np.isfinite(values).all():
        raise ArgumentError(f"{where}: some draws are NaN or infinite")
    flat = values.reshape(*values.shape[:2], -1)
    half = flat.shape[1] // 2
    return np.concatenate([flat[:, :half], flat[:, -half:]]), values.shape[2:]


def _scores(values: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks among all draws of all chains; equal values share their mean rank."""
    count = values.shape[0] * values.shape[1]
    ranks = rankdata(values.reshape(count, -1), axis=0)
    return ndtri((ranks - 3 / 8) / (count + 1 / 4)).reshape(values.shape)


def _spread_ratio(values: np.ndarray) -> np.ndarray:
    """Root of the variance of all chains together over the mean of their own."""
    n = values.shape[1]
    within = values.var(axis=1, ddof=1).mean(axis=0)
    between = values.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((n - 1) / n + between / within)


def _effective(values: np.ndarray) -> np.ndarray:
    """Effective sample size of every entry of `[chains, draws, entries]`; not a number where nothing changes.

    Autocorrelations are added in pairs, which of a reversible chain are positive and fall: what does not is noise, and
    ends the sum (Geyer, 1992).
    """
    chains, n, _ = values.shape
    centred = values - values.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, n=2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, n=2 * n, axis=1)[:, :n].mean(axis=0) / n
    own = covariance[0] * n / (n - 1)
    whole = covariance[0] + values.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (own - covariance) / whole
    correlation[0] = 1.0
    pairs = correlation[: n - n % 2].reshape(n // 2, 2, -1).sum(axis=1)
    ended = np.cumsum(pairs <= 0, axis=0) > 0
    falling = np.minimum.accumulate(np.where(ended, 0.0, pairs), axis=0)
    # The first correlation of the pair that ends the sum still counts where it is positive, once: it has no partner.
    alone = np.take_along_axis(correlation, 2 * ended.argmax(axis=0)[None], axis=0)[0]
    rest = np.where(ended.any(axis=0), np.maximum(alone, 0.0), 0.0)
    total = chains * n
    # Chains that swing from side to side are worth more than their draws, but nobody can tell how much more.
    time = np.maximum(2 * falling.sum(axis=0) - 1 + rest, 1 / math.log10(total))
    return np.where(whole > 0, total / time, np.nan)


__all__ = ["MIXED", "bulk_ess", "mean_ess", "rhat", "tail_ess"]
