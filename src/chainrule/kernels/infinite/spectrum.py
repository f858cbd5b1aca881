"""Gradient descent on a linear model, solved: what training does in the directions in which the tangent kernel acts.

For the loss `½ sum (f - y)²` outputs move by `df/dt = -rate Theta (f - y)`. In the eigenvectors of Theta every
direction goes its own way at the rate of its eigenvalue, so one decomposition gives all times at once. The learnt
share of a direction is `1 - exp(-rate t l)`, or `1 - (1 - rate l)^n` after n discrete steps.
"""

import warnings
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Float
from chainrule.kernels.positive import symmetric
from chainrule.kernels.precision import in_double


@final
class Descent(eqx.Module):
    """The eigenvalues and eigenvectors of a tangent kernel, and how fast training follows them."""

    values: Float[Array, " points"] | Float[np.ndarray, " points"]
    vectors: Float[Array, "points points"] | Float[np.ndarray, "points points"]
    rate: float = eqx.field(static=True)
    discrete: bool = eqx.field(static=True)

    def inverse(self, t: Array) -> Float[Array, " points"]:
        """The learnt share of every direction at one time over its eigenvalue: `Theta^-1 (I - exp(-rate t Theta))`.

        Directions that the kernel does not know (eigenvalues that are zero up to rounding) are never learnt.
        """
        known = self.values > rounding(self.values)
        values = jnp.where(known, self.values, 1.0)
        if self.discrete:
            # log1p and expm1 keep the digits of slow directions; a factor below zero alternates in sign.
            factor = 1 - self.rate * values
            steps = jnp.where(jnp.isinf(t), 0.0, t)
            size = jnp.abs(factor) ** steps  # of a factor of zero, too, which is one before the first step
            grown = jnp.where(factor < 0, jnp.where(steps % 2 == 1, -size, size), size)
            slow = -jnp.expm1(steps * jnp.log1p(-jnp.minimum(self.rate * values, 0.5)))
            share = jnp.where(self.rate * values < 0.5, slow, 1 - grown)
            end = jnp.where(jnp.abs(factor) < 1, 1.0, jnp.nan)
            share = jnp.where(jnp.isinf(t), end, share)
        else:
            share = -jnp.expm1(-self.rate * t * values)
        return jnp.where(known, share / values, 0.0)

    def applied(self, t: Array, b: Float[Array, "points *columns"]) -> Float[Array, "points *columns"]:
        """`Theta^-1 (I - exp(-rate t Theta)) b`: the dual coefficients that training has found by then."""
        inner = jnp.matmul(self.vectors.T, b, precision="highest")
        weights = self.inverse(t)
        scaled = weights.reshape(-1, *(1,) * (b.ndim - 1)) * inner
        return jnp.matmul(self.vectors, scaled, precision="highest")


def rounding(values: Array | np.ndarray) -> Array:
    """What rounding may do to eigenvalues: N eps times the largest."""
    return len(values) * jnp.finfo(values.dtype).eps * jnp.maximum(values[-1], 0)


def decomposed(theta: Any, *, rate: float, discrete: bool, warn: bool = True) -> Descent:
    """The decomposition of a tangent kernel matrix, in double precision; warns where targets are out of reach."""
    matrix = symmetric("gradient_descent", "ntk", theta)
    if not 0 < rate < np.inf:
        raise ArgumentError(
            f"gradient_descent(learning_rate={rate}): learning_rate must be positive and finite"
        )
    values, vectors = _eigen(matrix)
    limit = 2 / values[-1] if values[-1] > 0 else np.inf
    if discrete and rate >= limit:
        raise ArgumentError(
            f"gradient_descent(learning_rate={rate:g}): steps of this size diverge; the largest eigenvalue of the "
            f"tangent kernel is {values[-1]:.4g}",
            remedy=f"stay below max_learning_rate: learning_rate={0.9 * limit:.3g}",
        )
    floor = len(values) * np.finfo(np.float64).eps * values[-1]
    if warn and values[0] <= floor:
        warnings.warn(
            f"gradient_descent: the tangent kernel is not positive definite, its smallest eigenvalue is {values[0]:.3g}"
            f" beside {values[-1]:.3g}: training does not reach every target (duplicate inputs, or fewer features "
            "than points)",
            ChainruleWarning,
            stacklevel=4,
        )
    return Descent(values, vectors, float(rate), discrete)


@in_double
def _eigen(matrix: Array) -> tuple[Array, Array]:
    return jnp.linalg.eigh(matrix)


def max_learning_rate(theta: Any, momentum: float = 0.0) -> float:
    """The learning rate from which gradient descent on `½ sum (f - y)²` diverges: `2 (1 + momentum) / lambda_max`.

    >>> max_learning_rate([[2.0, 0.0], [0.0, 4.0]])
    0.5
    """
    if not 0 <= momentum < 1:
        raise ArgumentError(f"max_learning_rate(momentum={momentum}): momentum must lie in [0, 1)")
    largest = np.linalg.eigvalsh(symmetric("max_learning_rate", "theta", theta))[-1]
    if not largest > 0:
        raise ArgumentError(
            f"max_learning_rate(theta): its largest eigenvalue is {largest:.3g}; nothing would move"
        )
    return float(2 * (1 + momentum) / largest)


__all__ = ["Descent", "decomposed", "max_learning_rate", "rounding"]
