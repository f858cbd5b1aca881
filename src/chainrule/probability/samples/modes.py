"""Mode coverage: how many of the known modes of a distribution samples reach, how well, and how evenly."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from chainrule.core.errors import ArgumentError
from chainrule.probability.samples.rows import two_sets

WITHIN = 3.0
"""A sample is of high quality within so many standard deviations of the nearest centre."""
_ENOUGH = 20 / 2500
"""Share of the samples that has to be of high quality and of one mode for that to count as covered."""


class ModeCoverage(NamedTuple):
    """Samples beside the modes of their distribution."""

    covered: int
    """Modes with at least `threshold` samples of high quality."""
    modes: int
    threshold: int
    high_quality: float
    """Share of samples within three standard deviations of the nearest centre."""
    divergence: float
    """Kullback-Leibler divergence of how samples share the modes, by the nearest centre, from even shares, in nats."""
    deviation: float
    """Standard deviation of samples of high quality about the mean of their mode, beside the true one.

    Of exact samples it is a little below 1, for those beyond three standard deviations are left out.
    """
    counts: Int[np.ndarray, " modes"]
    """Samples of high quality of each mode."""


def mode_coverage(
    samples: Any,
    centres: Any,
    deviation: float,
    threshold: int | None = None,
) -> ModeCoverage:
    """What samples make of equal modes with these centres and one standard deviation.

    `threshold` is 20 of 2,500 samples by default, in proportion.

    >>> found = mode_coverage(np.array([[0.0], [0.1], [5.0], [2.5]]), np.array([[0.0], [5.0], [9.0]]), 0.1)
    >>> found.covered, found.high_quality, found.counts.tolist()
    (2, 0.75, [2, 1, 0])
    """
    if not 0 < deviation < math.inf:
        raise ArgumentError(
            f"mode_coverage(deviation={deviation}): the standard deviation of a mode is a positive number"
        )
    samples, centres = two_sets("mode_coverage", samples, centres, 1, ("samples", "centres"))
    threshold = max(1, math.ceil(_ENOUGH * len(samples))) if threshold is None else threshold
    apart = np.linalg.norm(samples[:, None] - centres[None], axis=-1)
    mode, distance = apart.argmin(axis=1), apart.min(axis=1)
    good = distance <= WITHIN * deviation
    count = len(centres)
    counts = np.bincount(mode[good], minlength=count)
    shares = np.bincount(mode, minlength=count) / len(samples)
    present = shares > 0
    divergence = float((shares[present] * np.log(shares[present] * count)).sum())
    return ModeCoverage(
        int((counts >= threshold).sum()),
        count,
        threshold,
        float(good.mean()),
        divergence,
        _deviation(samples[good], mode[good], count) / deviation,
        counts,
    )


def _deviation(samples: np.ndarray, mode: np.ndarray, count: int) -> float:
    """Of samples about the mean of those of their mode, pooled over modes; zero where no mode has two."""
    found = [samples[mode == i] for i in range(count)]
    squares = sum(float(np.square(x - x.mean(axis=0, keepdims=True)).sum()) for x in found if len(x) > 1)
    freedom = sum(x.shape[1] * (len(x) - 1) for x in found if len(x) > 1)
    return math.sqrt(squares / freedom) if freedom else 0.0


__all__ = ["WITHIN", "ModeCoverage", "mode_coverage"]
