"""Functions that branch in Python on values, as one program: the branch taken at a point.

The function runs once on numbers, for Python to look at, and on the symbols of a trace at the same time; what is
traced is the branch the numbers took. Such a program describes the function at that point and wherever the same branch
is taken, so it serves questions about a point (a graph, a memory timeline, a comparison), not a derivative to keep.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Trace, Tracer, eval_context
from jax.extend.core import jaxpr_as_fun, set_current_trace, take_current_trace

from chainrule.core.errors import CapabilityError
from chainrule.derive.jaxprs.refusals import NEEDS_VALUES


def following(
    where: str, f: Callable[..., Sequence[Any]], numbers: Sequence[Any]
) -> Callable[..., list[Any]]:
    """`f` for tracing, between flat lists of arrays: it takes the branches that it takes at these numbers."""

    def run(*symbols: Any) -> list[Any]:
        with take_current_trace() as parent:
            follower = _Follower(where, parent)
            inputs = [Valued(follower, n, s) for n, s in zip(numbers, symbols, strict=True)]
            with set_current_trace(follower):
                results = f(*inputs)
            follower.invalidate()
        return [leaf.origin if isinstance(leaf, Valued) else leaf for leaf in results]

    return run


def at_point(where: str, f: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """`f` itself where it is one program; the branch taken at these arguments, as a function, where it is not.

    Without numbers, only shapes, there is no branch to follow: it is `f` itself then, too.
    """
    leaves, tree = jax.tree.flatten(tuple(args))
    numbers = [number_of(leaf) for leaf in leaves]
    if any(number is None for number in numbers):
        return f
    try:
        jax.eval_shape(lambda *args: [None, f(*args)][:1], *args)
        return f
    except NEEDS_VALUES:
        pass
    structure: list[Any] = []

    def flat(*parts: Any) -> list[Any]:
        results, out_tree = jax.tree.flatten(f(*jax.tree.unflatten(tree, parts)))
        structure.append(out_tree)
        return results

    program = jax.make_jaxpr(following(where, flat, numbers))(*numbers)
    taken = jaxpr_as_fun(program)
    return lambda *args: jax.tree.unflatten(structure[0], taken(*jax.tree.leaves(args)))


def number_of(leaf: Any) -> Any:
    """A leaf as an array of numbers, also where it is being differentiated outside of compiled code; else `None`."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return None
    number = leaf.to_concrete_value() if isinstance(leaf, Tracer) else leaf
    return None if number is None else jnp.asarray(number)


@final
class Valued(Tracer):
    """A number that remembers where it comes from. Python may test it and index with it; JAX functions are traced."""

    __slots__ = ("origin", "value")

    def __init__(self, trace: Any, value: Any, origin: Any) -> None:
        super().__init__(trace, jax.typeof(value))
        self.value, self.origin = value, origin

    def to_concrete_value(self) -> Any:
        """What `if` and indexing see."""
        return self.value

    def __float__(self) -> float:
        return float(self._leaving("float()"))

    def __complex__(self) -> complex:
        return complex(self._leaving("complex()"))

    def __array__(self, *args: Any, **keywords: Any) -> np.ndarray:
        return np.asarray(self._leaving("NumPy"), *args, **keywords)

    def _leaving(self, how: str) -> Any:
        if not jnp.issubdtype(self.value.dtype, jnp.inexact):  # there is no derivative to lose
            return self.value
        raise CapabilityError(
            f"{self._trace.where}: f takes a value out of JAX with {how}, so its derivative would be lost",
            remedy="use jax.numpy functions on it; jax.lax.stop_gradient(x) marks what needs no derivative",
        )


@final
class _Follower(Trace):
    """Does every operation twice: on numbers, and in the trace that is to have the program."""

    def __init__(self, where: str, parent: Any) -> None:
        super().__init__()
        self.where, self.parent = where, parent

    def process_primitive(self, primitive: Any, tracers: Any, params: Any, /) -> Any:
        def apply(*operands: Any) -> list[Any]:
            results = primitive.bind(*operands, **params)
            return list(results) if primitive.multiple_results else [results]

        results = self._both(apply, tracers)
        return results if primitive.multiple_results else results[0]

    def stage_value(self, val: Any, /) -> Any:
        return val

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, /, **params: Any
    ) -> Any:
        def run(*operands: Any) -> Any:
            with take_current_trace() as trace:
                return trace.process_custom_jvp_call(primitive, fun, jvp, operands, **params)

        return self._custom(run, tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, /, **params: Any
    ) -> Any:
        def run(*operands: Any) -> Any:
            with take_current_trace() as trace:
                return trace.process_custom_vjp_call(primitive, fun, fwd, bwd, operands, **params)

        return self._custom(run, tracers)

    def _custom(self, run: Callable[..., Any], tracers: Any) -> Any:
        # The rule may be run only once, so it is turned into a program that can be run and traced at will.
        with eval_context():  # on numbers
            program = jax.make_jaxpr(run)(*map(self._number, tracers))
        return self._both(jaxpr_as_fun(program), tracers)

    def _both(self, apply: Callable[..., Sequence[Any]], tracers: Any) -> list[Any]:
        with eval_context():  # on numbers
            numbers = apply(*map(self._number, tracers))
        if not any(map(self._is_mine, tracers)):
            return list(numbers)
        with set_current_trace(self.parent):
            symbols = apply(*(t.origin if self._is_mine(t) else t for t in tracers))
        return [Valued(self, n, s) for n, s in zip(numbers, symbols, strict=True)]

    def _number(self, tracer: Any) -> Any:
        return tracer.value if self._is_mine(tracer) else tracer

    def _is_mine(self, value: Any) -> bool:
        return isinstance(value, Valued) and value._trace is self


__all__ = ["Valued", "at_point", "following", "number_of"]
