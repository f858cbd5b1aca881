"""Mixtures of normal distributions: density, score, moments and draws in closed form, with and without added noise.

If x has the density sum_k w_k N(m_k, C_k), then a x + s noise has sum_k w_k N(a m_k, a² C_k + s² I); covariances are
kept by their eigenvectors, which do not change. Components of no width are allowed where there is noise.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.covariances import Eigen
from chainrule.probability.distributions.mixture import Mixture
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal

_X = Float[Array, "batch ..."]


class Components(NamedTuple):
    """Every component beside every example, under noise."""

    logs: Float[Array, "batch components"]
    """Logarithm of its weight times its density."""
    offset: Float[Array, "batch components features"]
    """Of the example from its mean, in its own axes."""
    variance: Float[Array, "batch components features"]
    """Along its own axes."""

    @property
    def shares(self) -> Float[Array, "batch components"]:
        """Probability of each component given the example."""
        return jax.nn.softmax(self.logs, axis=1)


@final
class GaussianMixture(eqx.Module):
    """A mixture of normal distributions of vectors; examples of other shapes are flattened.

    >>> two = GaussianMixture([1.0, 1.0], [[-1.0], [1.0]], [0.25, 0.25])
    >>> round(float(two.log_prob(jnp.zeros((1, 1)))[0]), 4)
    -2.2258
    """

    mixture: Mixture

    def __init__(self, weights: Any, means: Any, covariances: Any) -> None:
        """`covariances` are matrices, or one variance for each component."""
        weights, means = np.asarray(weights, np.float64), np.asarray(means, np.float64)
        means = means.reshape(len(means), -1)
        count, features = means.shape
        if weights.shape != (count,) or not (weights > 0).all():
            raise ArgumentError(f"GaussianMixture: {count} components need {count} positive weights")
        covariances = np.asarray(covariances, np.float64)
        if covariances.ndim == 1:
            covariances = covariances[:, None, None] * np.eye(features)[None]
        spread, axes = np.linalg.eigh(np.broadcast_to(covariances, (count, features, features)))
        if (spread < -1e-9).any():
            raise ArgumentError(
                f"GaussianMixture: a covariance has a negative eigenvalue, the smallest {spread.min():.6g}"
            )
        structure = Eigen(jnp.asarray(axes), jnp.asarray(np.maximum(spread, 0)), not (spread > 0).all())
        self.mixture = Mixture(weights / weights.sum(), MultivariateNormal(means, structure))

    @property
    def log_weights(self) -> Float[Array, " components"]:
        """Logarithms of the weights."""
        return self.mixture.choice.log_probs

    @property
    def means(self) -> Float[Array, "components features"]:
        """Of the components."""
        return self.mixture.components.mean

    @property
    def axes(self) -> Float[Array, "components features features"]:
        """Eigenvectors of the covariances, as columns."""
        return self._structure.axes

    @property
    def spread(self) -> Float[Array, "components features"]:
        """Variances along `axes`."""
        return self._structure.variances

    def log_prob(self, x: _X) -> Float[Array, " batch"]:
        """Logarithm of the density; components of no width have none."""
        return self.mixture.log_prob(x.reshape(len(x), -1))

    def sample(self, key: Key, n: int) -> Float[Array, "n features"]:
        """`n` draws."""
        return self.mixture.sample(key, n)

    def components(
        self, x: _X, a: Any = 1.0, s: Any = 0.0, chosen: Bool[Array, "batch components"] | None = None
    ) -> Components:
        """Every component of the density of a x + s noise at `x`, with one (a, s) for all examples or one for each.

        Where `chosen` is given, the mixture is that of the chosen components alone.
        """
        flat = x.reshape(len(x), -1)
        a, s = (_beside(v, len(x)) for v in (a, s))
        variance = jnp.square(a) * self.spread[None] + jnp.square(s)
        offset = jnp.einsum("bkd,kde->bke", flat[:, None] - a * self.means[None], self.axes)
        logs = -0.5 * (jnp.square(offset) / variance + jnp.log(2 * jnp.pi * variance)).sum(axis=2)
        weights = self.log_weights[None]
        if chosen is not None:
            kept = jnp.where(chosen, weights, -jnp.inf)
            weights = kept - jax.nn.logsumexp(kept, axis=1, keepdims=True)
        return Components(logs + weights, offset, variance)

    def score(self, found: Components) -> Float[Array, "batch features"]:
        """The gradient of the log-density, from what `components` found."""
        return -jnp.einsum("bk,bkd->bd", found.shares, self._back(found.offset / found.variance))

    def posterior_covariance(
        self, found: Components, a: Any, s: Any
    ) -> Float[Array, "batch features features"]:
        """Covariance of x given a x + s noise, from what `components` found there."""
        a, s = (_beside(v, len(found.logs)) for v in (a, s))
        gain = a * self.spread[None] / found.variance
        means = self.means[None] + self._back(gain * found.offset)
        mean = jnp.einsum("bk,bkd->bd", found.shares, means)
        left = self.spread[None] * jnp.square(s) / found.variance
        within = jnp.einsum("bk,kde,bke,kfe->bdf", found.shares, self.axes, left, self.axes)
        apart = means - mean[:, None]
        return within + jnp.einsum("bk,bkd,bkf->bdf", found.shares, apart, apart)

    @property
    def _structure(self) -> Eigen:
        components = self.mixture.components
        assert isinstance(components, MultivariateNormal)
        assert isinstance(components.structure, Eigen)
        return components.structure

    def _back(self, offset: Array) -> Array:
        """Vectors in the axes of each component, in common coordinates."""
        return jnp.einsum("bke,kde->bkd", offset, self.axes)


def _beside(value: Any, count: int) -> Float[Array, "batch one one"]:
    return jnp.broadcast_to(jnp.asarray(value), (count,))[:, None, None]


__all__ = ["Components", "GaussianMixture"]
