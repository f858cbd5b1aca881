"""Mixtures of Gaussians of which some entries are known: again mixtures, with other weights."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.probability import gaussian
from chainrule.probability.distributions import Full, Mixture, MultivariateNormal


def condition(mixture: Mixture, observed: Mapping[int, Any]) -> Mixture:
    """The distribution of the other entries, in their order, when `observed` maps indices to known values.

    Every component is conditioned by itself, and weighs what it weighed times the density it gave to what was seen.

    >>> two = Mixture([0.5, 0.5], MultivariateNormal([[0.0, 0.0], [4.0, 4.0]], [[[1.0, 0.5], [0.5, 1.0]]] * 2))
    >>> found = condition(two, {1: 2.0})
    >>> found.weights.round(4).tolist(), found.mean.round(4).tolist()
    ([0.5, 0.5], [2.0])
    """
    normal = mixture.components
    if not isinstance(normal, MultivariateNormal) or len(normal.batch_shape) != 1:
        raise ArgumentError(
            "condition(mixture): its components are not multivariate normal distributions",
            remedy="fit_mixture(x, k).distribution is such a mixture",
        )
    size = normal.event_shape[0]
    if not 0 < len(observed) < size:
        raise ArgumentError(
            f"condition(observed): {len(observed)} of {size} entries; at least one has to be known and one unknown"
        )
    means, covariances = normal.mean, normal.covariance
    rest = jax.vmap(lambda mean, covariance: gaussian.condition(mean, covariance, observed))(
        means, covariances
    )
    indices = list(observed)
    seen = jax.vmap(lambda mean, covariance: gaussian.marginal(mean, covariance, indices))(means, covariances)
    values = jnp.stack([jnp.asarray(observed[index], means.dtype) for index in indices])
    near = MultivariateNormal(seen.mean, Full(jnp.linalg.cholesky(seen.covariance))).log_prob(values)
    logs = jnp.log(mixture.weights) + near
    return Mixture(
        jax.nn.softmax(logs), MultivariateNormal(rest.mean, Full(jnp.linalg.cholesky(rest.covariance)))
    )


__all__ = ["condition"]
