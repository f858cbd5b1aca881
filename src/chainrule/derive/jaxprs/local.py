"""Single operations with their derivatives: evaluate, push a tangent forward, pull an adjoint back.

Both sweeps ask JAX for the rule of a single operation, so every rule is JAX's own (or the user's custom one). Where
JAX has only one of the two modes, the other is made from it: a forward product of a custom reverse rule is a reverse
product of its reverse product; a reverse product of a loop without one is a row of forward products. Integer and
boolean operands have no tangent and no adjoint; they are `None` here.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, final

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jax.extend.core import gensym, jaxpr_as_fun

from chainrule.core.errors import CapabilityError
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs import loops
from chainrule.derive.jaxprs.tracing import is_inexact

Values: TypeAlias = Sequence[Any]
Derivatives: TypeAlias = list[Any]
"""One entry per operand or result: an array, or `None` where there is no derivative."""

_NO_RULE = (NotImplementedError, TypeError, ValueError)
_COMPILE_FROM = 16


@final
class Operation:
    """A function of some operands to a list of results, with its local derivatives."""

    def __init__(
        self, name: str, apply: Callable[..., Sequence[Any]], *, equation: Any = None, recurs: bool = False
    ) -> None:
        self.name = name
        self._apply = apply
        self._loop = equation if equation is not None and equation.primitive.name == "while" else None
        compile_once: Callable[[Any], Any] = jax.jit if recurs and self._loop is None else lambda f: f
        self._evaluate = compile_once(lambda values: list(apply(*values)))
        self._push = compile_once(self._forward)
        self._pull = compile_once(self._reverse)

    def evaluate(self, values: Values) -> list[Any]:
        """The results alone."""
        return list(self._evaluate(list(values)))

    def push(self, values: Values, tangents: Values) -> tuple[list[Any], Derivatives]:
        """The results and their tangents; a missing operand tangent counts as zero."""
        moving = [is_inexact(value) for value in values]
        if not any(moving):
            outs = self.evaluate(values)
            return outs, [jnp.zeros_like(out) if is_inexact(out) else None for out in outs]
        seeds = [
            _zeros(value) if tangent is None else tangent
            for value, tangent, moves in zip(values, tangents, moving, strict=True)
            if moves
        ]
        outs, slopes = self._push(list(values), seeds)
        remaining = iter(slopes)
        return outs, [next(remaining) if is_inexact(out) else None for out in outs]

    def pull(self, values: Values, cotangents: Values) -> Derivatives:
        """What each operand's adjoint receives from the adjoints of the results."""
        moving = [is_inexact(value) for value in values]
        weights = [cotangent for cotangent in cotangents if cotangent is not None]  # none: nothing arrives
        if not any(moving):
            return [None] * len(moving)
        if not weights:
            return [_zeros(value) if moves else None for value, moves in zip(values, moving, strict=True)]
        remaining = iter(self._pull(list(values), weights))
        return [next(remaining) if moves else None for moves in moving]

    def _of_moving(self, values: Values, apply: Callable[..., Sequence[Any]]) -> tuple[Any, list[Any]]:
        """The operation as a function of its differentiable operands, and those operands."""
        moving = [is_inexact(value) for value in values]

        def function(*moved: Any) -> list[Any]:
            remaining = iter(moved)
            full = [next(remaining) if moves else value for value, moves in zip(values, moving, strict=True)]
            return list(apply(*full))

        return function, [value for value, moves in zip(values, moving, strict=True) if moves]

    def _forward(self, values: Values, seeds: Values) -> tuple[list[Any], list[Any]]:
        function, moved = self._of_moving(values, self._apply)
        try:
            outs, slopes = jax.jvp(function, tuple(moved), tuple(seeds))
        except _NO_RULE as error:
            return self._forward_by_reverse(function, moved, seeds, error)
        return outs, [slope for out, slope in zip(outs, slopes, strict=True) if is_inexact(out)]

    def _forward_by_reverse(
        self, function: Any, moved: Values, seeds: Values, error: Exception
    ) -> tuple[list[Any], list[Any]]:
        # u -> J^T u is linear, and the reverse product of a linear map at t is its transpose at t: J t.
        outs = function(*moved)
        weights = [jnp.zeros_like(out) for out in outs if is_inexact(out)]
        try:
            _, pullback = jax.vjp(_only_inexact(function), *moved)
            _, transposed = jax.vjp(lambda w: pullback(w), weights)
            (slopes,) = transposed(tuple(seeds))
        except _NO_RULE as second:
            raise self._no_rule("forward", error) from second
        return outs, slopes

    def _reverse(self, values: Values, weights: Values) -> list[Any]:
        apply = self._apply
        if self._loop is not None:
            apply = loops.bounded(self._loop, loops.count_steps(self._loop, values))
        function, moved = self._of_moving(values, apply)
        try:
            _, pullback = jax.vjp(_only_inexact(function), *moved)
            return list(pullback(list(weights)))
        except _NO_RULE as error:
            return self._reverse_by_forward(_only_inexact(function), moved, weights, error)

    def _reverse_by_forward(
        self, function: Any, moved: Values, weights: Values, error: Exception
    ) -> list[Any]:
        if any(jnp.iscomplexobj(value) for value in [*moved, *weights]):
            raise self._no_rule("reverse", error) from error
        flat, unflatten = jax.flatten_util.ravel_pytree(list(moved))

        def component(position: Any) -> Any:
            direction = unflatten(jnp.zeros_like(flat).at[position].set(1))
            _, slopes = jax.jvp(function, tuple(moved), tuple(direction))
            products = [jnp.sum(weight * slope) for weight, slope in zip(weights, slopes, strict=True)]
            return sum(products[1:], start=products[0])

        try:
            entries = jax.lax.map(component, jnp.arange(flat.size), batch_size=64)
        except _NO_RULE as second:
            raise self._no_rule("reverse", error) from second
        return list(unflatten(entries.astype(flat.dtype)))

    def _no_rule(self, mode: str, error: Exception) -> CapabilityError:
        return CapabilityError(
            f"the operation {self.name!r} has no {mode}-mode derivative ({str(error).splitlines()[0]})",
            remedy="give it a rule with jax.custom_jvp, or take it out of the function with jax.lax.stop_gradient",
        )


@final
class Operations:
    """The operations of a program; equations that recur often share one compiled operation."""

    def __init__(self, equations: Iterable[Any]) -> None:
        self._counts: dict[Hashable, int] = {}
        self._shared: dict[Hashable, Operation] = {}
        for equation in equations:
            key = _signature(equation)
            self._counts[key] = self._counts.get(key, 0) + 1

    def of(self, equation: Any) -> Operation:
        """The operation of an equation."""
        key = _signature(equation)
        recurs = key is not None and self._counts.get(key, 0) >= _COMPILE_FROM
        if not recurs:
            return Operation(eqs.label(equation), function_of(equation), equation=equation)
        if key not in self._shared:
            self._shared[key] = Operation(
                eqs.label(equation), function_of(equation), equation=equation, recurs=True
            )
        return self._shared[key]


def function_of(equation: Any) -> Callable[..., Sequence[Any]]:
    """One equation as a function of its operands; an operand that occurs twice is two arguments."""
    fresh = gensym()
    operands = [fresh(atom.aval) for atom in equation.invars]
    results = [fresh(atom.aval) for atom in equation.outvars]
    alone = equation.replace(invars=operands, outvars=results)
    run: Callable[..., Sequence[Any]] = jaxpr_as_fun(eqs.program_of((), (), operands, results, [alone]))
    return run


def _zeros(value: Any) -> Any:
    # On the host, so that nothing made here can belong to a trace.
    return np.zeros(value.shape, value.dtype)


def _only_inexact(function: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    return lambda *moved: [out for out in function(*moved) if is_inexact(out)]


def _signature(equation: Any) -> Hashable:
    types = tuple(str(atom.aval) for atom in equation.invars)
    key = (equation.primitive, types, tuple(sorted(equation.params.items(), key=lambda item: item[0])))
    try:
        hash(key)
    except TypeError:  # parameters that cannot be compared are never shared
        return None
    return key


__all__ = ["Derivatives", "Operation", "Operations", "Values", "function_of"]
