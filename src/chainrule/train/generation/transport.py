"""Optimal transport between samples and held-out rows, and between these and as many training rows."""

import functools
from collections.abc import Callable
from typing import final

import numpy as np

from chainrule.core import random
from chainrule.probability.transport import sinkhorn_divergence, sliced, usual_eps
from chainrule.train.generation.features import Examples

_MOST = 1000
"""Rows of each set at most."""
_SETS = 4
"""Sets of training rows at most."""


@final
class HeldOutRows:
    """Held-out rows that sets of as many samples, or of training rows, are compared with, by one epsilon."""

    def __init__(self, train: Examples, held_out: Examples, most: int = _MOST) -> None:
        self.count = min(len(held_out), len(train), most, _MOST)
        # Rows stand in the order of their source, which may be that of their classes.
        chosen = np.sort(np.random.default_rng(0).permutation(len(held_out))[: self.count])
        self._rows = np.asarray(held_out[chosen], np.float32)
        shuffled = np.random.default_rng(1).permutation(len(train))
        starts = range(0, len(train) - self.count + 1, self.count)
        self._sets = [np.asarray(train[shuffled[i : i + self.count]], np.float32) for i in starts][:_SETS]

    @functools.cached_property
    def _epsilon(self) -> float:
        return float(usual_eps(self._sets[0], self._rows))

    def sinkhorn(self, samples: Examples) -> float:
        """Sinkhorn divergence of samples from the rows, in squares of their units.

        Samples that are far off need a larger epsilon: beside their distances that of real rows is next to nothing.
        """
        some = self._some(samples)
        epsilon = max(self._epsilon, float(usual_eps(some, self._rows)) / 2)
        return float(sinkhorn_divergence(some, self._rows, epsilon))

    def sliced(self, samples: Examples) -> float:
        """Sliced 2-Wasserstein distance of samples from the rows, in their units."""
        return float(sliced(random.key(0, "directions"), self._some(samples), self._rows))

    def of_real(self, distance: Callable[[Examples], float]) -> list[float]:
        """One of the two for each set of training rows."""
        return [distance(rows) for rows in self._sets]

    def _some(self, samples: Examples) -> Examples:
        return np.asarray(samples[: self.count], np.float32)


__all__ = ["HeldOutRows"]
