"""Gaussian processes by inducing inputs as models: values or classes, any number of examples, trained by batches.

Kernel, noise and inducing inputs follow the gradient of the evidence lower bound; the distribution of the inducing
values moves by natural gradients (or follows the gradient, too). A step costs the cube of the number of inducing
inputs, however many examples there are.
"""

from collections.abc import Sequence
from typing import Self, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels.gaussian_processes.likelihoods import FunctionLikelihood, GaussianLikelihood
from chainrule.kernels.gaussian_processes.sparse import inducing_inputs
from chainrule.kernels.gaussian_processes.stochastic import Marginals, StochasticGaussianProcess
from chainrule.models.kernel.gp import sparse_pictures
from chainrule.models.kernel.gp.settings import GPConfig, kernel_from, likelihood_of
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import (
    HasLogits,
    HasPictures,
    HasPredictiveDistribution,
    HasState,
    Metrics,
    Model,
    output_count,
)
from chainrule.probability.distributions.normal import Normal

SAMPLE = 20_000
"""Training examples by which inducing inputs are placed."""
M = TypeVar("M", bound=Model)


class SparseModel(HasState, HasPictures):
    """A Gaussian process by inducing inputs, whatever its targets are."""

    process: eqx.AbstractVar[StochasticGaussianProcess]
    examples: eqx.AbstractVar[Int[Array, ""]]
    config: eqx.AbstractVar[GPConfig]
    schema: eqx.AbstractVar[Schema]

    def precise(self) -> StochasticGaussianProcess:
        """The process in single precision at least: a lower one cannot be solved with."""
        dtype = jnp.promote_types(self.process.inducing.dtype, jnp.float32)
        precise: StochasticGaussianProcess = jax.tree.map(lambda a: a.astype(dtype), self.process)
        return precise

    def marginals(self, x: Array) -> Marginals:
        """Mean and variance of the latent functions at every example."""
        process = self.precise()
        return process.marginals(x.reshape(len(x), -1).astype(process.inducing.dtype))

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The negative bound, in nats an example, and the model after a natural step of the inducing values."""
        del key
        process = self.precise()
        if not self.config.learn:
            given = process.kernel, process.likelihood
            process = eqx.tree_at(lambda p: (p.kernel, p.likelihood), process, jax.lax.stop_gradient(given))
        x = batch.x.reshape(len(batch.x), -1).astype(process.inducing.dtype)
        y = batch.y.reshape(-1)
        y = y.astype(x.dtype) if jnp.issubdtype(y.dtype, jnp.floating) else y
        seen = process.features(x)
        total = self.examples.astype(x.dtype)
        divergence = process.divergence() / total
        bound = process.bound_of(seen, x, y, total) / total
        moved = self
        if self.config.natural_rate > 0:
            still, known = jax.lax.stop_gradient((process, seen))
            after = still.natural_step(x, y, total, self.config.natural_rate, known)
            dtype = self.process.mean.dtype
            q = after.mean.astype(dtype), after.factor.astype(dtype)
            moved = eqx.tree_at(lambda m: (m.process.mean, m.process.factor), self, q)
        return -bound, {"divergence": divergence}, moved

    def state(self) -> Sequence[Tree]:
        """The distribution of the inducing values, where natural gradients move it."""
        return (self.process.mean, self.process.factor) if self.config.natural_rate > 0 else ()

    def beginning(self, data: Data) -> Float[np.ndarray, "inducing features"]:
        """Where inducing inputs begin: among the training examples, fewer where there are not as many."""
        count = len(data.train)
        some = np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(int))
        return inducing_inputs(
            self.process.kernel, rows(data.train.batch(some).x), len(self.process.inducing)
        )

    def placed(self, data: Data) -> Self:
        """With inducing inputs where they begin, and the number of training examples."""
        wanted, found = len(self.process.inducing), self.beginning(data)
        if len(found) < wanted:
            raise ArgumentError(
                f"inducing={wanted}: there are only {len(found)} different training examples",
                remedy=f"use inducing={len(found)}, or leave it out",
            )
        z = jnp.asarray(found, self.process.inducing.dtype)
        total = jnp.asarray(len(data.train), self.examples.dtype)
        return eqx.tree_at(lambda m: (m.process.inducing, m.examples), self, (z, total))

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """What was learnt, where the inducing inputs are, and the band of the function."""
        del key
        return sparse_pictures.all_of(self, data)


def _process(config: GPConfig, schema: Schema, likelihood: FunctionLikelihood) -> StochasticGaussianProcess:
    count = 512 if config.inducing == "auto" else config.inducing
    # Before the data are seen all inducing inputs are different all the same, so that nothing is singular.
    apart = jnp.arange(count, dtype=jnp.float32)[:, None] / count
    return StochasticGaussianProcess(
        kernel_from(config, schema.dimensions),
        likelihood,
        jnp.broadcast_to(apart, (count, schema.dimensions)),
    )


@final
class SparseGPRegressor(SparseModel, HasPredictiveDistribution):
    """Values that are a smooth function of the examples, under noise."""

    process: StochasticGaussianProcess
    examples: Int[Array, ""]
    config: GPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GPConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide where inducing inputs begin
        if output_count(schema) != 1:
            raise CapabilityError(
                f"gp: method=sparse predicts one number, these targets have {output_count(schema)}",
                remedy="use method=exact, or train on one column of the targets",
            )
        self.process = _process(config, schema, GaussianLikelihood(config.noise))
        self.examples = jnp.ones((), jnp.int32)
        self.config, self.schema = config, schema

    def predictive(self, x: Array) -> Normal:
        """The normal distribution of a new value: variance of the function and of the noise."""
        found = self.precise().likelihood.predictive(*self.marginals(x))
        shape = (len(x), *self.schema.target_shape)
        return Normal(found.mean.reshape(shape), jnp.sqrt(found.variance).reshape(shape))

    def predict(self, x: Array) -> Array:
        """The mean."""
        return self.marginals(x).mean.reshape(len(x), *self.schema.target_shape)


@final
class SparseGPClassifier(SparseModel, HasLogits):
    """Classes by latent functions: one behind a link for two classes, else one each behind a softmax."""

    process: StochasticGaussianProcess
    examples: Int[Array, ""]
    config: GPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GPConfig, schema: Schema, key: Key) -> None:
        del key
        self.process = _process(config, schema, likelihood_of(config, schema))
        self.examples = jnp.ones((), jnp.int32)
        self.config, self.schema = config, schema

    def predict(self, x: Array) -> Float[Array, "batch classes"]:
        """Probabilities, averaged over the latent functions by quadrature."""
        return self.precise().likelihood.predictive(*self.marginals(x)).mean

    def logits(self, x: Array) -> Float[Array, "batch classes"]:
        """Logarithms of the probabilities."""
        p = self.predict(x)
        return jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))


def started(model: M, data: Data) -> M:
    """A fresh model whose inducing inputs, if it has any, lie among the training examples."""
    return model.placed(data) if isinstance(model, SparseModel) else model


__all__ = ["SparseGPClassifier", "SparseGPRegressor", "SparseModel", "started"]
