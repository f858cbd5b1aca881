"""A latent-variable model of one number, all of whose quantities can be written down.

z ~ Exp(theta) and x | z ~ N(z, 1), with the guide q = Exp(phi). The bound is

    L = log theta - theta/phi - log sqrt(2 pi) - (x² - 2x/phi + 2/phi²)/2 - log phi + 1

where the last term of the square is E z² = 2/phi², twice what the square of the mean would give. It shows what a bound
that is not tight does: the theta that maximises it is not the one that maximises the evidence.
"""

import math
from typing import NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, ArrayLike, Float

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@final
class Optimum(NamedTuple):
    """Where the bound is largest, and how large."""

    theta: float
    phi: float
    bound: float


def bound(
    x: Float[ArrayLike, ""], theta: Float[ArrayLike, ""], phi: Float[ArrayLike, ""]
) -> Float[Array, ""]:
    """The ELBO in nats.

    >>> round(float(bound(2.0, 1.0, 1.0)), 6)
    -1.918939
    """
    x, theta, phi = (jnp.asarray(value, float) for value in (x, theta, phi))
    reconstruction = -_HALF_LOG_TWO_PI - 0.5 * (x**2 - 2 * x / phi + 2 / phi**2)
    return jnp.log(theta) - theta / phi + reconstruction - jnp.log(phi) + 1


def evidence(x: Float[ArrayLike, ""], theta: Float[ArrayLike, ""]) -> Float[Array, ""]:
    """log p(x) = log theta + theta²/2 - theta x + log Phi(x - theta).

    >>> round(float(evidence(2.0, 1.0)), 6)
    -1.672754
    """
    x, theta = (jnp.asarray(value, float) for value in (x, theta))
    excess = x - theta
    near = theta**2 / 2 - theta * x + jax.scipy.special.log_ndtr(jnp.maximum(excess, 0.0))
    # In the tail of Phi the square and the logarithm are large and cancel; this form of the same has neither.
    far = jnp.log(jax.scipy.special.erfcx(jnp.maximum(-excess, 0.0) / math.sqrt(2)) / 2) - x**2 / 2
    return jnp.log(theta) + jnp.where(excess > 0, near, far)


def joint_optimum(x: float) -> Optimum:
    """Both parameters at their best: theta = phi = 2/x, where the bound is `-log sqrt(2 pi) - x²/4`.

    >>> joint_optimum(0.0)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: joint_optimum(x=0.0): the bound has no maximum for x <= 0, it grows with theta
           give theta and use best_phi(x, theta)
    """
    if not x > 0:
        raise ArgumentError(
            f"joint_optimum(x={x}): the bound has no maximum for x <= 0, it grows with theta",
            remedy="give theta and use best_phi(x, theta)",
        )
    return Optimum(2 / x, 2 / x, -_HALF_LOG_TWO_PI - x**2 / 4)


def best_phi(x: Float[ArrayLike, ""], theta: Float[ArrayLike, ""]) -> Float[Array, ""]:
    """The best guide of a given model: the positive root of `phi² + (x - theta) phi - 2 = 0`.

    >>> float(best_phi(2.0, 1.0))
    1.0
    """
    excess = jnp.asarray(x, float) - jnp.asarray(theta, float)
    root = jnp.sqrt(excess**2 + 8)
    # Of the two spellings of the root, the one in which nothing cancels.
    return jnp.where(excess > 0, 4 / (root + jnp.abs(excess)), (root + jnp.abs(excess)) / 2)


__all__ = ["Optimum", "best_phi", "bound", "evidence", "joint_optimum"]
