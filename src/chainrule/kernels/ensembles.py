"""Information in infinite ensembles of wide networks: entropies, divergences and bounds in closed form.

Over initialisations the outputs Z of wide networks are Gaussian at every time of training, for each input by itself and
for all together (`infinite.gradient_descent`). So entropies and divergences between two times have formulas, and the
information that an output carries about its input lies between two of them: with inputs chosen evenly from N points,
`p(z)` is a mixture of N Gaussians, whose entropy is bounded by pairwise distances of its parts.

References: Shwartz-Ziv and Alemi, Information in infinite ensembles of infinitely-wide neural networks, 2020,
arXiv:1911.09189; Kolchinsky and Tracey, Estimating mixture entropy with pairwise distances, Entropy 19, 2017.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.kernels.infinite.training import TrainedPrediction
from chainrule.kernels.precision import in_double
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal
from chainrule.probability.kullback_leibler.divergence import kl_of_distributions

PerTime = Float[np.ndarray, "*times"]


@final
@dataclass(frozen=True)
class EnsembleInformation:
    """What the outputs of an ensemble carry, in nats; one number for each time."""

    entropy: PerTime
    """Of all outputs at all points together."""
    conditional_entropy: PerTime
    """h(Z|X): of the outputs at one point, on average over points."""
    lower: PerTime
    upper: PerTime
    """Bounds of I(X; Z), the information of an output about which of the points it belongs to; at most log N."""
    data_bound: PerTime
    """The most that outputs can tell of the training data, I(Z; D | X): their divergence from the start."""


def ensemble_information(
    prediction: TrainedPrediction, start: TrainedPrediction, *, noise: float = 0.0
) -> EnsembleInformation:
    """Entropies and bounds of a predicted ensemble at one or several times, and how far it is from its start.

    `noise` is a variance added to every output. Outputs of a trained ensemble are certain at the training points, where
    entropies without noise are minus infinity and divergences infinite.

    >>> still = TrainedPrediction(np.zeros(2), np.eye(2))
    >>> moved = TrainedPrediction(np.array([-9.0, 9.0]), np.eye(2))
    >>> found = ensemble_information(moved, still)
    >>> round(float(found.lower), 4), round(float(found.upper), 4), float(found.data_bound)
    (0.6931, 0.6931, 40.5)
    """
    mean, covariance = _checked("prediction", prediction, noise)
    first_mean, first = _checked("start", start, noise)
    if first_mean.ndim != 2 or first_mean.shape != mean.shape[-2:]:
        raise ArgumentError(
            f"ensemble_information(start): means of shape {first_mean.shape} for a prediction of {mean.shape}",
            remedy="predict the same points at one time: gradient_descent(ntk, nngp, x, y, 0.0)(points)",
        )
    found = _measured(mean, covariance, first_mean, first)
    return EnsembleInformation(*(np.asarray(one) for one in found))


def ensemble_kl(p: TrainedPrediction, q: TrainedPrediction, *, noise: float = 0.0) -> PerTime:
    """KL(p || q) of the outputs of two ensembles at all points together, such as one at two times.

    >>> one, other = TrainedPrediction(np.zeros(2), np.eye(2)), TrainedPrediction(np.ones(2), np.eye(2))
    >>> float(ensemble_kl(one, other))
    1.0
    """
    first, second = _checked("p", p, noise), _checked("q", q, noise)
    if first[0].shape[-2:] != second[0].shape[-2:]:
        raise ArgumentError(
            f"ensemble_kl: p has points and outputs {first[0].shape[-2:]}, q {second[0].shape[-2:]}"
        )
    return np.asarray(_together(*first, *second))


def _checked(name: str, prediction: TrainedPrediction, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Means (times, points, outputs) and covariances, with the noise in them."""
    if not 0 <= noise < math.inf:
        raise ArgumentError(f"ensemble_information(noise={noise}): noise is a variance of at least 0")
    mean, covariance = (np.asarray(part, np.float64) for part in (prediction.mean, prediction.covariance))
    points = covariance.shape[-1]
    if mean.ndim == covariance.ndim - 1:
        mean = mean[..., None]
    if mean.ndim != covariance.ndim or mean.shape[-2] != points:
        raise ArgumentError(
            f"ensemble_information({name}): means {mean.shape}, covariances {covariance.shape}"
        )
    diagonal = np.diagonal(covariance, axis1=-2, axis2=-1)
    if (diagonal + noise <= 0).any():
        raise ArgumentError(
            f"ensemble_information({name}): the variance of an output is {float(diagonal.min()):.3g}; where an "
            "ensemble is certain, entropies are infinite",
            remedy="add noise to its outputs, e.g. noise=1e-3, or leave training points out",
        )
    return mean, covariance + noise * np.eye(points)


@in_double
def _measured(mean: Any, covariance: Any, first_mean: Any, first: Any) -> tuple[Array, ...]:
    outputs, points = mean.shape[-1], mean.shape[-2]
    joint = outputs * MultivariateNormal(jnp.zeros(mean.shape[:-1]), covariance).entropy()
    variance = jnp.diagonal(covariance, axis1=-2, axis2=-1)
    each = Normal(mean, jnp.sqrt(variance)[..., None])
    conditional = each.entropy().sum(axis=-1).mean(axis=-1)
    lower, upper = _bounds(mean, variance, points)
    before = Normal(
        jnp.broadcast_to(first_mean, mean.shape),
        jnp.broadcast_to(jnp.sqrt(jnp.diagonal(first))[:, None], mean.shape),
    )
    moved = kl_of_distributions(each, before).sum(axis=-1).mean(axis=-1)
    return joint, conditional, lower, upper, moved


def _bounds(mean: Array, variance: Array, points: int) -> tuple[Array, Array]:
    """Of I(X; Z): `-mean_i log mean_j exp(-d_ij)`, by Bhattacharyya distances below and KL divergences above."""
    gap = jnp.square(mean[..., :, None, :] - mean[..., None, :, :]).sum(axis=-1)
    own, other = variance[..., :, None], variance[..., None, :]
    outputs = mean.shape[-1]
    middle = (own + other) / 2
    near = gap / (8 * middle) + outputs / 2 * jnp.log(middle / jnp.sqrt(own * other))
    far = (gap / other + outputs * (own / other - 1 - jnp.log(own / other))) / 2

    def information(distance: Array) -> Array:
        logs = jnp.log(jnp.exp(-distance).sum(axis=-1)) - math.log(points)
        return -logs.mean(axis=-1)

    return information(near), information(far)


@in_double
def _together(mean: Any, covariance: Any, other_mean: Any, other: Any) -> Array:
    outputs = mean.shape[-1]
    total: Any = 0.0
    for output in range(outputs):
        p = MultivariateNormal(mean[..., output], covariance)
        q = MultivariateNormal(other_mean[..., output], other)
        total = total + kl_of_distributions(p, q)
    return jnp.asarray(total)


__all__ = ["EnsembleInformation", "ensemble_information", "ensemble_kl"]
