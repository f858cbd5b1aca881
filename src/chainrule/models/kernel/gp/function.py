"""What Gaussian processes of values have in common, and those of them that keep their training examples.

Hyper-parameters and posterior come from one run of training. Hyper-parameters are rounded to the precision of the model
before the posterior is computed, so that all of it belongs together; answers are computed in double precision.
"""

import abc
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.gaussian_processes import GaussianProcessPosterior
from chainrule.kernels.wide import Wide, doubled
from chainrule.models.kernel.gp.settings import SCREENED, GPConfig
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import HasOwnTraining, HasPictures, HasPredictiveDistribution, Metrics
from chainrule.probability.distributions.normal import Normal

QUIETEST = 1e-6
"""The least variance of the noise that is learnt."""


class GPFunction(HasOwnTraining, HasPredictiveDistribution, HasPictures):
    """Values that are a smooth function of the examples, under noise."""

    kernel: eqx.AbstractVar[Kernel]
    log_noise: eqx.AbstractVar[Float[Array, ""]]
    done: eqx.AbstractVar[Bool[Array, ""]]
    config: eqx.AbstractVar[GPConfig]
    schema: eqx.AbstractVar[Schema]

    @property
    @abc.abstractmethod
    def learnt_from(self) -> int | None:
        """How many training examples it learns from at most; None: all of them."""

    @abc.abstractmethod
    def known(
        self, data: Data
    ) -> tuple[Float[np.ndarray, "points features"], Float[np.ndarray, "points outputs"]]:
        """Examples that it learnt from and their targets, in model units, for pictures."""

    @abc.abstractmethod
    def learnt(
        self, x: Float[np.ndarray, "points features"], y: Float[np.ndarray, "points outputs"], key: Key
    ) -> tuple[Self, Metrics]:
        """The process of these examples, and numbers worth watching."""

    @abc.abstractmethod
    def mean(self, x: Array) -> Float[Array, "batch outputs"]:
        """The mean of every output."""

    @abc.abstractmethod
    def latent(self, x: Array) -> tuple[Float[Array, "batch outputs"], Float[Array, " batch"]]:
        """Mean of every output and variance of the function without noise; before training those of the prior."""

    def exactly(self, function: Any, x: Array) -> Any:
        """What a function of the model and of examples gives in double precision."""
        dtype = jnp.promote_types(self.log_noise.dtype, jnp.float32)
        return doubled(function, self, x, dtype=dtype)

    def predictive(self, x: Array) -> Normal:
        """The normal distribution of a new value: variance of the function and of the noise."""
        mean, variance = self.latent(x)
        scale = jnp.sqrt(variance + jnp.exp(self.log_noise.astype(variance.dtype)))
        shape = (len(x), *self.schema.target_shape)
        return Normal(mean.reshape(shape), jnp.broadcast_to(scale[:, None], mean.shape).reshape(shape))

    def predict(self, x: Array) -> Array:
        """The mean."""
        return self.mean(x).reshape(len(x), *self.schema.target_shape)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log density of a target, in nats and model units; several outputs are added up."""
        del key
        found = self.predictive(batch.x)
        density = found.log_prob(batch.y.astype(found.dtype)).reshape(len(batch.x), -1).sum(axis=1)
        return -density.mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple[Self, Metrics]:
        """Hyper-parameters from several starts, then the posterior."""
        for_points, for_starts = jax.random.split(key)
        some = np.sort(np.asarray(jax.random.permutation(for_points, len(examples.x)))[: self.learnt_from])
        found, metrics = self.learnt(rows(examples.x)[some], rows(examples.y)[some], for_starts)
        return eqx.tree_at(lambda m: m.done, found, jnp.ones((), bool)), metrics

    @property
    def converged(self) -> bool:
        """After one run of the search."""
        return bool(self.done)


class KeepsExamples(GPFunction):
    """A process by the kernels with examples that it keeps."""

    points: eqx.AbstractVar[Float[Array, "points features"]]
    values: eqx.AbstractVar[Float[Array, "points outputs"]]
    """Targets of the kept examples."""
    weights: eqx.AbstractVar[Wide]
    """Of the kernels with the kept examples in the mean of every output."""

    @property
    def learnt_from(self) -> int | None:
        """As many as are kept."""
        return len(self.points)

    def known(
        self, data: Data
    ) -> tuple[Float[np.ndarray, "points features"], Float[np.ndarray, "points outputs"]]:
        """Those that are kept."""
        del data
        return np.asarray(self.points), np.asarray(self.values)


def searched(fitted: GaussianProcessPosterior, config: GPConfig, key: Key) -> GaussianProcessPosterior:
    """The exact process with the best hyper-parameters of several starts."""
    return fitted.optimize(
        objective=config.objective,
        restarts=config.restarts,
        screen=SCREENED,
        bounds={"noise": (QUIETEST, 1e3)},
        key=key,
        warn=False,  # scales at their upper end are columns that do not matter: a picture says which
    )


__all__ = ["QUIETEST", "GPFunction", "KeepsExamples", "searched"]
