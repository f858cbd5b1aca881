"""A function as a program: traced once, and from then on evaluated operation by operation.

Shapes, pattern, products and certificate all follow from one program. Differentiating it is also faster than
differentiating the function: JAX's own functions are calls of small programs, each of which JAX would look up,
differentiate and batch by itself, and here they are written out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Tree
from chainrule.derive import validation
from chainrule.derive.jaxprs import equations
from chainrule.derive.jaxprs.refusals import NEEDS_VALUES
from chainrule.derive.sparse.signature import Held, Signature

_SMALL = 16
"""Operations of a called program up to which it is written out; larger ones stay calls, which are compiled once."""


@final
@dataclass(frozen=True)
class TracedFunction:
    """The program of a function of a point and of what is held, and the shapes of what it returns."""

    program: ClosedJaxpr
    outputs: Tree
    """Of its value."""
    extras: Tree
    """Of what it returns beside it."""

    def value(self, x: Tree, held: Held) -> tuple[Tree, Tree]:
        """What the function returns, by its program."""
        found = jaxpr_as_fun(self.program)(*jax.tree.leaves((x, held)))
        return jax.tree.unflatten(jax.tree.structure((self.outputs, self.extras)), found)


def traced_function(what: str, f: Callable[..., Any], signature: Signature) -> TracedFunction:
    """The program of a function whose Jacobian or Hessian is wanted, or an error that says why there is none."""
    where = f"sparse.{what}"
    if not jax.tree.leaves(signature.inputs):
        raise ArgumentError(
            f"{where}: x holds no numbers, so there is nothing to differentiate with respect to"
        )

    def checked(x: Tree, held: Held) -> tuple[Tree, Tree]:
        y, aux = signature.value(f)(x, held)
        if what == "hessian":
            validation.scalar_output(where, y, holomorphic=signature.holomorphic)
        elif not jax.tree.leaves(y):
            raise ArgumentError(f"{where}: the function returns nothing, so it has no derivative")
        else:
            validation.outputs(where, y, holomorphic=signature.holomorphic)
        return y, aux

    try:
        program, shapes = jax.make_jaxpr(checked, return_shape=True)(signature.inputs, signature.held)
    except NEEDS_VALUES as error:
        raise ArgumentError(
            f"{where}: f branches in Python on a value it computes, so it is not one program",
            remedy="use jnp.where or jax.lax.cond; derive.jacobian and derive.hessian follow the branch taken",
        ) from error
    return TracedFunction(equations.inline(program, _is_small_call), *shapes)


def _is_small_call(equation: Any) -> bool:
    inner = equations.body(equation) if equations.is_plain_call(equation) else None
    if inner is None or len(inner.eqns) > _SMALL:
        return False
    placed = (*equation.params.get("in_shardings", ()), *equation.params.get("out_shardings", ()))
    return not any(isinstance(one, jax.sharding.Sharding) for one in placed)


__all__ = ["TracedFunction", "traced_function"]
