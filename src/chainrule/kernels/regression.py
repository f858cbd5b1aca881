"""Kernel ridge regression: the function of least norm that passes near the values, in closed form.

`f(x) = sum_i a_i k(x_i, x)` with `a = (K + ridge I)^-1 y` minimises the sum of squared errors plus the ridge times the
squared norm of f; it is also the mean of a Gaussian process whose noise has the ridge as its variance. What f would
have said of an example without having seen it is known without another fit: the residual is `a_i / [(K + ridge
I)^-1]_ii`. One eigendecomposition therefore judges all ridges, and by default the best of them is taken. Of many
thousand rows it would take ten times as long as a factorisation: there, the ridges around the best one of some of the
rows are judged one by one until no neighbour is better.

References: Saunders, Gammerman and Vovk, Ridge regression learning algorithm in dual variables, 1998; Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, section 5.4.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core import random
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.kernels import host
from chainrule.kernels.approximation import Approximate, feature_map
from chainrule.kernels.data_checks import (
    checked_cross_gram,
    checked_points,
    checked_targets,
    one_of_two,
    refuse_contradictions,
)
from chainrule.kernels.kernel import Kernel, a_kernel
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double, widened
from chainrule.probability.distributions.parameters import floating, require

RIDGES = tuple(float(r) for r in np.logspace(-10, 3, 53))
"""Ridges that are tried by default, in units of the mean of the diagonal of the Gram matrix: four to a decade."""
MANY = 3000
"""Rows beyond which ridges are judged one by one."""
_STRIDES = (4, 1)
"""Ridges passed over on the way to the best one, and close to it."""


class Searched(NamedTuple):
    """How ridges did when every example was predicted from the others."""

    ridges: Float[np.ndarray, " ridges"]
    errors: Float[np.ndarray, " ridges"]
    """Mean squared residual."""

    @property
    def best(self) -> float:
        """The ridge with the least error."""
        return float(self.ridges[int(np.argmin(self.errors))])


@final
@dataclass(frozen=True)
class FittedRidge:
    """A function learnt by kernel ridge regression."""

    kernel: Kernel
    points: Float[np.ndarray, "rows features"]
    coefficients: Float[np.ndarray, "rows *outputs"]
    ridge: float
    jitter: float
    """What rounding needed on the diagonal beyond the ridge."""
    residuals: Float[np.ndarray, "rows *outputs"]
    """Values less what the others predict of them."""
    searched: Searched | None
    """The ridges that were tried, where none was given."""

    def predict(self, x: Any = None, *, gram: Any = None) -> Float[np.ndarray, "new *outputs"]:
        """Values at new points; or by `gram`, their kernels with the training points, one row each."""
        one_of_two("predict", x, gram)
        if gram is not None:
            across = checked_cross_gram("predict", "gram", gram, len(self.points))
            by_gram: np.ndarray = across @ self.coefficients
            return by_gram
        new = checked_points("predict", "x", x, self.points.shape[1])
        found: np.ndarray = _values(self.kernel, new, self.points, self.coefficients)
        return found

    @property
    def norm(self) -> float:
        """The norm of the function; of several outputs, the root of the sum of squares."""
        fitted = self.predict(self.points)
        return float(np.sqrt(max(float((fitted * self.coefficients).sum()), 0.0)))


@final
@dataclass(frozen=True)
class FittedFeatures:
    """A function learnt by ridge regression on features that stand for a kernel."""

    features: Any
    """From points to the features whose inner products approximate the kernel."""
    weights: Float[np.ndarray, "count *outputs"]
    ridge: float
    residuals: Float[np.ndarray, "rows *outputs"]
    """Values less what the others predict of them."""
    searched: Searched | None
    size: int
    """How many coordinates a point has."""

    def predict(self, x: Any) -> Float[np.ndarray, "new *outputs"]:
        """Values at new points."""
        new = checked_points("predict", "x", x, self.size)
        found: np.ndarray = in_double(lambda features, x: features(x))(self.features, new) @ self.weights
        return found


@final
@dataclass(frozen=True)
class KernelRidge:
    """Ridge regression with a kernel; without a ridge, the one with the least leave-one-out error.

    A ridge of zero interpolates: the function of least norm through all values. `approximate` takes random Fourier
    features or Nyström landmarks in place of the kernel, `count` of them, so that time and memory grow with the number
    of rows and no longer with its cube and square.

    >>> from chainrule.kernels import RBF
    >>> fitted = KernelRidge(RBF(1.0), ridge=0.1).fit([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    >>> fitted.predict([0.5]).round(6)
    array([0.574548])
    >>> (np.array([0.0, 1.0, 0.0]) - fitted.residuals).round(6)  # each from the other two
    array([0.694792, 0.      , 0.694792])
    """

    kernel: Kernel
    ridge: float | None = None
    approximate: str = "none"
    count: int = 1024
    key: Key | None = None

    def __post_init__(self) -> None:
        a_kernel("KernelRidge", self.kernel)
        if self.ridge is not None:
            _ridge(self.ridge)
        check_choice("KernelRidge", "approximate", self.approximate, get_args(Approximate))

    def fit(self, x: Any, y: Any, weights: Any = None) -> FittedRidge | FittedFeatures:
        """Learn from points and values `[rows]` or `[rows, outputs]`; weights multiply squared errors."""
        x, values, counts = checked("KernelRidge.fit", x, y, weights)
        if self.ridge == 0:
            refuse_contradictions("KernelRidge.fit(ridge=0)", x, values, "use a positive ridge")
        if self.approximate != "none":
            return self._fit_features(x, values, counts, np.shape(y))
        ridge, searched = self.ridge, None
        if ridge is None and len(x) > MANY:
            searched, (coefficients, residuals, jitter) = _descended(self.kernel, x, values, counts)
            ridge = searched.best
        else:
            if ridge is None:
                searched = search_ridge(self.kernel, x, values, counts)
                ridge = searched.best
            solve = _solved if len(x) <= MANY else _solved_in_place
            coefficients, residuals, jitter = solve(self.kernel, x, values, counts, ridge)
        shape = np.shape(y)
        return FittedRidge(
            self.kernel,
            x,
            coefficients.reshape(shape),
            float(ridge),
            float(jitter),
            residuals.reshape(shape),
            searched,
        )

    def _fit_features(
        self, x: Any, values: np.ndarray, counts: np.ndarray, shape: tuple[int, ...]
    ) -> FittedFeatures:
        features, rows = features_of(self.kernel, x, self.approximate, self.count, self.key)
        errors, weights, residuals, ridges = _feature_ridge(rows, values, counts, self.ridge)
        searched = None if self.ridge is not None else Searched(ridges, errors)
        best = float(ridges[int(np.argmin(errors))])
        several = (-1, *shape[1:])
        return FittedFeatures(
            features, weights.reshape(several), best, residuals.reshape(several), searched, x.shape[1]
        )


def features_of(
    kernel: Kernel, x: Any, approximate: str, count: int, key: Key | None
) -> tuple[Any, Float[np.ndarray, "rows count"]]:
    """A map to features that stand for the kernel, and those of these points, in double precision."""
    drawn = random.key(0, "features") if key is None else key
    found = feature_map(kernel, x, approximate, count, drawn)
    return found, in_double(lambda features, x: features(x))(found, x)


def checked(where: str, x: Any, y: Any, weights: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, values as columns and weights, in double precision."""
    rows = checked_points(where, "x", x)
    values = checked_targets(where, "y", y, len(rows))
    counts = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    if counts.shape != (len(rows),) or not ((counts > 0) & np.isfinite(counts)).all():
        raise ArgumentError(
            f"{where}(weights): one positive number for each of {len(rows)} rows is needed",
            remedy="leave out rows of weight zero",
        )
    return rows, values.reshape(len(values), -1), counts


def _ridge(value: Any) -> None:
    require(
        "KernelRidge", "ridge", floating(value), lambda v: (v >= 0) & (v < np.inf), "be at least 0 and finite"
    )


@in_double
def _values(kernel: Kernel, x: Any, points: Array, coefficients: Array) -> Any:
    return kernel.gram(x, points) @ coefficients


@in_double
def _solved(kernel: Kernel, x: Any, y: Array, weights: Array, ridge: Array | float) -> Any:
    """Coefficients, leave-one-out residuals, jitter."""
    matrix = kernel.gram(x) + jnp.diag(ridge / jnp.asarray(weights))
    found = factored(matrix, "K + ridge I" if ridge else "K")
    coefficients = found.solve(y)
    # The diagonal of the inverse: squares of the columns of the inverse factor.
    inverse = jnp.square(found.whiten(jnp.eye(len(matrix)))).sum(axis=0)
    return coefficients, coefficients / inverse[:, None], found.jitter


def _solved_in_place(kernel: Kernel, x: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float) -> Any:
    """The same of many rows, where the matrix lies."""
    with jax.enable_x64(True):
        wide = widened(kernel)
        found = host.factor(
            lambda: host.lower_gram(wide, x, ridge / weights), "K + ridge I" if ridge else "K"
        )
    coefficients = found.solve(y)
    own = found.inverse_diagonal(keep=False)
    return coefficients, coefficients / own[:, None], found.jitter


def search_ridge(kernel: Kernel, x: Any, y: Any, weights: Any = None, ridges: Any = None) -> Searched:
    """The mean squared leave-one-out residual of each ridge, all from one eigendecomposition.

    Unless `ridges` are given, those of more than 3,000 rows are the few that lead to the best one.

    >>> from chainrule.kernels import Linear
    >>> search_ridge(Linear(), [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], ridges=[0.01, 1.0]).best
    0.01
    """
    rows, values, counts = checked("search_ridge", x, y, weights)
    grid = None if ridges is None else np.asarray(ridges, np.float64)
    if grid is not None and (grid.ndim != 1 or not grid.size or not (grid > 0).all()):
        raise ArgumentError("search_ridge(ridges): a list of positive numbers is needed")
    if grid is None and len(rows) > MANY:
        return _descended(kernel, rows, values, counts)[0]
    return Searched(*_searched(kernel, rows, values, counts, grid))


def _descended(
    kernel: Kernel, x: np.ndarray, y: np.ndarray, weights: np.ndarray
) -> tuple[Searched, tuple[np.ndarray, np.ndarray, float]]:
    """Ridges from the best one of some rows downhill, first in long strides; and what the best one gives."""
    few = np.sort(np.random.default_rng(0).permutation(len(x))[: MANY // 2])
    begin = int(np.argmin(Searched(*_searched(kernel, x[few], y[few], weights[few], None)).errors))
    with jax.enable_x64(True):
        matrix = host.lower_gram(widened(kernel), x)
    ridges = np.asarray(RIDGES) * np.diagonal(matrix).mean()
    found: dict[int, float] = {}
    solved: dict[int, tuple[np.ndarray, np.ndarray, float]] = {}

    def error(number: int) -> float:
        if not 0 <= number < len(ridges):
            return np.inf
        if number not in found:
            solved[number] = _with_ridge(matrix, y, weights, ridges[number])
            found[number] = float((weights[:, None] * np.square(solved[number][1])).mean())
        return found[number]

    best = begin
    for stride in _STRIDES:
        while error(near := min((best - stride, best + stride), key=error)) < error(best):
            best = near
    tried = sorted(found)
    errors = np.array([found[number] for number in tried])
    return Searched(ridges[tried], errors), solved[tried[int(np.argmin(errors))]]


def _with_ridge(
    matrix: Float[np.ndarray, "rows rows"], y: np.ndarray, weights: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Coefficients, leave-one-out residuals and jitter, from the lower half of a Gram matrix."""

    def build() -> np.ndarray:
        raised = matrix.copy(order="F")
        raised[np.diag_indices(len(raised))] += ridge / weights
        return raised

    factor = host.factor(build, "K + ridge I")
    coefficients = factor.solve(y)
    return coefficients, coefficients / factor.inverse_diagonal(keep=False)[:, None], factor.jitter


@in_double
@eqx.filter_jit
def _searched(kernel: Kernel, x: Any, y: Array, weights: Array, ridges: Array | None) -> Any:
    root = jnp.sqrt(jnp.asarray(weights))
    matrix = kernel.gram(x)
    if ridges is None:
        ridges = jnp.asarray(RIDGES) * jnp.diagonal(matrix).mean()
    eigenvalues, vectors = jnp.linalg.eigh(root[:, None] * matrix * root[None, :])
    turned = vectors.T @ (root[:, None] * y)
    inverse = 1 / (jnp.maximum(eigenvalues, 0.0)[:, None] + jnp.asarray(ridges)[None, :])
    diagonal = jnp.square(vectors) @ inverse

    def error(one: tuple[Array, Array]) -> Array:
        """The weights of squared errors and those of the matrix cancel."""
        shrunk, own = one
        return jnp.square((vectors @ (shrunk[:, None] * turned)) / own[:, None]).mean()

    return jnp.asarray(ridges), jax.lax.map(error, (inverse.T, diagonal.T))


@in_double
@eqx.filter_jit
def _feature_ridge(rows: Array, y: Array, weights: Array, ridge: float | None) -> Any:
    """Errors of the ridges, and weights and residuals of the best, from one singular value decomposition."""
    root = jnp.sqrt(jnp.asarray(weights))[:, None]
    left, strengths, right = jnp.linalg.svd(root * rows, full_matrices=False)
    squares = jnp.square(strengths)
    unit = jnp.square(rows).sum(axis=1).mean()
    ridges = jnp.asarray(RIDGES) * unit if ridge is None else jnp.asarray([ridge], rows.dtype)
    turned = left.T @ (root * y)
    tiny = jnp.finfo(rows.dtype).eps * len(rows) * squares[0]
    known = squares > tiny
    shrunk = jnp.where(known[:, None], squares[:, None] / (squares[:, None] + ridges[None, :] + 1e-300), 0.0)
    fitted = jnp.einsum("ij,jg,jo->igo", left, shrunk, turned) / root[:, :, None]
    seen = 1 - jnp.square(left) @ shrunk
    residuals = (y[:, None, :] - fitted) / jnp.maximum(seen, 1e-12)[:, :, None]
    errors = (jnp.square(root)[:, :, None] * jnp.square(residuals)).mean(axis=(0, 2))
    best = jnp.argmin(errors)
    scale = jnp.where(known, shrunk[:, best] / jnp.where(known, strengths, 1.0), 0.0)
    return errors, right.T @ (scale[:, None] * turned), residuals[:, best], ridges


__all__ = ["RIDGES", "FittedFeatures", "FittedRidge", "KernelRidge", "Searched", "search_ridge"]
