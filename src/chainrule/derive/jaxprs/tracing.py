"""Tracing of a function and its arguments, checked at the edge, to a jaxpr.

Everything that reads programs starts here: arguments are flattened into leaves with readable names, values JAX
cannot trace are refused by name, and a Python branch on a value is explained.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive import validation
from chainrule.derive.jaxprs.branches import following, number_of
from chainrule.derive.jaxprs.refusals import NEEDS_VALUES

_ARRAYS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)


@final
@dataclass(frozen=True)
class Traced:
    """A program with the names and tree structures of what goes in and what comes out."""

    program: ClosedJaxpr
    leaves: tuple[Any, ...]
    """The arguments' leaves: arrays, or shape structs where no numbers were given."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    in_tree: Any
    out_tree: Any
    followed: bool = False
    """Whether it is only the branch that Python took at these arguments."""


@final
@dataclass(frozen=True)
class Arguments:
    """The leaves of a function's arguments, each with its name."""

    leaves: tuple[Any, ...]
    names: tuple[str, ...]
    tree: Any


def flatten(where: str, f: Callable[..., Any], args: Sequence[Any], *, abstract: bool = False) -> Arguments:
    """The leaves of the arguments with names such as `params.w`; a leaf JAX cannot use is refused by name.

    `abstract` also admits `jax.ShapeDtypeStruct`, for questions that need shapes only.
    """
    if not callable(f):
        raise ArgumentError(
            f"{where}(f={f!r}): f must be a function", remedy="pass the function, then its arguments"
        )
    paths, tree = jax.tree_util.tree_flatten_with_path(tuple(args))
    names = _argument_names(f, len(args))
    leaves, labels = [], []
    for path, leaf in paths:
        name = dotted(names[path[0].idx], path[1:])
        if not (isinstance(leaf, _ARRAYS) or (abstract and isinstance(leaf, jax.ShapeDtypeStruct))):
            kind = type(leaf).__name__
            raise ArgumentError(
                f"{where}: {name} is of type {kind}, which is neither an array nor a number",
                remedy=f"close over it: {where}(lambda x: f(x, ...), x)",
            )
        if not abstract and isinstance(leaf, jax.core.Tracer):
            raise _no_numbers(where, name)
        leaves.append(leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jnp.asarray(leaf))
        labels.append(name)
    return Arguments(tuple(leaves), tuple(labels), tree)


def trace(
    where: str, f: Callable[..., Any], args: Sequence[Any], *, abstract: bool = False, follow: bool = False
) -> Traced:
    """The program of `f` at these arguments; if it branches in Python on values, with `follow` the branch taken."""
    arguments = flatten(where, f, args, abstract=abstract)
    out_tree: list[Any] = []
    outputs: list[str] = []

    def flat(*leaves: Any) -> list[Any]:
        result = f(*jax.tree.unflatten(arguments.tree, leaves))
        paths, tree = jax.tree_util.tree_flatten_with_path(result)
        out_tree.append(tree)
        outputs.extend(dotted("output", path) for path, _ in paths)
        for name, (_, leaf) in zip(outputs, paths, strict=True):
            if not isinstance(leaf, _ARRAYS):
                raise ArgumentError(
                    f"{where}: f returns {leaf!r} at {name}, which is neither an array nor a number",
                    remedy="return arrays only",
                )
        return [leaf for _, leaf in paths]

    followed = False
    try:
        try:
            program = jax.make_jaxpr(flat)(*arguments.leaves)
        except NEEDS_VALUES:
            numbers = [number_of(leaf) for leaf in arguments.leaves]
            if not follow or any(number is None for number in numbers):
                raise
            program = jax.make_jaxpr(following(where, flat, numbers))(*arguments.leaves)
            followed = True
    except NEEDS_VALUES as error:
        raise ArgumentError(
            f"{where}: f branches in Python on a value it computes, so it is not one program",
            remedy="tape(f, x) follows the branch taken; jnp.where or jax.lax.cond keep both",
        ) from error
    return Traced(
        program, arguments.leaves, arguments.names, tuple(outputs), arguments.tree, out_tree[0], followed
    )


def directions(
    where: str, what: str, given: Any, tree: Any, names: Sequence[str], leaves: Sequence[Any]
) -> list[Any]:
    """One direction (or weight) per leaf: `given` with the structure `tree`, all ones by default, none for integers."""
    if given is None:
        return [jnp.ones(leaf.shape, leaf.dtype) if is_inexact(leaf) else None for leaf in leaves]
    try:
        parts = tree.flatten_up_to(given)
    except ValueError as error:
        raise ArgumentError(f"{where}: its structure is not that of {what}", remedy=str(error)) from error
    found: list[Any] = []
    for name, part, leaf in zip(names, parts, leaves, strict=True):
        if not is_inexact(leaf):
            found.append(None)
            continue
        if not isinstance(part, _ARRAYS):
            raise ArgumentError(f"{where}: its structure is not that of {what}: {name} is one array")
        direction = jnp.asarray(part, leaf.dtype)
        if direction.shape != leaf.shape:
            raise ArgumentError(f"{where}: {name} has shape {leaf.shape}, here {direction.shape}")
        found.append(direction)
    return found


def is_inexact(leaf: Any) -> bool:
    """Whether derivatives with respect to a value exist: floating-point or complex."""
    return _is_inexact(leaf.dtype)


@functools.cache
def _is_inexact(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def require_inexact(where: str, names: Sequence[str], leaves: Sequence[Any]) -> None:
    """Raise unless every leaf is differentiable, naming the first that is not."""
    for name, leaf in zip(names, leaves, strict=True):
        if not is_inexact(leaf):
            raise _integer(where, name, leaf)


def require_some_inexact(where: str, names: Sequence[str], leaves: Sequence[Any]) -> None:
    """Raise if no leaf is differentiable, naming the first."""
    if not leaves:
        raise ArgumentError(f"{where}: f is called without arguments", remedy=f"{where}(f, x)")
    if not any(is_inexact(leaf) for leaf in leaves):
        raise _integer(where, names[0], leaves[0])


def dotted(root: str, path: Sequence[Any]) -> str:
    """A leaf's name: the root, then keys, indices and field names with dots between.

    >>> dotted("params", jax.tree_util.tree_leaves_with_path({"w": [1.0]})[0][0])
    'params.w.0'
    """
    rest = jax.tree_util.keystr(tuple(path), simple=True, separator=".")
    return f"{root}.{rest}" if rest else root


def _no_numbers(where: str, name: str) -> CapabilityError:
    again = "program(f, x, order=2) is the derivative as a program, which can be differentiated again"
    return validation.no_numbers(where, name, again if where == "tape" else "")


def _integer(where: str, name: str, leaf: Any) -> ArgumentError:
    example = "" if leaf.shape else f": {float(leaf):g} becomes {float(leaf)!r}" if _is_number(leaf) else ""
    return ArgumentError(
        f"{where}: {name} has dtype {leaf.dtype}, which has no derivative",
        remedy=f"pass floating-point numbers{example}, or close over {name}",
    )


def _is_number(leaf: Any) -> bool:
    concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return concrete and bool(jnp.issubdtype(leaf.dtype, jnp.number))


def _argument_names(f: Callable[..., Any], count: int) -> list[str]:
    fallback = [f"argument {position}" for position in range(count)]
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):  # built-in functions do not tell their parameters
        return fallback
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in plain]
    return (names + fallback[len(names) :])[:count]


__all__ = [
    "Arguments",
    "Traced",
    "directions",
    "dotted",
    "flatten",
    "is_inexact",
    "require_inexact",
    "require_some_inexact",
    "trace",
]
