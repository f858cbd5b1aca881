"""Features in place of a kernel, as parts of models: arrays of single precision that settings tell the shapes of.

A model is built before its features are known: `blank` has room for them, `held` puts in those that a machine drew from
the spectrum of the kernel or found among the examples.
"""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key
from chainrule.kernels import Kernel
from chainrule.kernels.approximation import fourier_features
from chainrule.kernels.features import Features, KernelFeatures, Rows
from chainrule.kernels.nystrom import Nystrom
from chainrule.kernels.wide import Wide, WideTriangle, doubled


@final
class LandmarkFeatures(KernelFeatures):
    """Nyström's features in arrays of single precision, as good as double precision: `L^-1 k(Z, x)`."""

    kernel: Kernel
    landmarks: Float[Array, "count size"]
    lower: WideTriangle
    """The factor of the matrix of the landmarks."""

    @property
    def count(self) -> int:
        return len(self.landmarks)

    def __call__(self, x: Rows) -> Features:
        found: Array = doubled(_whitened, self, jnp.asarray(x), dtype=self.landmarks.dtype)
        return found


def _whitened(features: LandmarkFeatures, x: Array) -> Float[Array, "batch count"]:
    """By features in double precision."""
    across = features.kernel.tile(features.landmarks, x)
    return jax.scipy.linalg.solve_triangular(features.lower.double(), across, lower=True).T


def blank(approximate: str, kernel: Kernel, size: int, count: int, key: Key) -> KernelFeatures:
    """So many features of examples of this size, as they are before training."""
    if approximate == "rff":
        return fourier_features(kernel, size, count, key)
    return LandmarkFeatures(kernel, jnp.zeros((count, size)), WideTriangle(jnp.eye(count), jnp.zeros(count)))


def held(found: KernelFeatures) -> KernelFeatures:
    """Features that a machine found, as a model keeps them."""
    if isinstance(found, Nystrom):
        return LandmarkFeatures(
            jax.tree.map(_single, found.kernel),
            jnp.asarray(found.landmarks, jnp.float32),
            WideTriangle.of(np.asarray(found.lower), jnp.float32),
        )
    kept: KernelFeatures = jax.tree.map(_single, found)
    return kept


def _single(leaf: Any) -> Array:
    return jnp.asarray(leaf, jnp.float32)


def weighted(features: KernelFeatures, weights: Wide, x: Rows) -> Float[Array, "batch outputs"]:
    """The sums of features with these weights, computed in double precision."""
    dtype = jnp.promote_types(weights.high.dtype, jnp.float32)
    found: Array = doubled(_weighted, features, weights, x, dtype=dtype)
    return found


def _weighted(features: KernelFeatures, weights: Wide, x: Array) -> Float[Array, "batch outputs"]:
    return jnp.matmul(jnp.asarray(features(x)), weights.double(), precision="highest")


__all__ = ["LandmarkFeatures", "blank", "held", "weighted"]
