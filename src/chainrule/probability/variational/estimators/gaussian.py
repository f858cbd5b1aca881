"""Gaussian identities: derivatives of a Gaussian mean are means of derivatives (Bonnet, 1964; Price, 1958).

d/dmu E f(z) = E grad f(z)        d/dSigma E f(z) = 1/2 E Hessian f(z)
"""

from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal
from chainrule.probability.variational.estimators.base import GradientEstimator
from chainrule.probability.variational.problems import GuidedMean, draws


@final
class GaussianIdentities(GradientEstimator):
    """First derivatives move the mean of a Gaussian guide, second derivatives its covariance.

    For a code of K entries the second derivatives take K Hessian-vector products for each draw; in return none of the
    noise of `z = mean + L eps` reaches the gradient of the covariance, and f may be any function of z.
    """

    @property
    def label(self) -> str:
        """What it is called in tables and pictures."""
        return "Gaussian identities"

    @property
    def is_biased(self) -> bool:
        """No."""
        return False

    def obstacle(self, q: Distribution) -> str:
        """The identities are those of Gaussians."""
        if isinstance(q, Normal | MultivariateNormal):
            return ""
        return f"the guide is {type(q).__name__}, the identities hold for Normal and MultivariateNormal"

    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The mean of f, with a linear function of mean and covariance that is zero and has their gradients."""
        q = problem.checked_guide(phi)
        averaged, closed = problem.split(q)
        z = jax.lax.stop_gradient(draws(q, key, samples))
        slope = jax.vmap(jax.grad(averaged))(z).mean(axis=0)
        curvature = jax.vmap(jax.hessian(averaged))(z).mean(axis=0)
        moved = (slope * _movement(q.mean)).sum() + (curvature * _movement(q.covariance)).sum() / 2
        return jax.vmap(averaged)(z).mean() + moved + closed


def _movement(parameter: Array) -> Array:
    """Zero, with the derivative of the parameter."""
    return parameter - jax.lax.stop_gradient(jnp.asarray(parameter))


__all__ = ["GaussianIdentities"]
