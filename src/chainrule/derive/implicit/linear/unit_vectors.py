"""Products with all unit vectors at once: a Jacobian as a matrix, without multiplying matrices by the identity.

Where a linear program multiplies its argument by a matrix straight away, the products with all unit vectors are that
matrix itself. A compiler does not see that and multiplies by the identity, which for F(w) = M w + ... costs more than
the factorisation the Jacobian is wanted for. So the program is walked, with a mark in place of the identity, which is
written out only where an operation needs it.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from chainrule.core.types import Array, Float
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.local import function_of


@final
class _UnitVectors:
    """Stands for the identity."""


_UNITS = _UnitVectors()
_Value: TypeAlias = tuple[Any, bool]
"""A value, or the mark, and whether it has an axis of unit vectors in front."""


def products(linear: Callable[[Array], Array], like: Array) -> Float[Array, "n m"]:
    """`linear(e)` for every unit vector e, as rows."""
    program = jax.make_jaxpr(linear)(like)
    identity = jnp.eye(like.size, dtype=like.dtype)
    ((found, batched),) = _walk(program, [(_UNITS, True)], identity)
    if found is _UNITS:
        return identity
    return found if batched else jnp.broadcast_to(found, (like.size, *found.shape))


def _walk(program: Any, operands: Sequence[_Value], identity: Array) -> list[_Value]:
    jaxpr = program.jaxpr
    values: dict[Any, _Value] = {v: (c, False) for v, c in zip(jaxpr.constvars, program.consts, strict=True)}
    values.update(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> _Value:
        return (atom.val, False) if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        found = _step(equation, [read(atom) for atom in equation.invars], identity)
        values.update(zip(equation.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _step(equation: Any, operands: Sequence[_Value], identity: Array) -> list[_Value]:
    marked = [value is _UNITS for value, _ in operands]
    called = eqs.body(equation)
    if any(marked) and called is not None:
        return _walk(called, operands, identity)
    if any(marked) and equation.primitive.name == "dot_general":
        matrix = _of_a_product(equation, operands, marked)
        if matrix is not None:
            return [(matrix, True)]
    axes = [0 if batched else None for _, batched in operands]
    numbers = [identity if mark else value for mark, (value, _) in zip(marked, operands, strict=True)]
    run = function_of(equation)
    if all(axis is None for axis in axes):
        return [(value, False) for value in run(*numbers)]
    return [(value, True) for value in jax.vmap(run, tuple(axes))(*numbers)]


def _of_a_product(equation: Any, operands: Sequence[_Value], marked: Sequence[bool]) -> Array | None:
    """A product of a known array with each unit vector: the array, with the axis they are summed along in front."""
    (contracted, batch), side = equation.params["dimension_numbers"], 1 if marked[0] else 0
    array, batched = operands[side]
    if all(marked) or batched or any(batch) or len(contracted[side]) != 1:
        return None
    dtype = equation.outvars[0].aval.dtype
    return jnp.moveaxis(jnp.asarray(array), contracted[side][0], 0).astype(dtype)


__all__ = ["products"]
