"""Gaussian integration by parts (Stein's identity): E[(X - m) f(X)] = C E[grad f(X)], checked on draws.

Two derivatives of expected values follow from it: that in the mean is E[grad f(X)], that in the covariance half of
E[Hessian f(X)].

Reference: Stein, Estimation of the mean of a multivariate normal distribution, Annals of Statistics 9, 1981.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution


class SteinResidual(NamedTuple):
    """Both sides of Stein's identity as means over the same draws, one entry for each variable."""

    left: Float[Array, "*size"]
    """E[(X - m) f(X)]."""
    right: Float[Array, "*size"]
    """C E[grad f(X)]."""
    error: Float[Array, "*size"]
    """Standard error of left - right: the identity holds if they differ by no more than a few of these."""


def stein_residual(
    distribution: Distribution, f: Callable[[Any], Any], key: Key, samples: int = 10_000
) -> SteinResidual:
    """Both sides of E[(X_i - m_i) f(X)] = sum_j C_ij E[d_j f(X)], for draws X of a distribution.

    `f` takes one draw and returns a number. The sides agree for normal X, singular ones included; if not, X is not
    normal, or `f` jumps somewhere (its gradient misses the jump) or grows too fast.

    >>> from chainrule.probability import Normal
    >>> found = stein_residual(Normal(1.0, 2.0), lambda x: x**2, jax.random.key(0))  # both sides are 8
    >>> bool(abs(found.left - found.right) < 4 * found.error)
    True
    """
    if distribution.batch_shape or len(distribution.event_shape) > 1:
        raise ArgumentError(
            "stein_residual(distribution): needs one distribution of numbers or vectors, not batch shape "
            f"{distribution.batch_shape} and event shape {distribution.event_shape}",
            remedy="jax.vmap over the batch",
        )
    count = whole("stein_residual", "samples", samples, least=2)
    mean, covariance = distribution.mean, distribution.covariance
    output = jax.eval_shape(f, mean)
    if not isinstance(output, jax.ShapeDtypeStruct) or output.shape != ():
        raise ArgumentError(
            f"stein_residual(f): f must return one number, not {output}",
            remedy="one output at a time: f(x)[0]",
        )
    draws = distribution.sample(key, count)

    def sides(x: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(f)(x)
        return (x - mean) * value, jnp.dot(covariance, gradient)

    left, right = jax.jit(jax.vmap(sides))(draws)
    error = (left - right).std(axis=0, ddof=1) / count**0.5
    return SteinResidual(left.mean(axis=0), right.mean(axis=0), error)


__all__ = ["SteinResidual", "stein_residual"]
