"""Principal components in the space of features: PCA with curved axes, from the Gram matrix alone.

The Gram matrix is centred, which centres the features, and decomposed: the coordinates of training points along an
axis are its eigenvector times the root of its eigenvalue. New points are centred with the means of the training
points, never with their own. A point whose features lie near given coordinates, a pre-image, need not exist:
`pre_images.py` looks for the best one.

Reference: Schölkopf, Smola and Müller, Nonlinear component analysis as a kernel eigenvalue problem, 1998.
"""

from dataclasses import dataclass
from typing import Any, final, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.kernels import pre_images
from chainrule.kernels.approximation import Approximate
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.kernel import Kernel, a_kernel
from chainrule.kernels.positive import not_positive
from chainrule.kernels.precision import in_double
from chainrule.kernels.regression import features_of
from chainrule.kernels.trick import centred
from chainrule.probability.linear import principal_components

_NOTHING = 1e-10
"""Variances below this share of the largest are rounding."""


@final
class KernelProjection(pre_images.Projection):
    """From points to coordinates by a kernel, as arrays: it is called inside compiled code, in any precision."""

    kernel: Kernel
    points: Float[Array | np.ndarray, "rows features"]
    axes: Float[Array | np.ndarray, "rows components"]
    """Weights of the features of the training points; those of one axis sum to zero, and its length is one."""
    means: Float[Array | np.ndarray, " rows"]
    """Mean kernel of every training point with all of them."""

    def __call__(self, x: Float[Array, "new features"]) -> Float[Array, "new components"]:
        """Coordinates along the axes; what weights that sum to zero leave out of the centring is left out here."""
        return (self.kernel.tile(x, jnp.asarray(self.points)) - self.means[None, :]) @ self.axes

    def gap(self, x: Float[Array, "new features"], z: Float[Array, "new components"]) -> Float[Array, " new"]:
        """`|phi(x) - p|²` without what does not depend on x, where p has the coordinates z and the mean elsewhere."""
        weights = z @ self.axes.T + 1 / len(self.points)
        return self.kernel.diagonal(x) - 2 * (self.kernel.tile(x, jnp.asarray(self.points)) * weights).sum(
            axis=1
        )


@final
class FeatureProjection(pre_images.Projection):
    """From points to coordinates by features that stand for a kernel."""

    features: Any
    mean: Float[Array | np.ndarray, " count"]
    axes: Float[Array | np.ndarray, "count components"]

    def __call__(self, x: Float[Array, "new features"]) -> Float[Array, "new components"]:
        """Coordinates along the axes."""
        return (self.features(x) - self.mean[None, :]) @ self.axes

    def gap(self, x: Float[Array, "new features"], z: Float[Array, "new components"]) -> Float[Array, " new"]:
        """The squared distance of the features from those with the coordinates z."""
        return jnp.square(self.features(x) - self.mean[None, :] - z @ self.axes.T).sum(axis=1)


@final
@dataclass(frozen=True)
class FittedComponents:
    """What kernel PCA found."""

    projection: pre_images.Projection
    points: Float[np.ndarray, "rows features"]
    codes: Float[np.ndarray, "rows components"]
    """Coordinates of the training points."""
    variances: Float[np.ndarray, " axes"]
    """Variance along every axis there is, largest first; those that are kept come first."""

    @property
    def explained(self) -> Float[np.ndarray, " axes"]:
        """Share of the variance of the features along each axis."""
        share: np.ndarray = self.variances / self.variances.sum()
        return share

    def transform(self, x: Any) -> Float[np.ndarray, "new components"]:
        """Coordinates of new points, centred with the training means."""
        new = checked_points("transform", "x", x, self.points.shape[1])
        found: np.ndarray = _projected(self.projection, new)
        return found

    def pre_image(
        self,
        z: Any,
        method: str = "gradient",
        *,
        ridge: float | None = None,
        steps: int = 200,
    ) -> Float[np.ndarray, "new features"]:
        """Points whose features come close to these coordinates.

        `gradient` descends from the training point with the nearest coordinates, for any differentiable kernel, and
        no step goes up. `ridge` learns points as a function of coordinates from the training points, with an RBF
        kernel of their median distance and a ridge that is chosen by leaving one out unless it is given.
        """
        codes = np.asarray(z, np.float64)
        if codes.ndim != 2 or codes.shape[1] != self.codes.shape[1]:
            raise ArgumentError(
                f"pre_image(z): coordinates of shape {codes.shape}; [points, {self.codes.shape[1]}] is needed"
            )
        check_choice("pre_image", "method", method, ("gradient", "ridge"))
        if method == "gradient":
            steps = whole("pre_image", "steps", steps)
            found: np.ndarray = pre_images.descended(self.projection, codes, self.points, self.codes, steps)
            return found
        return pre_images.learnt(self.points, self.codes, ridge)(codes)


@final
@dataclass(frozen=True)
class KernelPCA:
    """Principal components of the features of a kernel.

    `approximate` takes random Fourier features or Nyström landmarks in place of the kernel, `count` of them.

    >>> from chainrule.kernels import Linear
    >>> found = KernelPCA(Linear(), 1).fit([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> np.abs(found.codes[:, 0]).round(6).tolist(), found.explained.round(6).tolist()
    ([1.414214, 0.0, 1.414214], [1.0, 0.0, 0.0])
    """

    kernel: Kernel
    components: int = 2
    approximate: str = "none"
    count: int = 1024
    key: Key | None = None

    def __post_init__(self) -> None:
        a_kernel("KernelPCA", self.kernel)
        whole("KernelPCA", "components", self.components)
        check_choice("KernelPCA", "approximate", self.approximate, get_args(Approximate))

    def fit(self, x: Any) -> FittedComponents:
        """Decompose the centred Gram matrix of these points."""
        x = checked_points("KernelPCA.fit", "x", x)
        rows = len(x)
        if rows < 2:
            raise ArgumentError(f"KernelPCA.fit(x): {rows} points have no variance; give two or more")
        if self.approximate != "none":
            return self._fit_features(x)
        axes, codes, variances, means, least = _decomposed(self.kernel, x, min(self.components, rows))
        if least < -1e-6 * max(float(variances[0]) * rows, 1e-300):
            raise not_positive(self.kernel.gram(x), "K")
        self._check_rank(variances, rows)
        return FittedComponents(KernelProjection(self.kernel, x, axes, means), x, codes, variances)

    def _fit_features(self, x: Any) -> FittedComponents:
        features, rows = features_of(self.kernel, x, self.approximate, self.count, self.key)
        found = principal_components(rows)
        self._check_rank(found.variances, len(rows))
        projection = FeatureProjection(features, found.mean, found.axes[: self.components].T)
        return FittedComponents(projection, x, found.transform(rows)[:, : self.components], found.variances)

    def _check_rank(self, variances: np.ndarray, rows: int) -> None:
        rank = int((variances > _NOTHING * variances[0]).sum()) if variances[0] > 0 else 0
        if self.components > rank:
            raise ArgumentError(
                f"KernelPCA(components={self.components}): the features of {rows} points vary along {rank} axes",
                remedy=f"use components={rank} or less"
                if rank
                else "points that are all alike have no components; check how they were read",
            )


@in_double
@eqx.filter_jit
def _decomposed(kernel: Kernel, x: Any, components: int) -> Any:
    """Axes, codes, variances, mean kernels, the smallest eigenvalue."""
    matrix = kernel.gram(x)
    values, vectors = jnp.linalg.eigh(centred(matrix))
    least, values, vectors = values[0], jnp.maximum(values[::-1], 0.0), vectors[:, ::-1][:, :components]
    # The sign of an eigenvector is anyone's: the largest entry is made positive.
    largest = jnp.take_along_axis(vectors, jnp.abs(vectors).argmax(axis=0)[None, :], axis=0)
    vectors = vectors * jnp.where(largest < 0, -1.0, 1.0)
    roots = jnp.sqrt(values[:components])
    axes = vectors / jnp.where(roots > 0, roots, 1.0)[None, :]
    axes = axes - axes.mean(axis=0, keepdims=True)
    return axes, vectors * roots[None, :], values / len(x), matrix.mean(axis=0), least


@in_double
def _projected(projection: pre_images.Projection, x: Array) -> Any:
    return pre_images.in_parts(projection, jnp.asarray(x))


__all__ = ["FeatureProjection", "FittedComponents", "KernelPCA", "KernelProjection"]
