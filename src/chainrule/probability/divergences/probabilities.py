"""Checks of arguments of divergences: probabilities along the last axis, and the unit of information."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array

_TOLERANCE = 1e-6
_UNITS = {"nats": math.e, "bits": 2.0}


def pair(p: Any, q: Any, normalize: bool) -> tuple[Array, Array]:
    """Two arrays of probabilities with the same outcomes, broadcast against each other."""
    p, q = checked("p", p, normalize), checked("q", q, normalize)
    if p.shape[-1] != q.shape[-1]:
        raise ArgumentError(f"p has {p.shape[-1]} outcomes and q has {q.shape[-1]}: they must have the same")
    dtype = jnp.promote_types(p.dtype, q.dtype)
    shape = jnp.broadcast_shapes(p.shape, q.shape)
    return jnp.broadcast_to(p, shape).astype(dtype), jnp.broadcast_to(q, shape).astype(dtype)


def checked(name: str, values: Any, normalize: bool) -> Array:
    """Probabilities as an array; inside a compiled function the checks run with it.

    >>> checked("p", [[0.5, 0.5], [0.5, 0.25]], False)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: p: row 1 sums to 0.75; rows must sum to 1 within 1e-06
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
            return array / total
        return eqx.error_if(array, jnp.abs(total - 1) > _TOLERANCE, f"{name} does not sum to one")
    exact = np.asarray(array, dtype=np.float64)
    if not (exact >= 0).all():
        worst = np.nanmin(exact) if not np.isnan(exact).any() else math.nan
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
            remedy="pass normalize=True to rescale",
        )
    return array


def floating(values: Any) -> Array:
    """Numbers as an array of floats."""
    array = jnp.asarray(values)
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.result_type(float))


def log_base(base: float, unit: str | None = None) -> float:
    """Logarithm of the base: divides nats. `unit` ("nats" or "bits"), where given, is another way to say it.

    >>> log_base(2) == log_base(math.e, "bits")
    True
    """
    if unit is not None:
        check_choice("divergences", "unit", unit, _UNITS)
        if base not in (math.e, _UNITS[unit]):
            raise ArgumentError(
                f'base={base:g} and unit="{unit}" contradict each other', remedy="give one of them"
            )
        base = _UNITS[unit]
    if base not in _UNITS.values():
        raise ArgumentError(
            f"base={base}: information is measured in nats (base=math.e) or bits (base=2)",
            remedy='or say unit="nats" or unit="bits"',
        )
    return math.log(base)


def check_convention(where: str, convention: str) -> None:
    """Raise unless it is one of the two that texts follow."""
    check_choice(where, "convention", convention, ("half", "full"))


__all__ = ["check_convention", "checked", "floating", "log_base", "pair"]
