"""Information rate of a sequence under a predictor: what the past says about the next sample.

It is the surprisal of samples with time order ignored minus their surprisal given the past, per sample: both cross-
entropies on data the predictor was not fitted to. Neighbouring samples are no independent draws, so that intervals
come from blocks of them drawn again.

References: Dubnov, Spectral anticipations, Computer Music Journal 30, 2006; Künsch, The jackknife and the bootstrap for
general stationary observations, Annals of Statistics 17, 1989.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.special import digamma

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.units import scale, takes_base

_FEWEST = 5
"""Blocks below which drawing them again says nothing."""
_TIES = 0.05
"""Share of values that are there more than once above which they are taken for rounded ones."""


@final
@dataclass(frozen=True)
class SequenceInformation:
    """The information rate of a sequence under a predictor."""

    value: float
    """Per sample, in `unit`."""
    interval: tuple[float, float]
    """95 % by drawing blocks of neighbouring samples again."""
    unordered: float
    """Mean surprisal of a sample with time order ignored."""
    predictive: float
    """Mean surprisal given the past."""
    unit: str
    block: int
    """Samples of a block."""
    profile: Float[np.ndarray, " samples"]
    """What the past said about each sample: below zero where it misled."""
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        low, high = self.interval
        return f"information rate {self.value:.4g} {self.unit} per sample ({low:.4g} to {high:.4g})"


@takes_base
def sequence_information_rate(
    predictive: Any,
    unordered: Any,
    *,
    block: int | None = None,
    draws: int = 500,
    unit: str = "bits",
    seed: int = 0,
) -> SequenceInformation:
    """The information rate from the surprisal of every sample, in nats: given the past, and with time order ignored.

    Samples are in their order. `block` is how many neighbours are drawn together; none: four times the cube root of
    their number.

    >>> given = np.full(1000, 1.0)
    >>> found = sequence_information_rate(given, given + np.log(2))
    >>> print(found)
    information rate 1 bits per sample (1 to 1)
    """
    where = "sequence_information_rate"
    factor = scale(unit, where)
    first, second = (np.asarray(part, np.float64) for part in (predictive, unordered))
    if first.ndim != 1 or first.shape != second.shape or not len(first):
        raise ArgumentError(
            f"{where}: shapes {first.shape} and {second.shape}; both are one number for each sample"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ArgumentError(f"{where}: some surprisal is not finite", remedy="smooth the probabilities")
    whole(where, "draws", draws, least=20)
    n = len(first)
    size = max(1, min(round(4 * n ** (1 / 3)), n // 10)) if block is None else whole(where, "block", block)
    profile = factor * (second - first)
    value = float(profile.mean())
    remarks = []
    if n < _FEWEST * size:
        remarks.append(
            f"{n:,} samples are fewer than {_FEWEST} blocks of {size:,}: the interval cannot be trusted."
        )
        size = max(1, n // _FEWEST)
    interval = block_bootstrap(profile, size, draws, seed)
    if value < 0:
        remarks.append(
            "The past makes held-out samples less likely, not more: the predictor is over-fitted, or not trained."
        )
    elif interval[0] <= 0:
        remarks.append("The interval holds zero: no use of the past is shown.")
    return SequenceInformation(
        value,
        interval,
        factor * float(second.mean()),
        factor * float(first.mean()),
        unit,
        size,
        profile,
        tuple(remarks),
    )


def block_bootstrap(
    values: Float[np.ndarray, " samples"], block: int, draws: int = 500, seed: int = 0
) -> tuple[float, float]:
    """Where 95 % of the means lie of sequences put together from blocks of neighbours, wherever these begin.

    >>> alike = np.repeat(np.random.default_rng(0).normal(size=50), 20)
    >>> single, blocks = (np.ptp(block_bootstrap(alike, block)) for block in (1, 40))
    >>> bool(blocks > 2 * single)
    True
    """
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[:block]]))])
    starts = np.random.default_rng(seed).integers(0, n, (draws, -(-n // block)))
    means = (sums[starts + block] - sums[starts]).mean(axis=1) / block
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def symbol_surprisal(
    symbols: np.ndarray, counts: Float[np.ndarray, " alphabet"] | np.ndarray
) -> Float[np.ndarray, " samples"]:
    """Nats of each symbol by how often it comes elsewhere; half a count is added to every one of the alphabet.

    >>> symbol_surprisal(np.array([0, 0, 1]), np.array([1.5, 0.5])).round(3).tolist()
    [0.405, 0.405, 1.099]
    """
    smoothed = np.asarray(counts, np.float64) + 0.5
    return -np.log(smoothed / smoothed.sum())[symbols]


def value_surprisal(
    values: Float[np.ndarray, "samples features"], others: Float[np.ndarray, "more features"], k: int = 5
) -> Float[np.ndarray, " samples"]:
    """Nats of the density of each value among others, by the distance to the k-th of them.

    Its mean is the cross-entropy, on average nearly without bias. Rounded values are spread over the gaps between them.

    >>> draws = np.random.default_rng(0).normal(size=(2, 4000, 1))
    >>> round(float(value_surprisal(*draws).mean()), 1)
    1.4
    """
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(1,)))  # no stream that values come from
    one, two = values.astype(np.float64), others.astype(np.float64)
    for column in range(two.shape[1]):
        levels = np.unique(two[:, column])
        if 1 < len(levels) < (1 - _TIES) * len(two):
            gap = float(np.diff(levels).min())
            for part in (one, two):
                part[:, column] += rng.uniform(-gap / 2, gap / 2, len(part))
    near = min(k, len(two))
    reach = cKDTree(two).query(one, [near], p=np.inf)[0][:, 0]
    least = np.finfo(np.float32).tiny
    dimension = two.shape[1]
    return np.log(len(two)) - digamma(near) + dimension * np.log(2 * np.maximum(reach, least))


__all__ = [
    "SequenceInformation",
    "block_bootstrap",
    "sequence_information_rate",
    "symbol_surprisal",
    "value_surprisal",
]
