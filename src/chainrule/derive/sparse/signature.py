"""Signatures of prepared derivatives: which arguments of a function move, which are held, and what it returns.

A function is called with all its arguments, f(x, *args). The moving ones (`argnums`) make up the point. Of the others,
arrays and floats are held: every call may bring other values of them. Everything else (whole numbers, texts, functions)
is part of the program.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Tree
from chainrule.derive import validation

Held: TypeAlias = tuple[Any, ...]
"""The arrays (or their shapes) among the leaves of the arguments that are not differentiated."""
Valued: TypeAlias = Callable[[Tree, Held], tuple[Tree, Tree]]
"""(point, held) -> (value, what the function returns beside it)."""

_TRACED = (jax.Array, np.ndarray, np.generic, float, complex, jax.ShapeDtypeStruct)


@final
class Signature:
    """How a function is called, for one kind of arguments."""

    def __init__(
        self,
        where: str,
        arguments: tuple[Any, ...],
        argnums: int | Sequence[int] = 0,
        *,
        has_aux: bool = False,
        holomorphic: bool = False,
    ) -> None:
        self.where = where
        """The public function it is for, in messages."""
        self.argnums = argnums if isinstance(argnums, int) else tuple(argnums)
        self.has_aux = has_aux
        self.holomorphic = holomorphic
        paths, self._structure = jax.tree_util.tree_flatten_with_path(arguments)
        self._count = len(arguments)
        numbers = (self.argnums,) if isinstance(self.argnums, int) else self.argnums
        moving = {number % len(arguments) for number in numbers}
        self._moves = [path[0].idx in moving for path, _ in paths]
        point = [leaf for (_, leaf), moves in zip(paths, self._moves, strict=True) if moves]
        self.dtype = jnp.result_type(*point) if point else jnp.result_type(float)
        """Of the flattened point."""
        self._names = [_name(path) for path, _ in paths]
        self._kinds = [_kind(leaf, self.dtype) if isinstance(leaf, _TRACED) else None for _, leaf in paths]
        self._fixed = [leaf for _, leaf in paths]
        self.whole = None not in self._kinds
        """Whether all leaves are arrays, so that a compiled program takes the arguments as they are."""
        kinds = [jax.ShapeDtypeStruct(*kind) for kind in self._kinds if kind is not None]
        self.inputs, self.held = self.split(kinds)
        """Shapes and types of the point, and of what is held."""
        self.plain = len(arguments) == 1 and self.argnums == 0 and not has_aux
        """Whether the function takes the point alone and returns its value alone."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Shapes and types of all arguments, and the leaves that are part of the program."""
        return self.join(self.inputs, self.held)

    def value(self, f: Callable[..., Any]) -> Valued:
        """`f` as a function of the point and what is held; beside its value there is what it says, or nothing."""

        def valued(x: Tree, held: Held) -> tuple[Tree, Tree]:
            return validation.valued(self.where, f, *self.join(x, held), has_aux=self.has_aux)

        return valued

    def gradient(self, value: Valued, *, forward: bool = False) -> Valued:
        """The gradient in the point of such a function, by reverse or by forward mode, beside the same."""
        mode: Any = jax.jacfwd if forward else jax.grad
        slope: Valued = mode(value, has_aux=True, holomorphic=self.holomorphic)
        return slope

    def traced(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The leaves that are arrays, if the others are what they were."""
        leaves, structure = jax.tree.flatten(arguments)
        if len(arguments) != self._count:
            wanted = "x" if self._count == 1 else f"x and {self._count - 1} more"
            raise ArgumentError(
                f"{self.where}: called with {len(arguments)} arguments, it was prepared for {self._count} ({wanted})",
                remedy="call it with all arguments of the function, as it was prepared: J(x, *args)",
            )
        if structure != self._structure:  # type: ignore[operator]  # JAX leaves this type open
            raise ArgumentError(
                f"{self.where}: the arguments have structure {structure}, it was prepared for {self._structure}"
            )
        for name, leaf, kind, fixed in zip(self._names, leaves, self._kinds, self._fixed, strict=True):
            if kind is None and not (leaf is fixed or (type(leaf) is type(fixed) and bool(leaf == fixed))):
                raise ArgumentError(
                    f"{self.where}: {name} is {leaf!r}, it was prepared for {fixed!r}",
                    remedy="whole numbers, texts and functions are part of the program: prepare another one,\n"
                    "or prepare it for an array (jnp.asarray), which may change from call to call",
                )
        return [leaf for leaf, kind in zip(leaves, self._kinds, strict=True) if kind is not None]

    def require_numbers(self, arguments: tuple[Any, ...]) -> None:
        """Raise where an array was given something that is none."""
        for name, leaf, kind in zip(self._names, jax.tree.leaves(arguments), self._kinds, strict=False):
            if kind is not None and not isinstance(leaf, (*_TRACED, int)):
                raise ArgumentError(f"{self.where}: {name} is {type(leaf).__name__}, not a number or array")

    def admit(self, arguments: tuple[Any, ...]) -> tuple[Tree, Held]:
        """Point and held arrays of a call, each of the kind it was prepared for."""
        return self.admit_leaves(self.traced(arguments))

    def admit_leaves(self, traced: Sequence[Any]) -> tuple[Tree, Held]:
        """The same from the leaves that are arrays."""
        wanted = [one for one in zip(self._names, self._kinds, strict=True) if one[1] is not None]
        return self.split([self._admit(*one, leaf) for one, leaf in zip(wanted, traced, strict=True)])

    def split(self, traced: Sequence[Any]) -> tuple[Tree, Held]:
        """Point and held arrays, in the order of the arguments."""
        remaining = iter(traced)
        full = [None if kind is None else next(remaining) for kind in self._kinds]
        held = tuple(
            leaf for leaf, moves in zip(full, self._moves, strict=True) if not moves and leaf is not None
        )
        return validation.argument(self.where, jax.tree.unflatten(self._structure, full), self.argnums), held

    def join(self, x: Tree, held: Held) -> tuple[Any, ...]:
        """The arguments of the function."""
        remaining = iter(held)
        full = [
            fixed if kind is None else None if moves else next(remaining)
            for fixed, kind, moves in zip(self._fixed, self._kinds, self._moves, strict=True)
        ]
        return validation.put(jax.tree.unflatten(self._structure, full), self.argnums, x)

    def _admit(self, name: str, kind: Any, leaf: Any) -> Any:
        array = jnp.asarray(leaf)
        shape, dtype = kind
        # Python's own numbers take the prepared type, if they fit it; anything else keeps its own and may be refused.
        if jax.typeof(array).weak_type and jnp.result_type(array, dtype) == dtype:
            array = array.astype(dtype)
        if array.shape != shape or array.dtype != dtype:
            raise ArgumentError(
                f"{self.where}: {name} has shape {array.shape} and type {array.dtype}, "
                f"it was prepared for shape {shape} and type {dtype}",
                remedy="prepare another one for this kind of argument",
            )
        return array


def signed(
    where: str,
    x: Tree,
    args: Any = (),
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> tuple[Signature, Tree, Held]:
    """The signature of a call f(x, *args), with its point and what is held, as given.

    (A program that has run with a number of Python's own is not compiled again for the next one.)
    """
    arguments = validation.arguments(where, x, args)
    point = validation.argument(where, arguments, argnums)
    name = "x" if argnums == 0 else "x of " + ", ".join(map(str, np.atleast_1d(argnums)))
    point = validation.point(where, point, holomorphic=holomorphic, name=name, chooser="argnums")
    arguments = validation.put(arguments, argnums, point)
    signature = Signature(where, arguments, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return signature, *signature.split(signature.traced(arguments))


def _name(path: Sequence[Any]) -> str:
    number = path[0].idx
    return ("x" if number == 0 else f"args[{number - 1}]") + jax.tree_util.keystr(tuple(path[1:]))


def _kind(leaf: Any, own: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and type of an array; floats of Python's own take the precision of the point."""
    aval = jax.typeof(leaf)
    takes = aval.weak_type and jnp.issubdtype(aval.dtype, jnp.inexact)
    return aval.shape, jnp.result_type(leaf, own) if takes else aval.dtype


__all__ = ["Held", "Signature", "Valued", "signed"]
