"""Transport between normal distributions in closed form: the optimal map, a linear one, and entropic plans on a line.

    x ↦ m' + A (x - m),   A = C^-½ (C½ C' C½)½ C^-½

The distance itself is `gaussian.distances.wasserstein_2`.

References: Dowson and Landau, The Fréchet distance between multivariate normal distributions, 1982; Janati, Muzellec,
Peyré and Cuturi, Entropic optimal transport between unbalanced Gaussian measures has a closed form, NeurIPS 2020.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.parameters import broadcast, finite, floating, positive
from chainrule.probability.gaussian.distances import optimal_matrix, wasserstein_2


class NormalTransport(NamedTuple):
    """The optimal map from one normal distribution to another, and its cost."""

    square: Scalar
    """W_2², the mean squared distance that mass moves."""
    matrix: Float[Array, "size size"]
    mean: Float[Array, " size"]
    other_mean: Float[Array, " size"]

    def __call__(self, x: Any) -> Float[Array, "*batch size"]:
        """Where points [..., size] go."""
        points = floating(x)
        if points.shape[-1:] != self.mean.shape:
            raise ArgumentError(
                f"normal_transport: points of shape {points.shape} for {len(self.mean)} variables",
                remedy="variables come last",
            )
        mean, other = (one.reshape(*(1,) * (points.ndim - 1), -1) for one in (self.mean, self.other_mean))
        return other + (points - mean) @ self.matrix


class EntropicNormals(NamedTuple):
    """The entropic plan between two normal distributions of numbers, itself a normal distribution."""

    covariance: Float[Array, "*batch"]
    """Between both coordinates."""
    cost: Float[Array, "*batch"]
    """<C, P>, the mean squared distance that mass moves."""
    value: Float[Array, "*batch"]
    """<C, P> + eps KL(P | a b')."""


def normal_transport(mean: Any, covariance: Any, other_mean: Any, other_covariance: Any) -> NormalTransport:
    """The map of least squared distance from N(mean, covariance) to the other. A singular one leaves its support aside.

    >>> found = normal_transport([0.0], [[1.0]], [3.0], [[4.0]])
    >>> float(found.square), found(jnp.array([[1.0]])).tolist()
    (10.0, [[5.0]])
    """
    distance = wasserstein_2(mean, covariance, other_mean, other_covariance)
    m, c, n, d = (floating(value) for value in (mean, covariance, other_mean, other_covariance))
    return NormalTransport(jnp.square(distance), optimal_matrix(c, d), m, n)


def entropic_normals(mean: Any, scale: Any, other_mean: Any, other_scale: Any, eps: Any) -> EntropicNormals:
    """Entropic transport of squared distances from N(mean, scale²) to N(other_mean, other_scale²), numbers or batches.

    >>> found = entropic_normals(0.0, 1.0, 0.0, 2.0, eps=0.5)
    >>> round(float(found.covariance), 5), round(float(found.value), 5)
    (1.8789, 1.77767)
    """
    where = "entropic_normals"
    m, s, n, t, strength = broadcast(
        where, mean=mean, scale=scale, other_mean=other_mean, other_scale=other_scale, eps=eps
    )
    m, n = finite(where, "mean", m), finite(where, "other_mean", n)
    s, t = positive(where, "scale", s), positive(where, "other_scale", t)
    strength = positive(where, "eps", strength)
    noise = strength / (4 * s * t)
    correlation = 1 / (jnp.sqrt(1 + jnp.square(noise)) + noise)
    # 1 - r² is 2 r times the noise: one form is exact for little noise, the other for much.
    little = noise < 1
    independent = jnp.where(
        little,
        jnp.log(2 * jnp.where(little, noise, 1.0) * correlation),
        jnp.log1p(-jnp.square(jnp.where(little, 0.0, correlation))),
    )
    covariance = correlation * s * t
    cost = jnp.square(m - n) + jnp.square(s) + jnp.square(t) - 2 * covariance
    return EntropicNormals(covariance, cost, cost - strength / 2 * independent)


__all__ = ["EntropicNormals", "NormalTransport", "entropic_normals", "normal_transport"]
