"""The exact Gaussian process of values as a model.

The model keeps the training examples, the factor of their kernel matrix and a weight for each, in numbers that are as
good as double precision.
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
from chainrule.kernels.gaussian_processes import GaussianProcess, GaussianProcessPosterior
from chainrule.kernels.wide import Wide, WideTriangle
from chainrule.models.kernel import keeping
from chainrule.models.kernel.gp import pictures
from chainrule.models.kernel.gp.function import KeepsExamples, searched
from chainrule.models.kernel.gp.settings import GPConfig, kernel_from
from chainrule.models.protocol import Metrics, output_count


@final
class GPRegressor(KeepsExamples):
    """Values that are a smooth function of the examples, under noise, by the whole kernel matrix."""

    kernel: Kernel
    log_noise: Float[Array, ""]
    points: Float[Array, "points features"]
    values: Float[Array, "points outputs"]
    weights: Wide
    lower: WideTriangle
    """The factor of the kernel matrix with the noise."""
    done: Bool[Array, ""]
    config: GPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GPConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        count, outputs = keeping.room(config.points), output_count(schema)
        self.kernel = kernel_from(config, schema.dimensions)
        self.log_noise = jnp.log(jnp.asarray(config.noise))
        self.points = jnp.zeros((count, schema.dimensions))
        self.values = jnp.zeros((count, outputs))
        self.weights = Wide(self.values, self.values)
        self.lower = WideTriangle(jnp.eye(count), jnp.zeros(count))
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def mean(self, x: Array) -> Float[Array, "batch outputs"]:
        """The mean of every output."""
        found: Array = self.exactly(_mean, x)
        return found

    def latent(self, x: Array) -> tuple[Float[Array, "batch outputs"], Float[Array, " batch"]]:
        """Mean and variance of the function, the latter by the factor."""
        mean, variance = self.exactly(_latent, x)
        return mean, variance

    def learnt(
        self, x: Float[np.ndarray, "points features"], y: Float[np.ndarray, "points outputs"], key: Key
    ) -> tuple["GPRegressor", Metrics]:
        """The posterior of the best hyper-parameters."""
        fitted = GaussianProcess(self.kernel, jnp.exp(self.log_noise)).fit(
            x, y, warn=False
        )  # building warned
        before = -float(fitted.log_marginal_likelihood) / len(x)
        if self.config.learn:
            found = searched(fitted, self.config, key)
            rounded = jax.tree.map(lambda a: np.asarray(a, self.points.dtype), found.process)
            fitted = rounded.fit(x, y, warn=False)
        metrics = {
            "loss": -float(fitted.log_marginal_likelihood) / len(x),
            "loss_before_learning": before,
            "noise": float(np.asarray(fitted.process.noise)),
            "jitter": float(fitted.jitter),
        }
        return self._with(fitted), {name: jnp.asarray(value) for name, value in metrics.items()}

    def _with(self, fitted: GaussianProcessPosterior) -> "GPRegressor":
        dtype = self.points.dtype
        process = jax.tree.map(lambda a: jnp.asarray(a, dtype), fitted.process)
        return eqx.tree_at(
            lambda m: (m.kernel, m.log_noise, m.points, m.values, m.weights, m.lower),
            self,
            (
                process.kernel,
                jnp.log(process.noise),
                jnp.asarray(fitted.x, dtype),
                jnp.asarray(fitted.y, dtype),
                Wide.of(fitted.weights, dtype),
                WideTriangle.of(np.asarray(fitted.factor[0]), dtype),
            ),
        )

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Bands over what is known, scales of the columns, evidence around what was learnt, targets left out."""
        del key
        return [*pictures.all_of(self, data), *pictures.left_out(self, data)]


def _between(model: GPRegressor, x: Array) -> Float[Array, "batch points"]:
    return model.kernel.tile(x.reshape(len(x), -1), model.points)


def _mean(model: GPRegressor, x: Array) -> Float[Array, "batch outputs"]:
    """The mean of every output, by a model in double precision."""
    return _between(model, x) @ model.weights.double()


def _latent(model: GPRegressor, x: Array) -> tuple[Float[Array, "batch outputs"], Float[Array, " batch"]]:
    """Mean and variance of the function, by a model in double precision."""
    between = _between(model, x)
    white = jax.scipy.linalg.solve_triangular(model.lower.double(), between.T, lower=True)
    known = jnp.where(model.done, jnp.square(white).sum(axis=0), 0.0)
    variance = jnp.maximum(model.kernel.diagonal(x.reshape(len(x), -1)) - known, 0.0)
    return between @ model.weights.double(), variance


__all__ = ["GPRegressor"]
