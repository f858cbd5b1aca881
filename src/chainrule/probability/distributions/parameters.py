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


def probabilities(
    name: str, values: Any, normalize: bool = False, *, remedy: str = "pass normalize=True to rescale"
) -> Array:
    """Probabilities along the last axis: not negative, and with sum one; else an error with the `remedy`.

    >>> probabilities("Categorical: probs", [[0.5, 0.5], [0.5, 0.25]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: Categorical: probs: row 1 sums to 0.75; rows must sum to 1 within 1e-06
           pass normalize=True to rescale
    """
    array = floating(values)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ArgumentError(f"{name}: probabilities need an axis of outcomes, not shape {array.shape}")
    total = array.sum(axis=-1, keepdims=True)
    if isinstance(array, jax.core.Tracer):
        array = eqx.error_if(
            array, ~(array >= 0), f"{name} has a probability that is negative or not a number"
        )
        if normalize:
            wrong = ~((total > 0) & (total < np.inf))
            return eqx.error_if(array, wrong, f"{name} cannot be normalised") / total
        # Sums of many numbers round, and the less precise they are the more.
        slack = max(_TOLERANCE, 2 * float(jnp.finfo(array.dtype).eps) * array.shape[-1] ** 0.5)
        return eqx.error_if(array, jnp.abs(total - 1) > slack, f"{name} does not sum to one")
    exact = np.asarray(array, dtype=np.float64)
    if not (exact >= 0).all():
        worst = np.nanmin(exact) if not np.isnan(exact).any() else np.nan
        raise ArgumentError(f"{name} holds {worst:.6g}: a probability is not negative")
    sums = exact.sum(axis=-1)
    if normalize:
        if not (np.isfinite(sums) & (sums > 0)).all():
            raise ArgumentError(f"{name}: weights that sum to {sums.min():.6g} cannot be normalised")
        return array / total
    wrong = ~(np.abs(sums - 1) <= _TOLERANCE)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        row = ", ".join(map(str, first))
        raise ArgumentError(
            f"{name}: row {row} sums to {sums[first]:.8g}; rows must sum to 1 within {_TOLERANCE:g}"
            if first
            else f"{name} sums to {sums[first]:.8g} instead of 1",
            remedy=remedy,
        )
    return array


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
