"""The angular part of arc-cosine kernels, which are also the mean products of rectified Gaussian pairs.

With t the angle between two vectors, `J_0 = pi - t`, `J_1 = sin t + (pi - t) cos t` and
`J_2 = 3 sin t cos t + (pi - t)(1 + 2 cos² t)`. As functions of c = cos t each has a simple derivative, `J_2' = 4 J_1`,
`J_1' = J_0` and `J_0' = 1 / sin t`, which is stated here, because the chain rule through the angle is infinity times
zero where vectors are parallel. The last derivative is infinite there in truth: it is cut off.

Reference: Cho and Saul, Kernel methods for deep learning, 2009.
"""

import functools

import jax
import jax.numpy as jnp

from chainrule.core.types import Array


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def angular(cosine: Array, order: int) -> Array:
    """`J_order / pi` by the cosine of the angle; cosines that rounding took out of [-1, 1] count as the edge.

    >>> [float(angular(jnp.array(1.0), order)) for order in (0, 1, 2)]
    [1.0, 1.0, 3.0]
    """
    cosine = jnp.clip(cosine, -1, 1)
    angle = jnp.arccos(cosine)
    rest = jnp.pi - angle
    if order == 0:
        return rest / jnp.pi
    sine = jnp.sqrt((1 - cosine) * (1 + cosine))
    if order == 1:
        return (sine + rest * cosine) / jnp.pi
    return (3 * sine * cosine + rest * (1 + 2 * jnp.square(cosine))) / jnp.pi


@angular.defjvp
def _angular_jvp(order: int, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (cosine,), (moved,) = primals, tangents
    value = angular(cosine, order)
    if order == 2:
        return value, 4 * angular(cosine, 1) * moved
    if order == 1:
        return value, angular(cosine, 0) * moved
    edge = 1e-12 if cosine.dtype == jnp.float64 else 1e-6
    near = jnp.clip(cosine, edge - 1, 1 - edge)
    return value, moved / (jnp.pi * jnp.sqrt((1 - near) * (1 + near)))


__all__ = ["angular"]
