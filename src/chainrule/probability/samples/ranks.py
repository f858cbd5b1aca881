"""Rank calibration: whether what is true looks like one more of the draws that were made for it.

Where parameters are drawn from a prior, data from their distribution given the parameters, and draws from the posterior
given the data, then the true parameters and the draws are exchangeable: the number of draws below the truth is uniform.
Draws that are too close together put the truth at either end too often, draws too far apart put it in the middle, and
draws that lie too high put it low.

Reference: Talts, Betancourt, Simpson, Vehtari and Gelman, Validating Bayesian inference algorithms with
simulation-based calibration, 2018.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError

_LEVEL = 0.99
"""Of the bands."""
_LEAST = 5
"""Examples that a bin is to expect: with fewer, chi-square is no good approximation."""
_TINY = np.finfo(np.float64).tiny


class RankCalibration(NamedTuple):
    """How the ranks of true values among draws are spread, entry by entry."""

    ranks: Int[np.ndarray, "examples entries"]
    """How many of the draws lie below the true value."""
    draws: int
    counts: Int[np.ndarray, "entries bins"]
    expected: Float[np.ndarray, " bins"]
    low: Float[np.ndarray, " bins"]
    """Ends of the band in which the count of a bin lies in 99 % of all cases, if the draws are right."""
    high: Float[np.ndarray, " bins"]
    p_values: Float[np.ndarray, " entries"]
    """Chances of counts as uneven as these, if the draws are right."""

    @property
    def shares(self) -> Float[np.ndarray, "examples entries"]:
        """Ranks between 0 and 1, each in the middle of its step."""
        return (self.ranks + 0.5) / (self.draws + 1)

    def is_uniform(self, level: float = 0.01) -> bool:
        """Whether no entry is more uneven, tilted or spread than chance explains, all entries taken together."""
        even = bool(self.p_values.min() >= level / len(self.p_values) / 2)
        return even and not any(self.concerns(level / 2))

    def concerns(self, level: float = 0.005) -> Sequence[str]:
        """What is wrong with the draws of each entry, in two words; empty where nothing shows.

        The level is that of `is_uniform`, of which uneven counts take the other half.
        """
        n, limit = len(self.ranks), stats.norm.ppf(1 - level / len(self.p_values) / 4)
        steps = (np.arange(self.draws + 1) + 0.5) / (self.draws + 1) - 0.5
        tilt = math.sqrt(n) * (self.shares.mean(axis=0) - 0.5) / steps.std()
        squares = np.square(steps)
        off = np.square(self.shares - 0.5).mean(axis=0) - squares.mean()
        spread = math.sqrt(n) * off / max(squares.std(), _TINY)
        # Draws that lie too high or too low put the truth at an end, too: their spread cannot be told from that.
        high, low = tilt < -limit, tilt > limit
        words = ("too high", "too low", "too narrow", "too wide")
        return [
            str(np.select(found, words, ""))
            for found in zip(high, low, spread > limit, spread < -limit, strict=True)
        ]


def rank_calibration(
    true: Float[np.ndarray, "_ _"],
    draws: Float[np.ndarray, "_ draws _"],
    bins: int = 20,
    seed: int = 0,
) -> RankCalibration:
    """Ranks of true values among draws made for each, counted in bins beside what chance allows.

    Values equal to the true one count as below or above it at random. There are fewer bins where examples are few.

    >>> random = np.random.default_rng(0)
    >>> theta = random.normal(size=(1000, 1))
    >>> x = theta + random.normal(size=theta.shape)
    >>> noise = random.normal(size=(1000, 99, 1))
    >>> right, narrow = (rank_calibration(theta, x[:, None] / 2 + s * noise) for s in (0.5**0.5, 0.4))
    >>> right.is_uniform(), narrow.is_uniform(), narrow.concerns()
    (True, False, ['too narrow'])
    """
    n, count = _checked(true, draws)
    below = (draws < true[:, None]).sum(axis=1)
    equal = (draws == true[:, None]).sum(axis=1)
    ranks = below + np.random.default_rng(seed).integers(0, equal + 1)
    bins = max(2, min(whole("rank_calibration", "bins", bins, 2), count + 1, n // _LEAST))
    steps = np.bincount(np.arange(count + 1) * bins // (count + 1))
    counts = np.stack([np.bincount(one * bins // (count + 1), minlength=bins) for one in ranks.T])
    share = steps / (count + 1)
    low, high = stats.binom.interval(_LEVEL, n, share)
    p_values = stats.chisquare(counts, n * share, axis=1).pvalue
    return RankCalibration(ranks, count, counts, n * share, low, high, np.atleast_1d(p_values))


def _checked(true: np.ndarray, draws: np.ndarray) -> tuple[int, int]:
    """How many examples there are, and how many draws for each."""
    if true.ndim != 2 or draws.ndim != 3 or true.shape != (len(draws), draws.shape[-1]):
        raise ArgumentError(
            f"rank_calibration: {true.shape} true values and draws of shape {draws.shape}",
            remedy="give values of shape (examples, entries) and draws of shape (examples, draws, entries)",
        )
    if len(true) < 2 * _LEAST or draws.shape[1] < 1:
        raise ArgumentError(
            f"rank_calibration: {draws.shape[1]} draws for each of {len(true)} examples are too few",
            remedy=f"give {2 * _LEAST} examples or more",
        )
    for name, values in (("true values", true), ("draws", draws)):
        if not np.isfinite(values).all():
            raise ArgumentError(f"rank_calibration: the {name} are not all finite")
    return len(true), draws.shape[1]


__all__ = ["RankCalibration", "rank_calibration"]
