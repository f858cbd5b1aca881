"""The Gaussian process of values by features in place of its kernel, as a model: a Bayesian linear model on them.

Hyper-parameters are learnt from a few thousand examples by the exact evidence. The weights of the features then have a
normal distribution in closed form given all examples, in time that grows with their number; none of them is kept.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.approximation import feature_map
from chainrule.kernels.features import KernelFeatures
from chainrule.kernels.gaussian_processes import GaussianProcess
from chainrule.kernels.gaussian_processes.weight_space import WeightSpaceGaussianProcess, predicted
from chainrule.kernels.wide import Wide, WideTriangle
from chainrule.models.kernel import feature_maps, keeping
from chainrule.models.kernel.approximating import USUAL
from chainrule.models.kernel.gp import pictures
from chainrule.models.kernel.gp.function import GPFunction, searched
from chainrule.models.kernel.gp.settings import MOST, GPConfig, kernel_from
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import Metrics, output_count


@final
class FeatureGPRegressor(GPFunction):
    """Values that are a smooth function of the examples, under noise, by features with normal weights."""

    kernel: Kernel
    log_noise: Float[Array, ""]
    features: KernelFeatures
    weights: Wide
    """The mean of the weights of the features, for every output."""
    lower: WideTriangle
    """The factor of their precision."""
    done: Bool[Array, ""]
    config: GPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GPConfig, schema: Schema, key: Key) -> None:
        self.kernel = kernel_from(config, schema.dimensions)
        self.log_noise = jnp.log(jnp.asarray(config.noise))
        self.features = feature_maps.blank(
            config.approximate, self.kernel, schema.dimensions, count_of(config), key
        )
        count = self.features.count
        self.weights = Wide.of(np.zeros((count, output_count(schema))), jnp.float32)
        self.lower = WideTriangle(jnp.eye(count), jnp.zeros(count))
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def learnt_from(self) -> int | None:
        """All."""
        return None

    def known(
        self, data: Data
    ) -> tuple[Float[np.ndarray, "points features"], Float[np.ndarray, "points outputs"]]:
        """Those that hyper-parameters are learnt from."""
        batch = data.train.batch(keeping.spread(len(data.train), MOST))
        x, y = (rows(part).astype(np.float32) for part in (batch.x, batch.y))
        return x, y

    def mean(self, x: Array) -> Float[Array, "batch outputs"]:
        """The mean of every output."""
        return feature_maps.weighted(self.features, self.weights, x.reshape(len(x), -1))

    def latent(self, x: Array) -> tuple[Float[Array, "batch outputs"], Float[Array, " batch"]]:
        """Mean and variance of the function, the latter by the factor."""
        mean, variance = self.exactly(_latent, x)
        return mean, variance

    def learnt(
        self, x: Float[np.ndarray, "points features"], y: Float[np.ndarray, "points outputs"], key: Key
    ) -> tuple["FeatureGPRegressor", Metrics]:
        """Hyper-parameters from some examples, then the weights of the features from all."""
        for_starts, for_features = jax.random.split(key)
        kernel, noise = self.kernel, jnp.exp(self.log_noise)
        if self.config.learn:
            some = keeping.spread(len(x), MOST)
            fitted = GaussianProcess(kernel, noise).fit(x[some], y[some], warn=False)
            found = searched(fitted, self.config, for_starts).process
            kernel, noise = found.kernel, found.noise
        kernel, noise = jax.tree.map(lambda a: np.asarray(a, np.float32), (kernel, noise))
        process = WeightSpaceGaussianProcess(
            kernel, noise, approximate=self.config.approximate, count=self.features.count
        )
        # Features are rounded as the model keeps them before their weights are found, so that all belongs together.
        features = feature_maps.held(
            feature_map(kernel, x, self.config.approximate, self.features.count, for_features)
        )
        posterior = process.fit(x, y, features=features)
        new = eqx.tree_at(
            lambda m: (m.kernel, m.log_noise, m.features, m.weights, m.lower),
            self,
            (
                jax.tree.map(jnp.asarray, kernel),
                jnp.log(jnp.asarray(noise)),
                features,
                Wide.of(posterior.weights, jnp.float32),
                WideTriangle.of(np.asarray(posterior.lower), jnp.float32),
            ),
        )
        metrics = {"loss": -posterior.log_marginal_likelihood / len(x), "noise": float(noise)}
        return new, {name: jnp.asarray(value) for name, value in metrics.items()}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Bands over what is known, scales of the columns, evidence around what was learnt."""
        del key
        return pictures.all_of(self, data)


def count_of(config: GPConfig) -> int:
    """How many features there are."""
    return USUAL if config.features == "auto" else config.features


def _latent(
    model: FeatureGPRegressor, x: Array
) -> tuple[Float[Array, "batch outputs"], Float[Array, " batch"]]:
    """Mean and variance of the function, by a model in double precision."""
    flat = x.reshape(len(x), -1)
    psi = jnp.asarray(model.features(flat))
    mean, variance = predicted(model.kernel, psi, model.lower.double(), model.weights.double(), flat)
    return mean, jnp.where(model.done, variance, model.kernel.diagonal(flat))


__all__ = ["FeatureGPRegressor"]
