"""The exact denoiser of a Gaussian mixture: every score, mean and covariance in closed form.

Noised data of sum_k w_k N(m_k, C_k) are sum_k w_k N(a m_k, a² C_k + s² I). This stands wherever a network stands, so
that samplers, bounds and losses can be checked against numbers that are known. With the examples of a data set as
components of no width it is the ideal denoiser of that set, which can only repeat what it has seen.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.base import Denoiser
from chainrule.models.diffusion.process import Level

_X = Float[Array, "batch ..."]


class _Parts(NamedTuple):
    """Each component at a noise level: its share of the density, and its offset in its own axes."""

    logs: Array
    offset: Array
    variance: Array
    a: Array
    s: Array


@final
class Mixture(Denoiser):
    """A mixture of Gaussians, conditional on a class where components have `labels`.

    >>> one = Mixture([1.0], [[0.0]], [0.25])
    >>> float(one.log_density(jnp.zeros((1, 1)), Level(1.0, 0.5))[0])  # N(0, 1/2)
    -0.572...
    """

    log_weights: Float[Array, " components"]
    means: Float[Array, "components features"]
    axes: Float[Array, "components features features"]
    spread: Float[Array, "components features"]
    """Variances along `axes`."""
    labels: Any
    target: str = eqx.field(static=True)

    def __init__(self, weights: Any, means: Any, covariances: Any, labels: Any = None) -> None:
        """`covariances` are matrices, or one variance for each component; `labels` its class, by number."""
        weights, means = np.asarray(weights, np.float64), np.asarray(means, np.float64)
        means = means.reshape(len(means), -1)
        count, features = means.shape
        if weights.shape != (count,) or not (weights > 0).all():
            raise ArgumentError(f"Mixture: {count} components need {count} positive weights")
        covariances = np.asarray(covariances, np.float64)
        if covariances.ndim == 1:
            covariances = covariances[:, None, None] * np.eye(features)[None]
        spread, axes = np.linalg.eigh(np.broadcast_to(covariances, (count, features, features)))
        if (spread < -1e-9).any():
            raise ArgumentError("Mixture: a covariance has a negative eigenvalue")
        self.log_weights = jnp.asarray(np.log(weights / weights.sum()))
        self.means, self.axes = jnp.asarray(means), jnp.asarray(axes)
        self.spread = jnp.asarray(np.maximum(spread, 0))
        self.labels = None if labels is None else np.asarray(labels, np.int32)
        self.target = "score"

    def predict(self, x: _X, level: Level, condition: Any = None) -> _X:
        """The score, the gradient of the log-density of the noised data."""
        parts = self._parts(x, level, condition)
        shares = jax.nn.softmax(parts.logs, axis=1)
        pull = self._back(parts.offset / parts.variance)
        return -jnp.einsum("bk,bkd->bd", shares, pull).reshape(x.shape)

    def null(self, condition: Any) -> Array:
        """The class number that stands for all of the data."""
        return jnp.full_like(jnp.asarray(condition), -1)

    def log_density(self, x: _X, level: Level, condition: Any = None) -> Float[Array, " batch"]:
        """Logarithm of the density of the noised data."""
        return jax.nn.logsumexp(self._parts(x, level, condition).logs, axis=1)

    def shares(self, x: _X, level: Level) -> Float[Array, "batch components"]:
        """Probability of each component given the noisy data."""
        return jax.nn.softmax(self._parts(x, level, None).logs, axis=1)

    def class_log_prob(self, x: _X, level: Level, condition: Any) -> Float[Array, " batch"]:
        """Logarithm of the probability of a class given the noisy data: the ideal classifier for guidance."""
        logs = self._parts(x, level, None).logs
        mine = self._chosen(condition)
        return jax.nn.logsumexp(jnp.where(mine, logs, -jnp.inf), axis=1) - jax.nn.logsumexp(logs, axis=1)

    def covariance(self, x: _X, level: Level) -> Float[Array, "batch features features"]:
        """Covariance of the clean data given the noisy data."""
        parts = self._parts(x, level, None)
        shares = jax.nn.softmax(parts.logs, axis=1)
        gain = parts.a * self.spread[None] / parts.variance
        means = self.means[None] + self._back(gain * parts.offset)
        mean = jnp.einsum("bk,bkd->bd", shares, means)
        left = self.spread[None] * jnp.square(parts.s) / parts.variance
        within = jnp.einsum("bk,kde,bke,kfe->bdf", shares, self.axes, left, self.axes)
        apart = means - mean[:, None]
        return within + jnp.einsum("bk,bkd,bkf->bdf", shares, apart, apart)

    def _parts(self, x: Array, level: Level, condition: Any) -> _Parts:
        flat = x.reshape(len(x), -1)
        a, s = (jnp.broadcast_to(jnp.asarray(v), (len(x),))[:, None, None] for v in level)
        variance = jnp.square(a) * self.spread[None] + jnp.square(s)
        offset = jnp.einsum("bkd,kde->bke", flat[:, None] - a * self.means[None], self.axes)
        logs = -0.5 * (jnp.square(offset) / variance + jnp.log(2 * jnp.pi * variance)).sum(axis=2)
        weights = self.log_weights[None]
        if condition is not None:
            inside = jnp.where(self._chosen(condition), weights, -jnp.inf)
            weights = inside - jax.nn.logsumexp(inside, axis=1, keepdims=True)
        return _Parts(logs + weights, offset, variance, a, s)

    def _chosen(self, condition: Any) -> Array:
        if self.labels is None:
            raise ArgumentError("Mixture: its components have no labels", remedy="give labels=")
        wanted = jnp.asarray(condition)
        wanted = wanted.reshape(1, 1) if wanted.ndim == 0 else wanted[:, None]
        return (jnp.asarray(self.labels)[None] == wanted) | (wanted == -1)

    def _back(self, offset: Array) -> Array:
        """Vectors in the axes of each component, in common coordinates."""
        return jnp.einsum("bke,kde->bkd", offset, self.axes)


__all__ = ["Mixture"]
