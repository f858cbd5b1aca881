"""Parameters of distributions: as arrays of one type and shape, and inside their domain.

Outside of compiled functions a parameter out of its domain is an error that names its value and position; inside of
them the same check runs with the program.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array

_TOLERANCE = 1e-6
"""How far the sum of probabilities may be from one."""


def floating(value: Any) -> Array:
    """An array of floating-point numbers; whole numbers become the default type.

    >>> floating([1, 2]).dtype == floating(0.5).dtype
    True
    """
    array = jnp.asarray(value)
    dtype = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else jnp.result_type(float)
    return jnp.asarray(array, dtype)


def broadcast(where: str, **parameters: Any) -> list[Array]:
    """Parameters as arrays of one floating type and one shape, the batch shape of a distribution.

    >>> [one.shape for one in broadcast("Normal", mean=[0.0, 1.0], scale=1)]
    [(2,), (2,)]
    >>> broadcast("Normal", mean=np.zeros(3), scale=np.ones(2))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Normal: mean of shape (3,) and scale of shape (2,) do not broadcast
    """
    arrays = [jnp.asarray(value) for value in parameters.values()]
    dtype = floating(jnp.zeros((), jnp.result_type(*arrays))).dtype
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        shapes = " and ".join(f"{n} of shape {a.shape}" for n, a in zip(parameters, arrays, strict=True))
        raise ArgumentError(f"{where}: {shapes} do not broadcast") from None
    return [jnp.broadcast_to(array.astype(dtype), shape) for array in arrays]


def require(
    where: str, name: str, value: Array, rule: Callable[[Any], Any], wanted: str, remedy: str = ""
) -> Array:
    """`value`, where `rule` holds for every entry of it.

    >>> require("Normal", "scale", jnp.array([1.0, -2.0]), lambda v: v > 0, "be positive")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Normal: scale[1] is -2; scale must be positive
    """
    if isinstance(value, jax.core.Tracer):
        return eqx.error_if(value, ~rule(value), f"{where}: {name} must {wanted}")
    exact = np.asarray(value)
    holds = np.asarray(rule(exact))
    if not holds.all():
        first = tuple(int(i) for i in np.argwhere(~holds)[0])
        at = f"[{', '.join(map(str, first))}]" if first else ""
        raise ArgumentError(f"{where}: {name}{at} is {exact[first]:.6g}; {name} must {wanted}", remedy=remedy)
    return value


def finite(where: str, name: str, value: Array) -> Array:
    """`value`, without infinities and NaN."""
    return require(where, name, value, lambda v: abs(v) < np.inf, "be finite")


def positive(where: str, name: str, value: Array) -> Array:
    """`value`, positive and finite."""
    return require(where, name, value, lambda v: (v > 0) & (v < np.inf), "be positive and finite")


def unit(where: str, name: str, value: Array) -> Array:
    """`value`, between 0 and 1."""
    return require(where, name, value, lambda v: (v >= 0) & (v <= 1), "lie between 0 and 1")


def probabilities(where: str, name: str, value: Any, normalize: bool = False) -> Array:
    """Probabilities along the last axis: not negative, and with sum one.

    >>> probabilities("Categorical", "probs", [[0.5, 0.5], [0.5, 0.25]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Categorical: probs, row 1, sums to 0.75 instead of 1
           pass normalize=True to divide by the sum
    """
    array = floating(value)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ArgumentError(f"{where}: {name} needs an axis of outcomes, not shape {array.shape}")
    array = require(where, name, array, lambda v: (v >= 0) & (v < np.inf), "be at least 0 and finite")
    total = array.sum(axis=-1, keepdims=True)
    if isinstance(array, jax.core.Tracer):
        if normalize:
            array = eqx.error_if(array, total <= 0, f"{where}: {name} must have a positive sum")
            return array / total
        return eqx.error_if(array, abs(total - 1) > _TOLERANCE, f"{where}: {name} must sum to 1")
    sums = np.asarray(array, np.float64).sum(axis=-1)
    wrong = sums <= 0 if normalize else abs(sums - 1) > _TOLERANCE
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        row = f", row {', '.join(map(str, first))}," if first else ""
        if normalize:
            raise ArgumentError(f"{where}: {name}{row} sums to {sums[first]:.6g} and cannot be normalised")
        raise ArgumentError(
            f"{where}: {name}{row} sums to {sums[first]:.8g} instead of 1",
            remedy="pass normalize=True to divide by the sum",
        )
    return array / total if normalize else array


def exactly_one(where: str, **alternatives: Any) -> str:
    """The name of the one argument that was given.

    >>> exactly_one("Bernoulli", probs=None, logits=None)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Bernoulli: give one of probs and logits
    """
    given = [name for name, value in alternatives.items() if value is not None]
    if len(given) != 1:
        raise ArgumentError(f"{where}: give one of {' and '.join(alternatives)}")
    return given[0]


__all__ = [
    "broadcast",
    "exactly_one",
    "finite",
    "floating",
    "positive",
    "probabilities",
    "require",
    "unit",
]
