"""The program of a function as a list of plain operations, walked with values of any kind in place of arrays.

Bounds of networks need a rule for every operation and nothing else: the network may be written in any way. What has no
rule is refused by its name.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.derive.jaxprs.equations import inline, is_literal

Rule: TypeAlias = Callable[[Any, Sequence[Any]], Any]
"""From an equation and its operands, arrays where they do not depend on the input, to its result."""


def program(f: Callable[[Any], Any], x: Any) -> ClosedJaxpr:
    """What `f` does with `x`, all calls written out."""
    return inline(jax.make_jaxpr(f)(x), lambda equation: True)


def walked(where: str, closed: ClosedJaxpr, start: Any, rule: Rule, abstract: type) -> Any:
    """The result of the program for an abstract input; operations on plain arrays are done as they are."""
    inner = closed.jaxpr
    values: dict[Any, Any] = dict(zip(inner.constvars, closed.consts, strict=True))
    values[inner.invars[0]] = start

    def read(atom: Any) -> Any:
        return atom.val if is_literal(atom) else values[atom]

    for equation in inner.eqns:
        operands = [read(atom) for atom in equation.invars]
        if any(isinstance(operand, abstract) for operand in operands):
            result = rule(equation, operands)
            if result is None:
                raise CapabilityError(
                    f"{where}: nothing is known of the operation {equation.primitive.name}",
                    remedy="bounds know dense and convolution layers, pools, normalisation and the usual activations",
                )
            results = [result]
        else:
            results = applied(equation, operands)
        values.update(zip(equation.outvars, results, strict=True))
    return read(inner.outvars[0])


def applied(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """An operation done on arrays, in the precision that the program has at this point."""
    types = [atom.aval.dtype for atom in equation.invars]
    with jax.enable_x64(True):
        arrays = [
            jnp.asarray(value, dtype) if jnp.issubdtype(dtype, jnp.floating) else jnp.asarray(value)
            for value, dtype in zip(operands, types, strict=True)
        ]
        found = equation.primitive.bind(*arrays, **equation.params)
    return list(found) if equation.primitive.multiple_results else [found]


def one(equation: Any, operands: Sequence[Any]) -> Array:
    """The same of an operation with one result."""
    return applied(equation, operands)[0]


__all__ = ["Rule", "applied", "one", "program", "walked"]
