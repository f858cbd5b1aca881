"""Checks of arguments of divergences: probabilities along the last axis, and the unit of information."""

import math
from typing import Any

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array
from chainrule.probability.distributions.parameters import probabilities

_UNITS = {"nats": math.e, "bits": 2.0}


def pair(p: Any, q: Any, normalize: bool) -> tuple[Array, Array]:
    """Two arrays of probabilities with the same outcomes, broadcast against each other."""
    p, q = probabilities("p", p, normalize), probabilities("q", q, normalize)
    if p.shape[-1] != q.shape[-1]:
        raise ArgumentError(f"p has {p.shape[-1]} outcomes and q has {q.shape[-1]}: they must have the same")
    dtype = jnp.promote_types(p.dtype, q.dtype)
    shape = jnp.broadcast_shapes(p.shape, q.shape)
    return jnp.broadcast_to(p, shape).astype(dtype), jnp.broadcast_to(q, shape).astype(dtype)


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


__all__ = ["check_convention", "log_base", "pair"]
