"""Gradient reversal: the identity on the way forward, the gradient times -strength on the way back.

A network behind it learns as usual, everything before it learns the opposite: put between features and a classifier of
domains, the classifier tells the domains apart while the features learn to keep it from doing so, all in one plain
minimisation. Written as `x̄ - strength (x - x̄)` with x̄ = stop_gradient(x): the difference is exactly zero, so that
values pass through bit for bit, and no rule of its own is needed for either mode, any order or a traced strength.

Reference: Ganin and Lempitsky, Unsupervised domain adaptation by backpropagation, 2015.
"""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, ArrayLike, Float


def gradient_reversal(x: Float[ArrayLike, "*axes"], strength: Any = 1.0) -> Float[Array, "*axes"]:
    """`x` itself, whose gradient comes back times `-strength`; `strength` may be traced.

    The same in forward mode: a tangent goes on times `-strength`.

    >>> float(gradient_reversal(3.0, 0.7)), round(float(jax.grad(gradient_reversal)(3.0, 0.7)), 6)
    (3.0, -0.7)
    """
    if not isinstance(strength, jax.core.Tracer) and not (jnp.ndim(strength) == 0 and strength >= 0):
        raise ArgumentError(
            f"gradient_reversal(strength={strength!r}): strength must be a number of at least 0",
            remedy="the sign is turned already; strength=0 stops the gradient",
        )
    value = jnp.asarray(x)
    kept = jax.lax.stop_gradient(value)
    return kept - jnp.asarray(strength, value.dtype) * (value - kept)


__all__ = ["gradient_reversal"]
