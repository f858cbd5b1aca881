"""Activation functions by name, each with the gain that keeps variance steady through depth.

The gain is the factor on the standard deviation of a layer's weights, at unit variance `1 / fan_in`, that makes the
mean square of the activations neither grow nor fade (He et al., 2015, arXiv:1502.01852; LeCun et al., 1998). At a kink
the derivative is the one from the left: 0 for the rectifier at 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Array, Float


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

    def derivative(self, x: Array) -> Array:
        """The derivative at every entry.

        >>> activation("relu").derivative(jnp.array([-1.0, 0.0, 1.0]))
        Array([0., 0., 1.], dtype=float32)
        """
        return jax.jvp(self.function, (x,), (jnp.ones_like(x),))[1]


def sign(x: Array) -> Array:
    """+1 where x is positive, else -1."""
    return jnp.where(x > 0, 1.0, -1.0).astype(x.dtype)


def step(x: Array) -> Array:
    """1 where x is positive, else 0."""
    return jnp.where(x > 0, 1.0, 0.0).astype(x.dtype)


def glu(x: Float[Array, "*axes doubled"]) -> Float[Array, "*axes features"]:
    """The first half of the features times the sigmoid of the second (Dauphin et al., 2017)."""
    return _from_argument(lambda value, gate: value * jax.nn.sigmoid(gate))(*_halves("glu", x))


def swiglu(x: Float[Array, "*axes doubled"]) -> Float[Array, "*axes features"]:
    """The first half of the features times the SiLU of the second (Shazeer, 2020)."""
    return _from_argument(lambda value, gate: value * jax.nn.silu(gate))(*_halves("swiglu", x))


def _halves(where: str, x: Array) -> list[Array]:
    if not x.ndim or x.shape[-1] % 2 or not x.shape[-1]:
        raise ArgumentError(
            f"{where}: an input of shape {x.shape} has no two halves along its last axis",
            remedy="give it an even number of features, twice as many as come out",
        )
    return jnp.split(x, 2, axis=-1)


def _from_argument(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function; where numbers have half the size, computed in single precision and again on the way back.

    Only its arguments are kept for the gradient then, not the parts of the formula, which would have to be written and
    read as well: on a GPU that takes longer than to compute them.
    """

    def rounded_once(*x: Array) -> Array:
        return function(*(a.astype(jnp.float32) for a in x)).astype(x[0].dtype)

    def of(*x: Array) -> Array:
        return jax.checkpoint(rounded_once)(*x) if x[0].dtype.itemsize < 4 else function(*x)

    return of


def _untrainable(name: str, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The function, with an error instead of a derivative that is zero everywhere."""
    flat = jax.custom_jvp(function)

    def refuse(primals: tuple[Array], tangents: tuple[Array | SymbolicZero]) -> tuple[Array, Array]:
        if not isinstance(tangents[0], SymbolicZero):
            raise ArgumentError(
                f"activation {name!r} has derivative zero: nothing before it would ever be trained",
                remedy=f"use {name}-straight-through, which passes gradients on where |x| <= 1",
            )
        out = function(primals[0])
        return out, jnp.zeros_like(out)

    flat.defjvp(refuse, symbolic_zeros=True)
    return flat


def _straight_through(function: Callable[[Array], Array], slope: float) -> Callable[[Array], Array]:
    """The function, with the derivative of a ramp from -1 to 1 (Bengio et al., 2013, arXiv:1308.3432)."""
    through = jax.custom_jvp(function)

    @through.defjvp
    def ramp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (t,) = primals, tangents
        return function(x), jnp.where(jnp.abs(x) <= 1, slope * t, 0).astype(t.dtype)

    return through


ActivationName = Literal[
    "relu",
    "relu6",
    "identity",
    "leaky-relu",
    "leaky-relu-0.2",
    "elu",
    "tanh",
    "sigmoid",
    "gelu",
    "gelu-tanh",
    "silu",
    "softplus",
    "selu",
    "sign",
    "step",
    "sign-straight-through",
    "step-straight-through",
]
"""The names of all activations, for settings."""
activations: Registry[Activation] = Registry("activation")

for _name, _function, _gain in (
    ("identity", lambda x: x, 1.0),
    ("relu", jax.nn.relu, math.sqrt(2)),
    ("relu6", jax.nn.relu6, math.sqrt(2)),
    ("leaky-relu", lambda x: jnp.where(x > 0, x, 0.01 * x), math.sqrt(2 / (1 + 0.01**2))),
    ("leaky-relu-0.2", lambda x: jnp.where(x > 0, x, 0.2 * x), math.sqrt(2 / (1 + 0.2**2))),
    ("elu", jax.nn.elu, math.sqrt(2)),
    ("tanh", jnp.tanh, 5 / 3),
    ("sigmoid", jax.nn.sigmoid, 1.0),
    ("gelu", _from_argument(lambda x: jax.nn.gelu(x, approximate=False)), math.sqrt(2)),
    ("gelu-tanh", _from_argument(lambda x: jax.nn.gelu(x, approximate=True)), math.sqrt(2)),
    ("silu", _from_argument(jax.nn.silu), math.sqrt(2)),
    ("softplus", jax.nn.softplus, 1.0),
    ("selu", jax.nn.selu, 1.0),
    ("sign", _untrainable("sign", sign), 1.0),
    ("step", _untrainable("step", step), 1.0),
    ("sign-straight-through", _straight_through(sign, 1.0), 1.0),
    ("step-straight-through", _straight_through(step, 0.5), 1.0),
):
    activations.add(_name, Activation(_name, _function, _gain))


def activation(name: str) -> Activation:
    """An activation by its name.

    >>> float(activation("gelu")(jnp.array(1.0)))  # exact: x/2 (1 + erf(x/sqrt 2)); "gelu-tanh" is another function
    0.841344...
    """
    return activations[name]


__all__ = ["Activation", "ActivationName", "activation", "activations", "glu", "sign", "step", "swiglu"]
