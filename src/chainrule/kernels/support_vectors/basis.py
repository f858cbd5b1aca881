"""What a support vector machine stands on: a kernel of its examples, or features in place of it.

The problems are the same. On a kernel they are solved by working sets of its rows; on features by an interior-point
method, in time that grows with the number of examples. Either way the machine is known by its support vectors, the
kernel of features being their inner product.
"""

from dataclasses import dataclass
from typing import Any, Protocol, final, get_args, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Key
from chainrule.kernels.approximation import Approximate
from chainrule.kernels.data_checks import checked_cross_gram, checked_points, one_of_two
from chainrule.kernels.features import KernelFeatures
from chainrule.kernels.functions import Composed, Linear
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.precision import in_double
from chainrule.kernels.regression import features_of
from chainrule.kernels.support_vectors.interior import feature_optimum
from chainrule.kernels.support_vectors.optimum import DualOptimum, Limits, kernel_sums, optimum
from chainrule.kernels.support_vectors.problem import DualProblem


@final
@dataclass(frozen=True)
class Basis:
    """A kernel, the examples, and their features where they stand for the kernel."""

    kernel: Kernel
    x: Float[np.ndarray, "rows columns"]
    features: Float[np.ndarray, "rows features"] | None = None

    def optimum(
        self,
        problem: DualProblem,
        start: Float[np.ndarray, " own"],
        limits: Limits,
        *,
        own: Int[np.ndarray, " own"] | None = None,
        groups: int = 1,
        unit: float = 1.0,
        size: int | None = None,
    ) -> DualOptimum:
        """The optimum of a problem about some of the examples, or about all; `size` is what to fill kernels up to."""
        some: Any = slice(None) if own is None else own
        if self.features is None:
            return optimum(
                self.kernel, self.x[some], problem, start, limits, groups=groups, unit=unit, size=size
            )
        return feature_optimum(self.features[some], problem, start, limits, groups=groups, unit=unit)


def check_basis(where: str, approximate: str, count: int) -> None:
    """Raise unless this is one of the ways to stand for a kernel, by a whole number of features."""
    check_choice(where, "approximate", approximate, get_args(Approximate))
    whole(where, "count", count)


def basis(
    kernel: Kernel, x: Float[np.ndarray, "rows columns"], approximate: str, count: int, key: Key | None
) -> Basis:
    """The kernel itself, or so many features in place of it.

    >>> from chainrule.kernels import RBF
    >>> basis(RBF(1.0), np.zeros((3, 1)), "rff", 4, None).features.shape
    (3, 4)
    """
    if approximate == "none":
        return Basis(kernel, x)
    found, features = features_of(kernel, x, approximate, count, key)
    return Basis(Composed(Linear(), found), x, features)


@runtime_checkable
class SupportMachine(Protocol):
    """What every fitted machine says of its support vectors."""

    @property
    def kernel(self) -> Kernel:
        """The kernel, or that of features in its place."""

    @property
    def support(self) -> Int[np.ndarray, " support"]:
        """Support vectors, by number of training row."""

    @property
    def points(self) -> Float[np.ndarray, "support features"]:
        """The support vectors themselves."""

    @property
    def rows(self) -> int:
        """How many examples were learnt from."""


def feature_weights(
    kernel: Kernel,
    points: Float[np.ndarray, "points columns"],
    coefficients: Float[np.ndarray, "points sums"],
) -> tuple[KernelFeatures, Float[np.ndarray, "features sums"]] | None:
    """The features that a kernel is the inner product of, and their weights by those of points; of others none."""
    if not isinstance(kernel, Composed) or not isinstance(kernel.map, KernelFeatures):
        return None
    return kernel.map, _features(kernel.map, points).T @ coefficients


def weighted_sums(
    kernel: Kernel,
    x: Float[np.ndarray, "rows columns"],
    points: Float[np.ndarray, "points columns"],
    coefficients: Float[np.ndarray, "points sums"],
) -> Float[np.ndarray, "rows sums"]:
    """`sum_j k(x_i, points_j) c_j` in double precision: by blocks of kernels, or by the weights of features."""
    linear = feature_weights(kernel, points, coefficients)
    if linear is None:
        return kernel_sums(kernel, x, points, coefficients)
    return _features(linear[0], x) @ linear[1]


def sums_at(
    machine: "SupportMachine",
    coefficients: Float[np.ndarray, "points sums"],
    x: Any,
    gram: Any,
) -> Float[np.ndarray, "new sums"]:
    """Sums over the support vectors for new points, or for their kernels with all training points."""
    one_of_two("predict", x, gram)
    if gram is None:
        rows = checked_points("predict", "x", x, machine.points.shape[1])
        return weighted_sums(machine.kernel, rows, machine.points, coefficients)
    if feature_weights(machine.kernel, machine.points, coefficients) is not None:
        raise ArgumentError(
            "predict(gram): this machine stands on features in place of the kernel",
            remedy="give the new points: predict(x)",
        )
    found: np.ndarray = checked_cross_gram("predict", "gram", gram, machine.rows)[:, machine.support]
    return found @ coefficients


@in_double
def _features(features: KernelFeatures, x: Any) -> Any:
    return features(x)


__all__ = ["Basis", "SupportMachine", "basis", "check_basis", "feature_weights", "sums_at", "weighted_sums"]
