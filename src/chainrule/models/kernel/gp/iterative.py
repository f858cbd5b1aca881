"""The exact Gaussian process of values by iteration, as a model: no matrix of all pairs of examples is ever stored.

Weights come from preconditioned conjugate gradients. Hyper-parameters are learnt from a few thousand examples by the
exact evidence, and go on from there on all of them, along gradients that random probe vectors estimate. A variance is a
solve of its own; where it ends early, what is missing makes the variance larger, never smaller.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.gaussian_processes import GaussianProcess
from chainrule.kernels.gaussian_processes import iterative_solver as solver
from chainrule.kernels.gaussian_processes.iterative import IterativeGaussianProcess
from chainrule.kernels.kernel import TILE
from chainrule.kernels.wide import Wide
from chainrule.models.kernel import keeping
from chainrule.models.kernel.gp import pictures
from chainrule.models.kernel.gp.function import KeepsExamples, searched
from chainrule.models.kernel.gp.settings import MOST, GPConfig, kernel_from
from chainrule.models.protocol import Metrics, output_count

_RATE = 0.05
"""Of Adam on the logarithms of the hyper-parameters, which begin near their best values."""
_PROBES = 16
_COLUMNS = 64
"""New examples whose variances are solved for together."""
_TOLERANCE = 1e-6
_LIMIT = 1000
"""Steps of conjugate gradients."""


@final
class IterativeGPRegressor(KeepsExamples):
    """Values that are a smooth function of the examples, under noise, by conjugate gradients."""

    kernel: Kernel
    log_noise: Float[Array, ""]
    points: Float[Array, "points features"]
    values: Float[Array, "points 1"]
    weights: Wide
    factor: Float[Array, "points rank"]
    """Of the kernel matrix, of low rank: with the noise, the preconditioner."""
    done: Bool[Array, ""]
    config: GPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GPConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        if output_count(schema) != 1:
            raise CapabilityError(
                f"gp: method=iterative predicts one number, these targets have {output_count(schema)}",
                remedy="use method=exact, or train on one column of the targets",
            )
        count = keeping.room(config.points)
        self.kernel = kernel_from(config, schema.dimensions)
        self.log_noise = jnp.log(jnp.asarray(config.noise))
        self.points = jnp.zeros((count, schema.dimensions))
        self.values = jnp.zeros((count, 1))
        self.weights = Wide(self.values, self.values)
        self.factor = jnp.zeros((count, min(config.rank, count)))
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def mean(self, x: Array) -> Float[Array, "batch 1"]:
        """The mean."""
        found: Array = self.exactly(_mean, x)
        return found

    def latent(self, x: Array) -> tuple[Float[Array, "batch 1"], Float[Array, " batch"]]:
        """Mean and variance of the function, the latter by conjugate gradients."""
        mean, variance = self.exactly(_latent, x)
        return mean, variance

    def learnt(
        self, x: Float[np.ndarray, "points features"], y: Float[np.ndarray, "points 1"], key: Key
    ) -> tuple["IterativeGPRegressor", Metrics]:
        """Hyper-parameters from some examples, then from all; the weights of all."""
        for_starts, for_probes = jax.random.split(key)
        kernel, noise = self.kernel, jnp.exp(self.log_noise)
        if self.config.learn:
            some = keeping.spread(len(x), MOST)
            fitted = GaussianProcess(kernel, noise).fit(x[some], y[some], warn=False)
            found = searched(fitted, self.config, for_starts).process
            kernel, noise = found.kernel, found.noise
        process = IterativeGaussianProcess(
            kernel, noise, rank=self.factor.shape[1], tolerance=_TOLERANCE, limit=_LIMIT
        )
        posterior = process.fit(x, y[:, 0])
        if self.config.learn and self.config.refinement:
            posterior = posterior.optimize(self.config.refinement, rate=_RATE, probes=_PROBES, key=for_probes)
        rounded = jax.tree.map(lambda a: np.asarray(a, self.points.dtype), posterior.process)
        posterior = rounded.fit(x, y[:, 0])
        evidence = rounded.evidence(x, y[:, 0], for_probes, probes=_PROBES)
        # A smooth kernel has fewer columns than there is room for: the others say nothing.
        missing = self.factor.shape[1] - posterior.factor.shape[1]
        factor = np.pad(posterior.factor, ((0, 0), (0, missing)))
        dtype = self.points.dtype
        new = eqx.tree_at(
            lambda m: (m.kernel, m.log_noise, m.points, m.values, m.weights, m.factor),
            self,
            (
                jax.tree.map(jnp.asarray, rounded.kernel),
                jnp.asarray(rounded.log_noise),
                jnp.asarray(x, dtype),
                jnp.asarray(y, dtype),
                Wide.of(posterior.weights[:, None], dtype),
                jnp.asarray(factor, dtype),
            ),
        )
        metrics = {
            "loss": -evidence.value / len(x),
            "loss_error": evidence.standard_error / len(x),
            "noise": float(np.exp(rounded.log_noise)),
            "solver_steps": float(posterior.steps),
        }
        return new, {name: jnp.asarray(value) for name, value in metrics.items()}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Bands over what is known, scales of the columns, evidence around what was learnt."""
        del key
        return pictures.all_of(self, data)


def _mean(model: IterativeGPRegressor, x: Array) -> Float[Array, "batch 1"]:
    """The mean, by a model in double precision, some examples at a time."""
    weights, flat = model.weights.double(), x.reshape(len(x), -1)
    at_once = max(1, TILE // len(model.points))
    if len(x) <= at_once:
        return model.kernel.tile(flat, model.points) @ weights
    return jax.lax.map(
        lambda row: (model.kernel.tile(row[None], model.points) @ weights)[0], flat, batch_size=at_once
    )


def _latent(model: IterativeGPRegressor, x: Array) -> tuple[Float[Array, "batch 1"], Float[Array, " batch"]]:
    """Mean and variance of the function, by a model in double precision."""
    flat = x.reshape(len(x), -1)
    near = solver.preconditioner(model.factor, jnp.exp(model.log_noise))
    blocks = -(-len(x) // _COLUMNS)
    filled = jnp.pad(flat, ((0, blocks * _COLUMNS - len(x)), (0, 0)), mode="edge")

    def known(some: Array) -> Array:
        across = model.kernel.tile(model.points, some)
        return (across * solver.solution(model.kernel, model.points, near, across, _TOLERANCE, _LIMIT)).sum(0)

    seen = jax.lax.map(known, filled.reshape(blocks, _COLUMNS, -1)).reshape(-1)[: len(x)]
    variance = model.kernel.diagonal(flat) - jnp.where(model.done, seen, 0.0)
    return _mean(model, x), jnp.maximum(variance, 0.0)


__all__ = ["IterativeGPRegressor"]
