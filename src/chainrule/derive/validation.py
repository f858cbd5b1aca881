"""Validation of arguments: inputs are floating, directions match what they move."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Tree

_NUMBERS = (jax.Array, np.ndarray, np.generic, float, int, complex, bool)


def function(where: str, f: Any) -> None:
    """Raise unless `f` can be called."""
    if not callable(f):
        raise ArgumentError(f"{where}: what is to be differentiated is {type(f).__name__}, not a function")


def point(
    where: str, x: Tree, *, holomorphic: bool | None = None, name: str = "x", chooser: str = ""
) -> Tree:
    """The point as JAX arrays; every leaf must be a floating number or array.

    Complex leaves need `holomorphic=True`, which then holds for all of them; `None` means that it is not on offer.
    `chooser` is the option that takes other inputs, where there is one.

    >>> point("gradient", {"count": 3}, chooser="argnums")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: gradient: x['count'] has type int32 and shape (); derivatives need floats
           cast it (jnp.asarray(value, float)) or choose other inputs with argnums
    """

    def check(path: Any, leaf: Any) -> Any:
        label = name + jax.tree_util.keystr(path)
        if not isinstance(leaf, _NUMBERS):
            raise ArgumentError(
                f"{where}: {label} is {type(leaf).__name__}, not a number or array",
                remedy="pass numbers, arrays, or PyTrees of them; close over everything else",
            )
        array = jnp.asarray(leaf)
        is_complex = jnp.issubdtype(array.dtype, jnp.complexfloating)
        if is_complex and not holomorphic:
            offer = "pass holomorphic=True if the function is, or " if holomorphic is not None else ""
            raise ArgumentError(
                f"{where}: {label} is complex ({array.dtype})",
                remedy=f"{offer}differentiate in its real and imaginary parts",
            )
        if holomorphic and not is_complex:
            raise ArgumentError(f"{where}(holomorphic=True): {label} has type {array.dtype}, not complex")
        if not jnp.issubdtype(array.dtype, jnp.inexact):
            raise ArgumentError(
                f"{where}: {label} has type {array.dtype} and shape {array.shape}; derivatives need floats",
                remedy="cast it (jnp.asarray(value, float)) "
                + (f"or choose other inputs with {chooser}" if chooser else "or close over it"),
            )
        return array

    return jax.tree_util.tree_map_with_path(check, x)


def direction(
    where: str, name: str, v: Tree, like: Tree, like_name: str = "x", *, batch: bool = False
) -> Tree:
    """A tangent or cotangent: the same structure and shapes as `like`, in its types; with `batch`, many of them.

    The leaves of a batch have one more axis in front, of the same length in all of them.
    """
    found, wanted = jax.tree.structure(v), jax.tree.structure(like)
    if found != wanted:  # type: ignore[operator]  # JAX leaves the type of tree structures open
        raise ArgumentError(f"{where}: {name} has structure {found}, {like_name} has {wanted}")

    def check(path: Any, leaf: Any, other: Any) -> Any:
        at = jax.tree_util.keystr(path)
        if not isinstance(leaf, _NUMBERS):
            raise ArgumentError(f"{where}: {name}{at} is {type(leaf).__name__}, not a number or array")
        array = jnp.asarray(leaf)
        shape, dtype = jnp.shape(other), jnp.result_type(other)
        if batch and (array.ndim == 0 or array.shape[1:] != shape):
            raise ArgumentError(
                f"{where}(batch=True): {name}{at} has shape {array.shape}, {like_name}{at} has shape {shape}",
                remedy="a batch of directions has one more axis, in front",
            )
        if not batch and array.shape != shape:
            remedy = "directions have the shape of what they move"
            if array.shape[1:] == shape and array.ndim:
                remedy += "; batch=True takes many of them at once"
            raise ArgumentError(
                f"{where}: {name}{at} has shape {array.shape}, {like_name}{at} has shape {shape}",
                remedy=remedy,
            )
        if jnp.iscomplexobj(array) and not jnp.issubdtype(dtype, jnp.complexfloating):
            raise ArgumentError(f"{where}: {name}{at} is complex, {like_name}{at} has type {dtype}")
        return array.astype(dtype)

    checked = jax.tree_util.tree_map_with_path(check, v, like)
    counts = {leaf.shape[0] for leaf in jax.tree.leaves(checked)} if batch else set()
    if len(counts) > 1:
        raise ArgumentError(f"{where}(batch=True): the leaves of {name} hold {sorted(counts)} directions")
    return checked


def arguments(where: str, x: Tree, args: Any) -> tuple[Any, ...]:
    """All arguments of a function that is called as f(x, *args)."""
    if not isinstance(args, tuple | list):
        raise ArgumentError(
            f"{where}(args={type(args).__name__}): the arguments after x are given as a tuple",
            remedy="args=(p,) for a single one",
        )
    return (x, *args)


def moving(
    where: str,
    f: Callable[..., Any],
    x: Tree,
    args: Any,
    argnums: int | Sequence[int],
    *,
    has_aux: bool = False,
    holomorphic: bool | None = None,
) -> tuple[Callable[[Any], Any], Tree]:
    """A function f(x, *args) as one of the arguments that move, and the point they make up."""
    function(where, f)
    given = arguments(where, x, args)
    at = point(where, argument(where, given, argnums), holomorphic=holomorphic, chooser="argnums")
    one = f if len(given) == 1 and argnums == 0 else fix(f, given, argnums)
    return (lambda x: pair(where, one(x))) if has_aux else one, at


def argument(where: str, args: tuple[Any, ...], argnums: Any, chooser: str = "argnums") -> Any:
    """The argument a derivative is taken in, or a tuple of several."""
    if not isinstance(argnums, int):
        if not isinstance(argnums, tuple | list) or not all(isinstance(n, int) for n in argnums):
            raise ArgumentError(
                f"{where}({chooser}={argnums!r}): the number of an argument is needed, or a tuple of such numbers"
            )
        return tuple(argument(where, args, number, chooser) for number in argnums)
    if not -len(args) <= argnums < len(args):
        raise ArgumentError(
            f"{where}({chooser}={argnums}): the function was called with {len(args)} arguments"
        )
    return args[argnums]


def fix(f: Callable[..., Any], args: tuple[Any, ...], argnums: int | Sequence[int]) -> Callable[[Any], Any]:
    """`f` as a function of one argument (or a tuple of several), the others held."""

    def one(x: Any) -> Any:
        return f(*put(args, argnums, x))

    return one


def put(args: tuple[Any, ...], argnums: int | Sequence[int], x: Any) -> tuple[Any, ...]:
    """The arguments with another value (or tuple of values) in some positions.

    >>> put((1, 2, 3), (0, -1), ("a", "b"))
    ('a', 2, 'b')
    """
    changed = list(args)
    for number, value in [(argnums, x)] if isinstance(argnums, int) else zip(argnums, x, strict=True):
        changed[number] = value
    return tuple(changed)


def outputs(where: str, y: Tree, *, holomorphic: bool | None = None) -> None:
    """Raise unless every output has a derivative."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(y):
        label = f"output{jax.tree_util.keystr(path)}"
        if not isinstance(leaf, _NUMBERS):
            raise ArgumentError(f"{where}: {label} is {type(leaf).__name__}, not a number or array")
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.inexact):
            raise ArgumentError(
                f"{where}: {label} has type {dtype}; its derivative is zero or undefined",
                remedy="return only floats, or cast it (value.astype(float))",
            )
        if holomorphic and not jnp.issubdtype(dtype, jnp.complexfloating):
            raise ArgumentError(
                f"{where}(holomorphic=True): {label} has type {dtype}; a holomorphic function is complex"
            )


def numbers(where: str, tree: Tree, name: str = "x") -> None:
    """Raise if a leaf has no numbers because it is being traced."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if isinstance(leaf, jax.core.Tracer):
            raise no_numbers(where, name + jax.tree_util.keystr(path))


def no_numbers(where: str, name: str, remedy: str = "") -> CapabilityError:
    """The error for a value that is being traced where numbers are needed."""
    return CapabilityError(
        f"{where}: it runs on numbers, but {name} is being traced, compiled or differentiated",
        remedy=remedy or f"call {where} outside of jax.jit, jax.grad and jax.vmap",
    )


def bare(where: str, y: Any) -> None:
    """Raise if one number comes in a container: JAX's gradient wants the number itself."""
    paths = jax.tree_util.tree_leaves_with_path(y)
    if len(paths) == 1 and paths[0][0]:
        at = jax.tree_util.keystr(paths[0][0])
        raise ArgumentError(
            f"{where}: the function returns a {type(y).__name__} with a number at {at}, not the number itself",
            remedy=f"return f(x){at}, or use derive.jacobian, which keeps the structure of what f returns",
        )


def valued(where: str, f: Callable[..., Any], *args: Any, has_aux: bool) -> tuple[Tree, Tree]:
    """What `f` returns as its value and what it says beside it: numbers and arrays, nothing unless it `has_aux`."""
    found = f(*args)
    if not has_aux:
        return found, ()
    value, extra = pair(where, found)
    extras(where, extra)
    return value, extra


def pair(where: str, found: Any) -> tuple[Tree, Tree]:
    """What a function with an extra returned, if that is a value and the extra."""
    if not (isinstance(found, tuple) and len(found) == 2):
        kind = "an array" if isinstance(found, jax.Array) else type(found).__name__
        got = f"a tuple of {len(found)}" if isinstance(found, tuple) else kind
        raise ArgumentError(
            f"{where}(has_aux=True): the function must return (value, extra), it returns {got}"
        )
    return found


def extras(where: str, aux: Tree) -> None:
    """Raise unless what a function returns beside its value is made of numbers and arrays."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(aux):
        if not isinstance(leaf, _NUMBERS):
            label = f"extra{jax.tree_util.keystr(path)}"
            raise ArgumentError(
                f"{where}(has_aux=True): {label} is {type(leaf).__name__}, not a number or array",
                remedy="the function is compiled, so it returns numbers, arrays and PyTrees of them only",
            )


def scalar_output(where: str, y: Any, *, holomorphic: bool = False) -> None:
    """Raise unless `y` is one floating number: real, or complex if holomorphic."""
    leaves = jax.tree.leaves(y)
    strange = [
        type(leaf).__name__ for leaf in leaves if not isinstance(leaf, (*_NUMBERS, jax.ShapeDtypeStruct))
    ]
    if strange:
        raise ArgumentError(f"{where}: the function returns {strange[0]}, not a number or array")
    shapes = [jnp.shape(leaf) for leaf in leaves]
    if len(leaves) != 1 or shapes[0] != ():
        found = f"shape {shapes[0]}" if len(leaves) == 1 else f"{len(leaves)} outputs of shapes {shapes}"
        raise ArgumentError(
            f"{where}: the function returns {found}, not one number",
            remedy="use derive.jacobian for several outputs, or reduce them (e.g. jnp.sum)",
        )
    dtype = jnp.result_type(leaves[0])
    if not jnp.issubdtype(dtype, jnp.inexact):
        raise ArgumentError(
            f"{where}: the function returns type {dtype}; its derivative is zero or undefined"
        )
    if jnp.issubdtype(dtype, jnp.complexfloating) and not holomorphic:
        raise ArgumentError(
            f"{where}: the function returns a complex number ({dtype})",
            remedy="differentiate its real and imaginary parts",
        )


__all__ = [
    "argument",
    "arguments",
    "bare",
    "direction",
    "extras",
    "fix",
    "function",
    "moving",
    "no_numbers",
    "numbers",
    "outputs",
    "pair",
    "point",
    "put",
    "scalar_output",
    "valued",
]
