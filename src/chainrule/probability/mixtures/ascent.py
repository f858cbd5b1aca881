"""Mixtures of Gaussians by gradients of the log-likelihood, for comparison with EM.

Weights are a softmax, covariances products of factors whose diagonals are exponentials, so that every vector of numbers
is a mixture. A quasi-Newton method (L-BFGS) climbs by gradients what EM climbs by closed forms.

Reference: Xu and Jordan, On convergence properties of the EM algorithm for Gaussian mixtures, Neural Computation 1996.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree

from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.mixtures.expectation_maximization import (
    DeviceParameters,
    MixtureParameters,
    component_scores,
)
from chainrule.probability.mixtures.fitting import FittedMixture, checked_rows, collapsed


class _Free(NamedTuple):
    """Parameters without constraints."""

    logits: Float[Array, " components"]
    means: Float[Array, "components features"]
    factors: Float[Array, "sets *entries"]
    """Of covariances, diagonals in logarithms: triangular matrices, diagonals alone, or one number (spherical)."""


def ascend_mixture(
    x: Any,
    start: MixtureParameters,
    *,
    covariance: str = "full",
    iterations: int = 500,
    tolerance: float = 1e-6,
    regularisation: float = 1e-6,
) -> FittedMixture:
    """The mixture that L-BFGS reaches from `start`; it ends when the mean log-likelihood hardly rises any more.

    >>> from chainrule.probability.mixtures import fit_mixture, start_mixture
    >>> rows = np.random.default_rng(0).normal(size=(200, 1)) + np.repeat([0.0, 5.0], 100)[:, None]
    >>> start = start_mixture(rows, 2, restarts=1)
    >>> apart = ascend_mixture(rows, start).log_likelihood - fit_mixture(rows, 2, start=start).log_likelihood
    >>> bool(abs(apart) < 1e-4)
    True
    """
    rows = checked_rows(x, len(start.weights), covariance)
    with jax.enable_x64(True):
        first, unravel = ravel_pytree(_freed(start, covariance))
        data = jnp.asarray(rows)

        @jax.jit
        def climbed(vector: Array) -> tuple[Scalar, Array]:
            def loss(vector: Array) -> Scalar:
                parameters = _constrained(unravel(vector), covariance, regularisation)
                logs = component_scores(parameters, covariance)(data)
                return -jax.nn.logsumexp(logs, axis=1).mean()

            return jax.value_and_grad(loss)(vector)

        trace = [float(climbed(first)[0])]
        found = scipy.optimize.minimize(
            lambda vector: tuple(map(np.asarray, climbed(jnp.asarray(vector)))),
            np.asarray(first),
            jac=True,
            method="L-BFGS-B",
            callback=lambda intermediate_result: trace.append(float(intermediate_result.fun)),
            options={"maxiter": iterations, "ftol": tolerance / max(1.0, abs(trace[0])), "gtol": 1e-8},
        )
        reached = jax.jit(lambda vector: _constrained(unravel(vector), covariance, regularisation))(found.x)
        parameters = MixtureParameters(*(np.asarray(part) for part in reached))
    return FittedMixture(
        parameters,
        covariance,
        -np.array(trace),
        bool(found.success),
        len(rows),
        collapsed(parameters, regularisation),
    )


def _freed(start: MixtureParameters, covariance: str) -> _Free:
    lower = np.linalg.cholesky(start.covariances[:1] if covariance == "tied" else start.covariances)
    diagonal = np.log(np.diagonal(lower, axis1=1, axis2=2))
    factors = {
        "spherical": diagonal[:, :1],
        "diag": diagonal,
    }.get(covariance, np.tril(lower, -1) + diagonal[:, None, :] * np.eye(lower.shape[1])[None])
    return _Free(*(jnp.asarray(part) for part in (np.log(start.weights), start.means, factors)))


def _constrained(free: _Free, covariance: str, regularisation: float) -> DeviceParameters:
    components, features = free.means.shape
    eye = jnp.eye(features)
    if covariance in ("diag", "spherical"):
        spread = jnp.exp(2 * free.factors)[:, :, None] * eye[None]
    else:
        deviations = jnp.exp(jnp.diagonal(free.factors, axis1=1, axis2=2))
        lower = jnp.tril(free.factors, -1) + deviations[:, None, :] * eye[None]
        spread = lower @ lower.mT
    spread = jnp.broadcast_to(spread, (components, features, features)) + regularisation * eye[None]
    return DeviceParameters(jax.nn.softmax(free.logits), free.means, spread)


__all__ = ["ascend_mixture"]
