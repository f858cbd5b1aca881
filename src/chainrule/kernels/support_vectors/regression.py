"""Support vector regression: a function as flat as can be within a tube around the values.

Errors up to `epsilon` cost nothing and further ones C for every unit, so that examples inside of the tube drop out and
outliers pull with a bounded force.

References: Drucker, Burges, Kaufman, Smola and Vapnik, Support vector regression machines, 1997; Smola and Schölkopf, A
tutorial on support vector regression, 2004.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.kernels.data_checks import checked_targets
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.support_vectors.basis import basis, check_basis, sums_at
from chainrule.kernels.support_vectors.inputs import checked_weights, learnt_from, positive_number
from chainrule.kernels.support_vectors.optimum import DualOptimum, Limits
from chainrule.kernels.support_vectors.problem import posed


@final
@dataclass(frozen=True)
class FittedRegressor:
    """What support vector regression learnt."""

    kernel: Kernel
    support: Int[np.ndarray, " support"]
    """The support vectors, by number of training row: those on the edge of the tube or outside of it."""
    points: Float[np.ndarray, "support features"]
    coefficients: Float[np.ndarray, " support"]
    intercept: float
    optimum: DualOptimum

    def predict(self, x: Any = None, *, gram: Any = None) -> Float[np.ndarray, " new"]:
        """Values of new rows, or by `gram`, their kernels with all training rows."""
        return sums_at(self, self.coefficients[:, None], x, gram)[:, 0] + self.intercept

    @property
    def rows(self) -> int:
        """How many examples it was learnt from."""
        return len(self.optimum.coefficients)


@final
@dataclass(frozen=True)
class SupportVectorRegressor:
    """Regression with a tube in which errors cost nothing.

    >>> machine = SupportVectorRegressor(epsilon=0.5).fit([[0.0], [1.0], [2.0]], [1.0, 1.2, 1.1])
    >>> len(machine.support), machine.predict([[5.0]]).round(6).tolist()
    (0, [1.1])
    """

    kernel: Kernel | None = None
    """RBF with `gamma = 1 / (D var(x))` unless given."""
    C: float = 1.0
    """The price of a unit outside of the tube."""
    epsilon: float = 0.1
    """Half the width of the tube."""
    tolerance: float = 1e-3
    """Of the duality gap, as a share of the objective, and of violations, in standard deviations of the values."""
    memory: int = 2**28
    """Bytes for rows of the Gram matrix."""
    steps: int = 10_000
    approximate: str = "none"
    """Features in place of the kernel: `rff`, random Fourier features, or `nystrom`, landmarks."""
    count: int = 1024
    """How many features."""
    key: Key | None = None
    """Of features that are drawn."""

    def __post_init__(self) -> None:
        where = "SupportVectorRegressor"
        check_basis(where, self.approximate, self.count)
        positive_number(where, "C", self.C, "it is the price of a unit outside of the tube")
        if not isinstance(self.epsilon, int | float | np.number) or not 0 <= self.epsilon < np.inf:
            raise ArgumentError(f"{where}(epsilon={self.epsilon!r}): epsilon must be at least 0 and finite")
        Limits(self.tolerance, self.memory, self.steps)

    def fit(self, x: Any, y: Any, weights: Any = None) -> FittedRegressor:
        """Learn from rows and their values; rows may have weights."""
        rows, kernel = learnt_from("fit", x, self.kernel)
        values = checked_targets("fit", "y", y, len(rows))
        if values.ndim != 1:
            raise ArgumentError(
                f"fit(y): support vector regression predicts one value of a row, not {values.shape[1]}",
                remedy="fit one machine for each: y[:, 0], y[:, 1], ...",
            )
        bound = self.C * checked_weights("fit", weights, len(rows))
        problem = posed(-values, -bound, bound, width=float(self.epsilon))
        limits = Limits(self.tolerance, self.memory, self.steps)
        unit = max(float(values.std()), 1e-12)
        ground = basis(kernel, rows, self.approximate, self.count, self.key)
        found = ground.optimum(problem, np.zeros(len(rows)), limits, unit=unit)
        support = np.flatnonzero(found.coefficients)
        return FittedRegressor(
            ground.kernel,
            support,
            rows[support],
            found.coefficients[support],
            -float(found.thresholds[0]),
            found,
        )


__all__ = ["FittedRegressor", "SupportVectorRegressor"]
