"""The noise level as a vector: waves over lam, from slow ones that tell noise from data to fast ones for detail."""

import jax.numpy as jnp

from chainrule.core.types import Array, Float

FEATURES = 64


def waves(lam: Float[Array, " batch"]) -> Float[Array, "batch features"]:
    """Sines and cosines of lam at 32 frequencies between 1/32 and 4.

    >>> waves(jnp.zeros(2)).shape
    (2, 64)
    """
    frequencies = jnp.exp2(jnp.linspace(-5.0, 2.0, FEATURES // 2)).astype(lam.dtype)
    angles = lam[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


__all__ = ["FEATURES", "waves"]
