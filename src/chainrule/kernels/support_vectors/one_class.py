"""One-class support vectors: the region that holds most examples, for telling what is unusual.

In the space of features a plane separates the examples from the origin by the widest margin; `nu` is the largest share
of training examples left outside, and the least share of support vectors.

Reference: Schölkopf, Platt, Shawe-Taylor, Smola and Williamson, Estimating the support of a high-dimensional
distribution, 2001.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float, Int

from chainrule.core.types import Key
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.support_vectors.basis import basis, check_basis, sums_at
from chainrule.kernels.support_vectors.inputs import checked_share, checked_weights, learnt_from, spent
from chainrule.kernels.support_vectors.optimum import DualOptimum, Limits
from chainrule.kernels.support_vectors.problem import posed


@final
@dataclass(frozen=True)
class FittedOneClass:
    """The region that was learnt."""

    kernel: Kernel
    support: Int[np.ndarray, " support"]
    """The support vectors, by number of training row: those on the edge of the region or outside of it."""
    points: Float[np.ndarray, "support features"]
    coefficients: Float[np.ndarray, " support"]
    threshold: float
    optimum: DualOptimum

    def decision(self, x: Any = None, *, gram: Any = None) -> Float[np.ndarray, " new"]:
        """Positive inside of the region; the lower, the more unusual. `gram`: kernels with all training rows."""
        return sums_at(self, self.coefficients[:, None], x, gram)[:, 0] - self.threshold

    def predict(self, x: Any = None, *, gram: Any = None) -> Bool[np.ndarray, " new"]:
        """Whether each row lies inside of the region."""
        return self.decision(x, gram=gram) >= 0

    @property
    def rows(self) -> int:
        """How many examples it was learnt from."""
        return len(self.optimum.coefficients)


@final
@dataclass(frozen=True)
class OneClassSupportVectors:
    """The region of most examples.

    >>> machine = OneClassSupportVectors(nu=0.25).fit([[0.0], [0.1], [0.2], [5.0]])
    >>> machine.predict([[0.1], [9.0]]).tolist()
    [True, False]
    """

    kernel: Kernel | None = None
    """RBF with `gamma = 1 / (D var(x))` unless given."""
    nu: float = 0.5
    """The largest share of training examples outside of the region."""
    tolerance: float = 1e-3
    """Of the duality gap, as a share of the objective, and of violations."""
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
        check_basis("OneClassSupportVectors", self.approximate, self.count)
        checked_share("OneClassSupportVectors", self.nu)
        Limits(self.tolerance, self.memory, self.steps)

    def fit(self, x: Any, weights: Any = None) -> FittedOneClass:
        """Learn the region of these rows; rows may have weights."""
        rows, kernel = learnt_from("fit", x, self.kernel)
        bound = checked_weights("fit", weights, len(rows))
        problem = posed(np.zeros(len(rows)), np.zeros(len(rows)), bound)
        start = spent(bound, self.nu * bound.sum())
        ground = basis(kernel, rows, self.approximate, self.count, self.key)
        found = ground.optimum(problem, start, Limits(self.tolerance, self.memory, self.steps))
        support = np.flatnonzero(found.coefficients)
        return FittedOneClass(
            ground.kernel,
            support,
            rows[support],
            found.coefficients[support],
            float(found.thresholds[0]),
            found,
        )


__all__ = ["FittedOneClass", "OneClassSupportVectors"]
