"""Two histograms to move mass between: those of a person, or two bumps and three."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Float


class TwoHistograms(NamedTuple):
    """Weights of both sides, each with sum one, and the positions on a line that they belong to."""

    a: Float[np.ndarray, " some"]
    b: Float[np.ndarray, " others"]
    x: Float[np.ndarray, " some"]
    y: Float[np.ndarray, " others"]

    def with_mass(self) -> "TwoHistograms":
        """The same without positions that have no mass.

        >>> two_histograms("transport-plan", [0, 3], [2, 2], 40).with_mass().x.tolist()
        [1.0]
        """
        some, others = self.a > 0, self.b > 0
        return TwoHistograms(self.a[some], self.b[others], self.x[some], self.y[others])


def two_histograms(where: str, of: Sequence[float], against: Sequence[float], n: int) -> TwoHistograms:
    """Histograms over 0, 1, 2, ..., divided by their sums; where none are given, bumps at n positions from 0 to 1.

    >>> two_histograms("transport-plan", [1, 3], [2, 2], 40).a.tolist()
    [0.25, 0.75]
    """
    if bool(of) != bool(against):
        raise ArgumentError(
            f"{where}: two histograms are needed", remedy="of=0.5,0.3,0.2 against=0.2,0.2,0.6"
        )
    if not of:
        at = np.linspace(0, 1, n)
        one = np.exp(-((at - 0.25) ** 2) / 0.01) + 0.02
        two = np.exp(-((at - 0.45) ** 2) / 0.004) + 0.7 * np.exp(-((at - 0.8) ** 2) / 0.008) + 0.02
        return TwoHistograms(one / one.sum(), two / two.sum(), at, at)
    weights = [np.asarray(values, float) for values in (of, against)]
    for name, values in zip(("of", "against"), weights, strict=True):
        if not values.sum() > 0:
            raise ArgumentError(f"{where}: {name} has no mass", remedy="of=0.5,0.3,0.2 against=0.2,0.2,0.6")
    a, b = (values / values.sum() for values in weights)
    return TwoHistograms(a, b, np.arange(len(a), dtype=float), np.arange(len(b), dtype=float))


__all__ = ["TwoHistograms", "two_histograms"]
