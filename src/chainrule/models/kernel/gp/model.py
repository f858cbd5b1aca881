"""The exact Gaussian process of values as a model: hyper-parameters and posterior in one run of training.

The model keeps the training examples, the factor of their kernel matrix and a weight for each, in numbers that are as
good as double precision; answers are computed in it, too. Hyper-parameters are rounded to the precision of the model
before the factor is computed, so that all of it belongs together.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.gaussian_processes import GaussianProcess, GaussianProcessPosterior
from chainrule.kernels.wide import Wide, WideTriangle, doubled
from chainrule.models.kernel.gp import pictures
from chainrule.models.kernel.gp.settings import SCREENED, GPConfig, kernel_from
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import (
    HasOwnTraining,
    HasPictures,
    HasPredictiveDistribution,
    Metrics,
    output_count,
)
from chainrule.probability.distributions.normal import Normal

QUIETEST = 1e-6
"""The least variance of the noise that is learnt."""


@final
class GPRegressor(HasOwnTraining, HasPredictiveDistribution, HasPictures):
    """Values that are a smooth function of the examples, under noise."""

    kernel: Kernel
    log_noise: Float[Array, ""]
    points: Float[Array, "points features"]
    values: Float[Array, "points outputs"]
    """Targets of the kept examples."""
    weights: Wide
    """Of the kernels with the kept examples in the mean of every output."""
    lower: WideTriangle
    """The factor of the kernel matrix with the noise."""
    done: Bool[Array, ""]
    config: GPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GPConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        count = 1 if config.points == "auto" else config.points
        outputs = output_count(schema)
        self.kernel = kernel_from(config, schema.dimensions)
        self.log_noise = jnp.log(jnp.asarray(config.noise))
        self.points = jnp.zeros((count, schema.dimensions))
        self.values = jnp.zeros((count, outputs))
        self.weights = Wide(self.values, self.values)
        self.lower = WideTriangle(jnp.eye(count), jnp.zeros(count))
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def latent(self, x: Array) -> tuple[Float[Array, "batch outputs"], Float[Array, " batch"]]:
        """Mean of every output and variance of the function without noise; before training those of the prior."""
        mean, variance = doubled(_latent, self, x, dtype=self._dtype)
        return mean, variance

    @property
    def _dtype(self) -> Any:
        """The precision of answers."""
        return jnp.promote_types(self.points.dtype, jnp.float32)

    def predictive(self, x: Array) -> Normal:
        """The normal distribution of a new value: variance of the function and of the noise."""
        mean, variance = self.latent(x)
        scale = jnp.sqrt(variance + jnp.exp(self.log_noise.astype(variance.dtype)))
        shape = (len(x), *self.schema.target_shape)
        return Normal(mean.reshape(shape), jnp.broadcast_to(scale[:, None], mean.shape).reshape(shape))

    def predict(self, x: Array) -> Array:
        """The mean."""
        found: Array = doubled(_mean, self, x, dtype=self._dtype)
        return found.reshape(len(x), *self.schema.target_shape)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log density of a target, in nats and model units; several outputs are added up."""
        del key
        found = self.predictive(batch.x)
        density = found.log_prob(batch.y.astype(found.dtype)).reshape(len(batch.x), -1).sum(axis=1)
        return -density.mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple["GPRegressor", Metrics]:
        """Hyper-parameters from several starts, then the posterior."""
        for_points, for_starts = jax.random.split(key)
        count = len(self.points)
        some = np.sort(np.asarray(jax.random.permutation(for_points, len(examples.x)))[:count])
        x, y = rows(examples.x)[some], rows(examples.y)[some]
        fitted = GaussianProcess(self.kernel, jnp.exp(self.log_noise)).fit(
            x, y, warn=False
        )  # building warned
        before = -float(fitted.log_marginal_likelihood) / count
        if self.config.learn:
            fitted = fitted.optimize(
                objective=self.config.objective,
                restarts=self.config.restarts,
                screen=SCREENED,
                bounds={"noise": (QUIETEST, 1e3)},
                key=for_starts,
                warn=False,  # scales at their upper end are columns that do not matter: a picture says which
            )
            learnt = jax.tree.map(lambda a: np.asarray(a, self.points.dtype), fitted.process)
            fitted = learnt.fit(x, y, warn=False)
        after = -float(fitted.log_marginal_likelihood) / count
        noise = float(np.asarray(fitted.process.noise))
        metrics = {
            "loss": before,
            "negative_log_evidence": after,
            "noise": noise,
            "jitter": float(fitted.jitter),
        }
        return self._with(fitted), {name: jnp.asarray(value) for name, value in metrics.items()}

    def _with(self, fitted: GaussianProcessPosterior) -> "GPRegressor":
        dtype = self.points.dtype
        learnt = jax.tree.map(lambda a: jnp.asarray(a, dtype), fitted.process)
        return eqx.tree_at(
            lambda m: (m.kernel, m.log_noise, m.points, m.values, m.weights, m.lower, m.done),
            self,
            (
                learnt.kernel,
                jnp.log(learnt.noise),
                jnp.asarray(fitted.x, dtype),
                jnp.asarray(fitted.y, dtype),
                Wide.of(fitted.weights, dtype),
                WideTriangle.of(np.asarray(fitted.factor[0]), dtype),
                jnp.ones((), bool),
            ),
        )

    @property
    def converged(self) -> bool:
        """After one run of the search."""
        return bool(self.done)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Bands over what is known, scales of the columns, evidence around what was learnt, targets left out."""
        del key
        return pictures.all_of(self, data)


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


__all__ = ["QUIETEST", "GPRegressor"]
