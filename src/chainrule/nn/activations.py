"""Activation functions by name, each with the gain that keeps variance steady through depth.

The gain is the factor on the standard deviation of a layer's weights, at unit variance `1 / fan_in`, that makes the
mean square of the activations neither grow nor fade (He et al., 2015, arXiv:1502.01852; LeCun et al., 1998).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.registry import Registry
from chainrule.core.types import Array


@final
@dataclass(frozen=True)
class Activation:
    """A function applied entry by entry, and its gain."""

    name: str
    function: Callable[[Array], Array]
    gain: float

    def __call__(self, x: Array) -> Array:
        """The activation of every entry."""
        return self.function(x)


activations: Registry[Activation] = Registry("activation")

for _name, _function, _gain in (
    ("identity", lambda x: x, 1.0),
    ("relu", jax.nn.relu, math.sqrt(2)),
    ("leaky-relu", lambda x: jax.nn.leaky_relu(x, 0.01), math.sqrt(2 / (1 + 0.01**2))),
    ("elu", jax.nn.elu, math.sqrt(2)),
    ("tanh", jnp.tanh, 5 / 3),
    ("sigmoid", jax.nn.sigmoid, 1.0),
    ("gelu", lambda x: jax.nn.gelu(x, approximate=False), math.sqrt(2)),
    ("silu", jax.nn.silu, math.sqrt(2)),
    ("softplus", jax.nn.softplus, 1.0),
    ("sign", lambda x: jnp.where(x > 0, 1.0, -1.0).astype(x.dtype), 1.0),
    ("step", lambda x: jnp.where(x > 0, 1.0, 0.0).astype(x.dtype), 1.0),
):
    activations.add(_name, Activation(_name, _function, _gain))


def activation(name: str) -> Activation:
    """An activation by its name.

    >>> float(activation("gelu")(jnp.array(1.0)))  # exact: x/2 (1 + erf(x/sqrt 2))
    0.841344...
    """
    return activations[name]


__all__ = ["Activation", "activation", "activations"]
