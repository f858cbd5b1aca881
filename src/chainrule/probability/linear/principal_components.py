"""Principal component analysis: the subspace that loses least, in double precision on the host.

Variances are those of the maximum-likelihood covariance, divided by the number of rows M and not by M - 1; directions
are the same either way. Axes come in falling order of variance, each with the sign that makes its largest entry
positive.

References: Pearson, On lines and planes of closest fit, 1901; Halko, Martinsson and Tropp, Finding structure with
randomness, SIAM Review 2011 (the randomised method); Ross et al., Incremental learning for robust visual tracking, IJCV
2008 (further rows).
"""

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, check_choice

Method = Literal["auto", "covariance", "svd", "randomised"]
METHODS: tuple[Method, ...] = ("auto", "covariance", "svd", "randomised")
_WIDE = 2000
"""Features up to which a covariance matrix is made."""
_AT_ONCE = 4096
"""Rows that are centred at a time, so that they stay in the processor's cache."""
_NOTHING = 1e-13
"""Share of all variance below which there is none along an axis, but rounding."""
_OVERSAMPLING = 10
_POWERS = 4

Rows = Float[np.ndarray, "rows features"]


@final
@dataclass(frozen=True)
class PrincipalComponents:
    """Mean, axes and variances of data; `transform` gives codes, `inverse` rows."""

    mean: Float[np.ndarray, " features"]
    axes: Float[np.ndarray, "components features"]
    """Orthonormal rows, by falling variance."""
    variances: Float[np.ndarray, " components"]
    """Along the axes, divided by the number of rows."""
    total: float
    """Variance of all features together."""
    rows: int

    @property
    def explained(self) -> Float[np.ndarray, " components"]:
        """Share of the variance along each axis."""
        return self.variances / self.total if self.total > 0 else np.zeros_like(self.variances)

    @property
    def error(self) -> float:
        """Mean squared length of what the axes leave out: the sum of the variances that were not kept."""
        return max(self.total - float(self.variances.sum()), 0.0)

    @property
    def rank(self) -> int:
        """Along how many of the axes there is any variance, but rounding."""
        return int((self.variances > _NOTHING * self.total).sum())

    def transform(self, x: Rows, *, whiten: bool = False) -> Float[np.ndarray, "rows components"]:
        """Coordinates along the axes; whitened, each with variance one.

        >>> found = principal_components(np.array([[0.0, 0.0], [2.0, 2.0]]), 1)
        >>> found.transform(np.array([[2.0, 2.0]])).round(4).tolist()
        [[1.4142]]
        """
        codes = (np.asarray(x, np.float64) - self.mean[None]) @ self.axes.T
        return codes / self._scales()[None] if whiten else codes

    def inverse(self, z: Float[np.ndarray, "rows components"], *, whiten: bool = False) -> Rows:
        """The point of the subspace that has these coordinates."""
        codes = np.asarray(z, np.float64)
        return (codes * self._scales()[None] if whiten else codes) @ self.axes + self.mean[None]

    def updated(self, x: Rows) -> "PrincipalComponents":
        """With further rows taken into account, keeping as many axes; exact while these hold all of the variance."""
        new = _checked(x)
        _check_finite(new)
        if new.shape[1] != len(self.mean):
            raise ArgumentError(
                f"updated: rows of {new.shape[1]} features do not fit {len(self.mean)} of those seen before"
            )
        rows = self.rows + len(new)
        mean = (self.rows * self.mean + new.sum(axis=0)) / rows
        apart = np.sqrt(self.rows * len(new) / rows) * (self.mean - new.mean(axis=0))
        old = np.sqrt(self.rows * self.variances)[:, None] * self.axes
        _, sizes, axes = np.linalg.svd(
            np.concatenate([old, new - new.mean(axis=0)[None], apart[None]]), full_matrices=False
        )
        kept = len(self.variances)
        within = np.square(new - new.mean(axis=0)[None]).sum() + np.square(apart).sum()
        total = (self.rows * self.total + within) / rows
        return PrincipalComponents(mean, _signed(axes[:kept]), np.square(sizes[:kept]) / rows, total, rows)

    def _scales(self) -> Float[np.ndarray, " components"]:
        if self.rank < len(self.variances):
            raise ArgumentError(
                f"whiten: component {self.rank + 1} has no variance to divide by",
                remedy=f"keep {self.rank} components",
            )
        return np.sqrt(self.variances)


def principal_components(
    x: Any, k: int | None = None, *, method: Method = "auto", seed: int = 0
) -> PrincipalComponents:
    """The k axes of largest variance (default: all there are).

    `covariance` takes the eigenvectors of X^T X / M, `svd` the singular vectors of X, which keeps twice the digits of
    small variances; `randomised` finds a few axes of large matrices, decided by `seed`. `auto` chooses by shape.

    >>> principal_components(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.5], [0.0, -0.5]])).variances.tolist()
    [0.5, 0.125]
    """
    check_choice("principal_components", "method", method, METHODS)
    rows = _checked(x)
    most = min(rows.shape)
    kept = most if k is None else k
    if not 1 <= kept <= most:
        raise ArgumentError(
            f"principal_components(k={k}): {rows.shape[0]} rows of {rows.shape[1]} features have from 1 to {most} "
            "components",
            remedy=f"use k={min(max(kept, 1), most)}",
        )
    if method == "auto":
        method = _chosen(rows.shape, kept)
    if method == "covariance":
        mean, covariance = _moments(rows)
        total = float(covariance.trace())
        values, vectors = np.linalg.eigh(covariance)
        variances, axes = np.maximum(values[::-1], 0.0), vectors.T[::-1]  # they come in rising order
    else:
        _check_finite(rows)
        mean = rows.mean(axis=0)
        centred = rows - mean[None]
        total = float(np.square(centred).sum() / len(rows))
        found = _randomised(centred, kept, seed) if method == "randomised" else centred
        _, sizes, axes = np.linalg.svd(found, full_matrices=False)
        variances = np.square(sizes) / len(rows)
    return PrincipalComponents(mean, _signed(axes[:kept]), variances[:kept], total, len(rows))


def principal_angles(
    a: Float[np.ndarray, "one features"], b: Float[np.ndarray, "other features"]
) -> Float[np.ndarray, " least"]:
    """Angles between the spans of two sets of rows, in radians, smallest first; all zero for equal subspaces.

    >>> principal_angles(np.array([[1.0, 0.0]]), np.array([[1.0, 1.0]])).round(4).tolist()
    [0.7854]
    """
    bases = [np.linalg.qr(np.asarray(rows, np.float64).T)[0] for rows in (a, b)]
    cosines = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    # Near zero a cosine has lost half its digits: what is left beside the other subspace has them.
    beside = np.linalg.svd(bases[1] - bases[0] @ (bases[0].T @ bases[1]), compute_uv=False)[::-1]
    sines = beside[-len(cosines) :] if len(beside) >= len(cosines) else np.zeros_like(cosines)
    return np.where(cosines > 0.7, np.arcsin(np.clip(sines, 0, 1)), np.arccos(np.clip(cosines, -1, 1)))


def _chosen(shape: tuple[int, ...], kept: int) -> Method:
    rows, features = shape
    if features <= _WIDE and rows >= features:
        return "covariance"
    return "randomised" if kept + _OVERSAMPLING < min(shape) // 5 else "svd"


def _moments(rows: Rows) -> tuple[Float[np.ndarray, " features"], Float[np.ndarray, "features features"]]:
    """Mean and covariance in one pass and without a copy of the data.

    Sums are taken about the mean of the first rows, which is near enough to that of all for no digits to be lost where
    both are far from zero (Chan, Golub and LeVeque, Algorithms for computing the sample variance, 1983).
    """
    products, sums = np.zeros((rows.shape[1],) * 2), np.zeros(rows.shape[1])
    room, ones = np.empty((min(_AT_ONCE, len(rows)), rows.shape[1])), np.ones(_AT_ONCE)
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found in the sums
        shift = rows[:_AT_ONCE].mean(axis=0)
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            part = np.subtract(some, shift[None], out=room[: len(some)])
            products += part.T @ part
            sums += ones[: len(part)] @ part
    if not np.isfinite(products).all():
        _check_finite(rows)
    apart = sums / len(rows)
    return shift + apart, products / len(rows) - apart[:, None] * apart[None, :]


def _randomised(centred: Rows, kept: int, seed: int) -> Float[np.ndarray, "few features"]:
    """A small matrix with the largest singular values and right vectors of a large one."""
    size = min(kept + _OVERSAMPLING, *centred.shape)
    basis = centred @ np.random.default_rng(seed).normal(size=(centred.shape[1], size))
    for _ in range(_POWERS):
        basis = centred @ (centred.T @ np.linalg.qr(basis)[0])
    return np.linalg.qr(basis)[0].T @ centred


def _signed(axes: Float[np.ndarray, "components features"]) -> Float[np.ndarray, "components features"]:
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1)[:, None], axis=1)
    return np.where(largest < 0, -axes, axes)


def _checked(x: Any) -> Rows:
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ArgumentError(f"x: needs rows of features, not an array of shape {rows.shape}")
    return rows


def _check_finite(rows: Rows) -> None:
    if not np.isfinite(rows).all():
        row, feature = np.argwhere(~np.isfinite(rows))[0]
        raise ArgumentError(
            f"x[{row}, {feature}] is {rows[row, feature]}",
            remedy="remove or fill in what is missing; fit_factors(x, k) takes NaN for missing values",
        )


__all__ = ["METHODS", "Method", "PrincipalComponents", "principal_angles", "principal_components"]
