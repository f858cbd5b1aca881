"""Activations by the names they go by, and by the functions of JAX that compute them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, spell, suggest
from chainrule.kernels.infinite.closed_forms import (
    Bell,
    ErrorFunction,
    ExponentialActivation,
    Gelu,
    PolynomialActivation,
    Rectifier,
    Sine,
    StepActivation,
)
from chainrule.kernels.infinite.dual import DualActivation
from chainrule.kernels.infinite.numerical import Quadrature

ACTIVATIONS: Mapping[str, Callable[[], DualActivation]] = {
    "relu": Rectifier,
    "leaky_relu": lambda: Rectifier(0.01),
    "abs": lambda: Rectifier(-1.0),
    "identity": lambda: Rectifier(1.0, 1.0),
    "step": StepActivation,
    "sign": lambda: StepActivation(signed=True),
    "erf": ErrorFunction,
    "gelu": Gelu,
    "sin": Sine,
    "cos": lambda: Sine(phase=math.pi / 2),
    "square": lambda: PolynomialActivation.monomial(2),
    "cube": lambda: PolynomialActivation.monomial(3),
    "exp": ExponentialActivation,
    "gaussian": Bell,
    "tanh": lambda: Quadrature(jnp.tanh),
    "sigmoid": lambda: Quadrature(jax.nn.sigmoid),
    "silu": lambda: Quadrature(jax.nn.silu),
    "softplus": lambda: Quadrature(jax.nn.softplus),
}
"""What every name stands for."""

_FUNCTIONS: Mapping[Any, str] = {
    jax.nn.relu: "relu",
    jax.nn.leaky_relu: "leaky_relu",
    jax.nn.identity: "identity",
    jax.nn.sigmoid: "sigmoid",
    jax.nn.silu: "silu",
    jax.nn.softplus: "softplus",
    jax.scipy.special.erf: "erf",
    jax.lax.erf: "erf",
    jnp.abs: "abs",
    jnp.sign: "sign",
    jnp.sin: "sin",
    jnp.cos: "cos",
    jnp.exp: "exp",
    jnp.square: "square",
    jnp.tanh: "tanh",
}
"""Functions of JAX with a closed form, which quadrature would only come close to, or with a name."""


def activation_of(where: str, activation: Any) -> DualActivation:
    """An activation as it is, by name, or as a function of an array, whose mean products are found by quadrature.

    >>> activation_of("Dense", "relu")
    Rectifier(negative=0.0, positive=1.0)
    >>> activation_of("Dense", "rely")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Dense(activation="rely"): unknown (did you mean 'relu'?)
           activations with a name: "relu", ... or "softplus"; or give a function of an array
    """
    if isinstance(activation, DualActivation):
        return activation
    if isinstance(activation, str):
        if activation not in ACTIVATIONS:
            raise ArgumentError(
                f'{where}(activation="{activation}"): unknown{suggest(activation, ACTIVATIONS)}',
                remedy=f"activations with a name: {spell(ACTIVATIONS)}; or give a function of an array",
            )
        return ACTIVATIONS[activation]()
    if callable(activation):
        known = _FUNCTIONS.get(activation)
        return Quadrature(activation) if known is None else ACTIVATIONS[known]()
    raise ArgumentError(
        f"{where}(activation={activation!r}): a name, an activation or a function of an array is needed"
    )


__all__ = ["ACTIVATIONS", "activation_of"]
