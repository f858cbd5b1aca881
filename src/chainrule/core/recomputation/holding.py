"""A primitive that computes something when something else is known, and never merges it with what was computed before.

On a CPU, for which XLA drops JAX's barriers, it sits in a branch that is always taken, which the compiler cannot know.
Elsewhere a barrier does.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, Primitive
from jax.interpreters import batching, mlir

from chainrule.core.recomputation.programs import Function, bind, evaluate, number, returning, shapes

hold_p = Primitive("computed_after")


def hold(function: Function, after: Sequence[Any], *operands: Any) -> list[Any]:
    """The function's results, computed when the arrays `after` are known and not before, and never merged."""
    ties = [one for one in after if one.size]
    if not ties:
        return list(function(*operands))
    program = jax.make_jaxpr(function)(*operands)
    inner = program.jaxpr
    values = dict(zip(inner.invars, operands, strict=True))
    # An operand handed on as it is would be copied.
    made = list(dict.fromkeys(a for a in inner.outvars if not isinstance(a, Literal) and a not in values))
    part = returning(program, made)
    kinds: list[Any] = []  # of random keys, which travel as numbers

    def numbers(_: Any, *operands: Any) -> list[Any]:
        results = part(*operands)
        kinds[:] = [jax.random.key_impl(one) if _is_key(one) else None for one in results]
        return [jax.random.key_data(one) if _is_key(one) else one for one in results]

    found = bind(hold_p, numbers, (_first(ties[0]), *operands))
    values |= {
        atom: one if kind is None else jax.random.wrap_key_data(one, impl=kind)
        for atom, kind, one in zip(made, kinds, found, strict=True)
    }
    return [number(atom) if isinstance(atom, Literal) else values[atom] for atom in inner.outvars]


def _first(array: Any) -> Any:
    """One number of an array; a slice, so that arrays spread over devices stay where they are."""
    return jax.lax.slice(array, (0,) * array.ndim, (1,) * array.ndim).reshape(())


def _is_key(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jax.dtypes.prng_key))


def _in_a_branch(tie: Any, *operands: Any, jaxpr: ClosedJaxpr) -> Sequence[Any]:
    true = (tie == tie) | (tie != tie)
    found: Sequence[Any] = jax.lax.cond(
        true,
        lambda *values: list(evaluate(tie, *values, jaxpr=jaxpr)),
        lambda *_: [jnp.empty(aval.shape, aval.dtype) for aval in jaxpr.out_avals],
        *operands,
    )
    return found


def _behind_a_barrier(*operands: Any, jaxpr: ClosedJaxpr) -> Sequence[Any]:
    return evaluate(*jax.lax.optimization_barrier(operands), jaxpr=jaxpr)


def _hold_batched(operands: Any, axes: Any, *, jaxpr: ClosedJaxpr) -> Any:
    if all(axis is None for axis in axes[1:]):
        found = hold(
            functools.partial(evaluate, _first(operands[0]), jaxpr=jaxpr), operands[:1], *operands[1:]
        )
        return found, (None,) * len(found)
    function = jax.vmap(functools.partial(evaluate, _first(operands[0]), jaxpr=jaxpr), tuple(axes[1:]))
    found = hold(function, operands[:1], *operands[1:])
    return found, (0,) * len(found)


hold_p.multiple_results = True
hold_p.def_impl(evaluate)
hold_p.def_abstract_eval(shapes)
mlir.register_lowering(hold_p, mlir.lower_fun(_behind_a_barrier, multiple_results=True))
mlir.register_lowering(hold_p, mlir.lower_fun(_in_a_branch, multiple_results=True), platform="cpu")
batching.primitive_batchers[hold_p] = _hold_batched

__all__ = ["hold", "hold_p"]
