"""Programs of arrays as parameters of primitives: what runs is in the equation, as for every call of JAX."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive, jaxpr_as_fun

Function: TypeAlias = Callable[..., Sequence[Any]]
"""From arrays to arrays."""


def bind(primitive: Primitive, function: Function, operands: Any, **params: Any) -> list[Any]:
    """The results of a primitive that runs a function."""
    operands = tuple(operands)
    return list(primitive.bind(*operands, jaxpr=jax.make_jaxpr(function)(*operands), **params))


def evaluate(*operands: Any, jaxpr: ClosedJaxpr, **_: Any) -> Sequence[Any]:
    """What such a primitive computes."""
    return jaxpr_as_fun(jaxpr)(*operands)


def shapes(*_: Any, jaxpr: ClosedJaxpr, **__: Any) -> Sequence[Any]:
    """What such a primitive's results look like."""
    return jaxpr.out_avals


def returning(program: ClosedJaxpr, outvars: Sequence[Any]) -> Function:
    """The program's function with other results."""
    inner = program.jaxpr
    names = inner.debug_info.with_unknown_names()
    other = Jaxpr(inner.constvars, inner.invars, outvars, inner.eqns, inner.effects, names)
    return jaxpr_as_fun(ClosedJaxpr(other, program.consts))


def number(literal: Any) -> Any:
    """A number written into a program, as an array."""
    return jnp.asarray(literal.val, literal.aval.dtype)


def without_constants(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its constants as first operands, so that derivatives by them can be taken, too."""
    inner = program.jaxpr
    names = inner.debug_info.with_unknown_names()
    invars = [*inner.constvars, *inner.invars]
    return ClosedJaxpr(Jaxpr((), invars, inner.outvars, inner.eqns, inner.effects, names), ())


def is_inexact(value: Any) -> bool:
    """Whether derivatives by a value exist: floating-point or complex."""
    return bool(jnp.issubdtype(value.dtype, jnp.inexact))


def chosen(which: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    """Those of the values that are chosen."""
    return [value for yes, value in zip(which, values, strict=True) if yes]


def merged(which: Sequence[bool], some: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The values, with some in place of those that are chosen."""
    given = iter(some)
    return [next(given) if yes else value for yes, value in zip(which, values, strict=True)]


__all__ = [
    "Function",
    "bind",
    "chosen",
    "evaluate",
    "is_inexact",
    "merged",
    "number",
    "returning",
    "shapes",
    "without_constants",
]
