"""Kernel PCA on features that stand for the kernel: it learns from every example, and keeps some for the way back."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.schema import Schema
from chainrule.kernels.features import Features, KernelFeatures
from chainrule.kernels.principal_components import FeatureProjection, FittedComponents
from chainrule.models.kernel import feature_maps, keeping
from chainrule.models.kernel.approximating import USUAL
from chainrule.models.kernel.kernel_pca.model import CurvedComponents
from chainrule.models.kernel.kernel_pca.settings import KernelPCAConfig, kernel_from
from chainrule.probability.linear import principal_components


@final
class FeaturePCAModel(CurvedComponents):
    """Principal components of random Fourier features, or of kernels with landmarks."""

    features: KernelFeatures
    mean: Float[Array, " count"]
    """Of the features."""
    axes: Float[Array, "count latent"]
    points: Float[Array, "points features"]
    codes: Float[Array, "points latent"]
    back: Float[Array, "points features"]
    middle: Float[Array, " features"]
    log_code_scale: Scalar
    done: Bool[Array, ""]
    config: KernelPCAConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: KernelPCAConfig, schema: Schema, key: Key) -> None:
        count = USUAL if config.features == "auto" else config.features
        room, entries, kernel = keeping.room(config.points), schema.dimensions, kernel_from(config)
        self.features = feature_maps.blank(config.approximate, kernel, entries, count, key)
        self.mean = jnp.zeros(count)
        self.axes = jnp.zeros((count, config.latent))
        self.points = jnp.zeros((room, entries))
        self.codes = jnp.zeros((room, config.latent))
        self.back = jnp.zeros((room, entries))
        self.middle = jnp.zeros(entries)
        self.log_code_scale = jnp.zeros(())
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def projection(self) -> FeatureProjection:
        """By the features."""
        return FeatureProjection(self.features, self.mean, self.axes)

    @property
    def learnt_from(self) -> int | None:
        """All."""
        return None

    def missed(self, x: Float[Array, "batch features"]) -> Float[Array, " batch"]:
        """The squared distance from the mean, what the features do not see of it included, less what is on the axes."""
        psi = jnp.asarray(self.features(x))
        square = kernel_from(self.config).diagonal(x) - 2 * psi @ self.mean + jnp.square(self.mean).sum()
        return square - jnp.square((psi - self.mean[None]) @ self.axes).sum(axis=1)

    def holding(self, found: FittedComponents) -> "FeaturePCAModel":
        """With the features that were drawn or chosen, their mean and the axes."""
        projection = found.projection
        assert isinstance(projection, FeatureProjection)
        arrays = tuple(jnp.asarray(a, jnp.float32) for a in (projection.mean, projection.axes))
        features = feature_maps.held(projection.features)
        return eqx.tree_at(lambda m: (m.features, m.mean, m.axes), self, (features, *arrays))

    def variances(self) -> Float[np.ndarray, " axes"]:
        """By the features of the kept examples."""
        psi = np.asarray(_features(self, self.points), np.float64)
        return principal_components(psi).variances


@eqx.filter_jit
def _features(model: FeaturePCAModel, x: Array) -> Features:
    return model.features(x)


__all__ = ["FeaturePCAModel"]
