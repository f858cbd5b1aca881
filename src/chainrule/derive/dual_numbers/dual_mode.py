"""Differentiation with dual numbers: first and second order, and through any JAX function."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.derive import validation
from chainrule.derive.dual_numbers.dual import Dual, is_dual, primal_of, tag_of, tangent_of

_fresh_tags = itertools.count(1000)  # above the tags that explicit nesting gives


def derivative(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`f'` by one evaluation with a fresh ε; may be nested and closed over freely.

    On an array all entries move together, which is what one wants of a function that works entry by entry.

    >>> derivative(lambda x: x * derivative(lambda y: x + y)(1.0))(1.0)
    1.0
    """

    validation.function("derivative", f)

    def slope(x: Any) -> Any:
        _check_numbers("derivative", x)
        tag = next(_fresh_tags)
        y = _on_duals("derivative", f, Dual(x, 1.0, tag))
        return jax.tree.map(lambda part: _slope(part, tag), y, is_leaf=is_dual)

    return slope


def _slope(y: Any, tag: int) -> Any:
    if not isinstance(y, Dual | jax.Array | np.ndarray | np.generic | float | int | complex):
        raise ArgumentError(f"derivative: the function returns {type(y).__name__}, not numbers")
    return tangent_of(y, tag)


def _check_numbers(where: str, x: Any) -> None:
    if not isinstance(x, Dual | jax.Array | np.ndarray | np.generic | float | int | complex):
        raise ArgumentError(
            f"{where}: x is {type(x).__name__}, not a number or array",
            remedy="derive.gradient and derive.jacobian take PyTrees",
        )


def _on_duals(where: str, f: Callable[[Any], Any], x: Dual) -> Any:
    try:
        return f(x)
    except TypeError as error:
        if f"{Dual.__module__}.{Dual.__name__}" not in str(error):
            raise
        raise ArgumentError(
            f"{where}: the function hands a dual number to something that takes arrays only",
            remedy="NumPy's functions (np.sin) take dual numbers, JAX's through derive.lift(jnp.sin);\n"
            "derive.jvp, derive.gradient and derive.jacobian take JAX functions as they are",
        ) from error


class HyperDual(NamedTuple):
    """`value + first ε₁ + second ε₂ + mixed ε₁ε₂`."""

    value: Any
    first: Any
    second: Any
    mixed: Any


def hyperdual(f: Callable[[Any], Any], x: Any, v: Any, w: Any) -> HyperDual:
    """`f`, its derivatives along `v` and `w`, and the second derivative along both, by duals of duals.

    >>> hyperdual(lambda x: x**3, 2.0, 1.0, 1.0)
    HyperDual(value=8.0, first=12.0, second=12.0, mixed=12.0)
    """
    validation.function("hyperdual", f)
    _check_numbers("hyperdual", x)
    one, two = next(_fresh_tags), next(_fresh_tags)
    y = _on_duals("hyperdual", f, Dual(Dual(x, v, one), Dual(w, 0.0, one), two))
    primal, tangent = primal_of(y, two), tangent_of(y, two)
    return HyperDual(
        primal_of(primal, one), tangent_of(primal, one), primal_of(tangent, one), tangent_of(tangent, one)
    )


def lift(f: Callable[..., Any]) -> Callable[..., Any]:
    """Any differentiable JAX function on dual numbers, by its forward derivative.

    >>> lift(jnp.sin)(Dual(0.0, 2.0))
    Dual(0.0, 2.0)
    """

    def lifted(*args: Any) -> Any:
        tag = max(tag_of(a) for a in args)
        if tag == 0:
            return f(*args)
        primals = [primal_of(a, tag) for a in args]
        tangents = [tangent_of(a, tag) for a in args]

        def push(*both: Any) -> Any:
            """The derivative of `f`, itself a JAX function of points and directions, so that it can be lifted again."""
            points = [jnp.asarray(p, jnp.result_type(p, float)) for p in both[: len(args)]]
            moves = [
                jnp.broadcast_to(jnp.asarray(t, p.dtype), p.shape)
                for t, p in zip(both[len(args) :], points, strict=True)
            ]
            return jax.jvp(f, points, moves)[1]

        values, slopes = lift(f)(*primals), lift(push)(*primals, *tangents)
        return jax.tree.map(lambda a, b: Dual(a, b, tag), values, slopes, is_leaf=is_dual)

    return lifted


__all__ = ["HyperDual", "derivative", "hyperdual", "lift"]
