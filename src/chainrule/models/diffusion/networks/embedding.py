"""What a network is told beside the noisy data: the noise level, and perhaps a class, as one vector.

The level comes as waves over lam, from slow ones that tell noise from data to fast ones for detail.
"""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.nn import Linear

FEATURES = 64


def waves(lam: Float[Array, " batch"]) -> Float[Array, "batch features"]:
    """Sines and cosines of lam at 32 frequencies between 1/32 and 4.

    >>> waves(jnp.zeros(2)).shape
    (2, 64)
    """
    frequencies = jnp.exp2(jnp.linspace(-5.0, 2.0, FEATURES // 2)).astype(lam.dtype)
    angles = lam[:, None] * frequencies[None]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)


@final
class Context(eqx.Module):
    """Two dense layers over the waves of lam, plus a learned vector for each class and one for none."""

    level: tuple[Linear, Linear]
    names: Float[Array, "classes_and_none width"] | None

    def __init__(self, width: int, classes: int, key: Key) -> None:
        one, two, three = jax.random.split(key, 3)
        self.level = (
            Linear(FEATURES, width, key=one, gain=math.sqrt(2)),
            Linear(width, width, key=two),
        )
        self.names = jax.random.normal(three, (classes + 1, width)) if classes else None

    def __call__(self, lam: Array, condition: Any, count: int) -> Float[Array, "batch width"]:
        """The vector of each of `count` examples; no condition is the last name."""
        first, second = self.level
        c = second(jax.nn.silu(first(waves(jnp.broadcast_to(lam, (count,))))))
        if self.names is not None:
            wanted = len(self.names) - 1 if condition is None else condition
            c = c + self.names[jnp.broadcast_to(jnp.asarray(wanted), (count,))]
        return jax.nn.silu(c)


__all__ = ["FEATURES", "Context", "waves"]
