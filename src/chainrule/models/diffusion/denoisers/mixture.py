"""The exact denoiser of a Gaussian mixture: every score, mean and covariance in closed form.

This stands wherever a network stands, so that samplers, bounds and losses can be checked against numbers that are
known. With the examples of a data set as components of no width it is the ideal denoiser of that set, which can only
repeat what it has seen.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level
from chainrule.probability.distributions.gaussian_mixture import Components, GaussianMixture

_X = Float[Array, "batch ..."]


@final
class MixtureDenoiser(Denoiser):
    """The denoiser of a mixture of Gaussians, conditional on a class where components have `labels`.

    >>> one = MixtureDenoiser([1.0], [[0.0]], [0.25])
    >>> float(one.log_density(jnp.zeros((1, 1)), Level(1.0, 0.5))[0])  # N(0, 1/2)
    -0.572...
    """

    mixture: GaussianMixture
    labels: Any
    target: str = eqx.field(static=True)

    def __init__(self, weights: Any, means: Any, covariances: Any, labels: Any = None) -> None:
        """`covariances` are matrices, or one variance for each component; `labels` its class, by number."""
        self.mixture = GaussianMixture(weights, means, covariances)
        self.labels = None if labels is None else np.asarray(labels, np.int32)
        self.target = "score"

    def predict(self, x: _X, level: Level, condition: Any = None) -> _X:
        """The score, the gradient of the log-density of the noised data."""
        return self.mixture.score(self._components(x, level, condition)).reshape(x.shape)

    def null(self, condition: Any) -> Array:
        """The class number that stands for all of the data."""
        return jnp.full_like(jnp.asarray(condition), -1)

    def log_density(self, x: _X, level: Level, condition: Any = None) -> Float[Array, " batch"]:
        """Logarithm of the density of the noised data."""
        return jax.nn.logsumexp(self._components(x, level, condition).logs, axis=1)

    def shares(self, x: _X, level: Level) -> Float[Array, "batch components"]:
        """Probability of each component given the noisy data."""
        return self._components(x, level, None).shares

    def class_log_prob(self, x: _X, level: Level, condition: Any) -> Float[Array, " batch"]:
        """Logarithm of the probability of a class given the noisy data: the ideal classifier for guidance."""
        logs = self._components(x, level, None).logs
        mine = self._chosen(condition)
        return jax.nn.logsumexp(jnp.where(mine, logs, -jnp.inf), axis=1) - jax.nn.logsumexp(logs, axis=1)

    def covariance(self, x: _X, level: Level) -> Float[Array, "batch features features"]:
        """Covariance of the clean data given the noisy data."""
        return self.mixture.posterior_covariance(self._components(x, level, None), *level)

    def _components(self, x: Array, level: Level, condition: Any) -> Components:
        chosen = None if condition is None else self._chosen(condition)
        return self.mixture.components(x, level.a, level.s, chosen)

    def _chosen(self, condition: Any) -> Array:
        if self.labels is None:
            raise ArgumentError("MixtureDenoiser: its components have no labels", remedy="give labels=")
        wanted = jnp.asarray(condition)
        wanted = wanted.reshape(1, 1) if wanted.ndim == 0 else wanted[:, None]
        return (jnp.asarray(self.labels)[None] == wanted) | (wanted == -1)


__all__ = ["MixtureDenoiser"]
