"""Tweedie's formula of second order: the covariance of the clean data, from the derivative of the estimate.

First order: a E[x0|x] = x + s² score (Robbins, 1956; Efron, 2011), which `targets.convert` applies. Second order:
Cov[x0|x] = (s²/a) dE[x0|x]/dx, here by exact forward-mode products.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level, per_example


def posterior_covariance(
    denoiser: Denoiser, x: Float[Array, "batch ..."], level: Level, condition: Any = None
) -> Float[Array, "batch features features"]:
    """Covariance of the clean data given noisy data; its diagonal is a map of what the denoiser is unsure of."""
    features = math.prod(x.shape[1:])

    def column(direction: Array) -> Array:
        tangent = jnp.broadcast_to(direction.reshape(1, *x.shape[1:]), x.shape)
        return jax.jvp(lambda x: denoiser.value("x0", x, level, condition), (x,), (tangent,))[1]

    columns = jax.vmap(column, out_axes=-1)(jnp.eye(features, dtype=x.dtype))
    jacobian = columns.reshape(len(x), features, features)
    factor = jnp.square(jnp.asarray(level.s)) / level.a
    return per_example(factor, jacobian) * jacobian


__all__ = ["posterior_covariance"]
