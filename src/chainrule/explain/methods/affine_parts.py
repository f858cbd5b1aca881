"""The affine beginning and end of a program: what may be computed before inputs are mixed, and after means are taken.

A function of a batch is traced, and every operation is asked whether it keeps affine functions affine (sums, products
with constants, matrix products with weights, moving values around). A function all of whose operations do is affine,
and is known exactly by its slope. For any other, the operations before the first that does not (a network's first
layer) act on a sum of two inputs as on each alone, and those after the last (its last layer) act on a mean as on every
sample. For n inputs mixed with m others both cost n + m instead of n m.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.types import Array
from chainrule.derive.jaxprs.equations import inline, is_literal, program_of, without_dead_code

_FIRST_ONLY = frozenset(
    {
        *("reshape", "broadcast_in_dim", "transpose", "squeeze", "expand_dims", "reduce_sum", "neg", "copy"),
        *(
            "copy_p",
            "slice",
            "rev",
            "cumsum",
            "reduce_window_sum",
            "gather",
            "dynamic_slice",
            "optimization_barrier",
        ),
        *("sharding_constraint",),
    }
)
"""Affine in their first operand, while the others do not depend on the input."""
_ANY = frozenset({"add", "sub", "add_any", "concatenate", "pad"})
"""Affine in all operands together."""
_ONE = frozenset({"mul", "dot_general", "conv_general_dilated", "convolution"})
"""Affine while only one operand depends on the input."""
_SIZES = (3, 5)
"""Two lengths of a batch: what is different between their programs is the batch axis."""


@final
@dataclass(frozen=True)
class AffineParts:
    """A function of a batch in three parts, each a function of arrays with a leading batch axis of any length."""

    first: Callable[[Array], list[Array]]
    """The affine beginning."""
    middle: Callable[[list[Array]], list[Array]]
    last: Callable[[list[Array]], Array]
    """The affine end."""


def is_affine(f: Callable[[Any], Any], x: np.ndarray) -> bool:
    """Whether tracing proves that `f` is an affine function of inputs like these; False where it does not.

    >>> is_affine(lambda x: x @ jnp.ones((3, 2)) + 1, np.ones((4, 3)))
    True
    >>> is_affine(lambda x: jax.nn.relu(x), np.ones((4, 3)))
    False
    """
    program = _program(f, x.shape[1:], jnp.asarray(x[:0]).dtype, _SIZES[0])
    if not jnp.issubdtype(program.jaxpr.invars[0].aval.dtype, jnp.inexact):
        return False
    affine, varying = _forward(program)
    return all(is_literal(atom) or atom in affine or atom not in varying for atom in program.jaxpr.outvars)


def affine_parts(f: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any) -> AffineParts | None:
    """The three parts of `f` for inputs of this shape; none where its program cannot be cut in such a way."""
    if not jnp.issubdtype(dtype, jnp.inexact):
        return None
    small, large = (_program(f, shape, dtype, size) for size in _SIZES)
    cut = None if _is_wider(small) else _cut(small)
    if cut is None or cut != _cut(large) or len(small.jaxpr.outvars) != 1:
        return None
    if not all(
        _has_batch_axis(a, b) for a, b in zip(_cut_atoms(small, cut), _cut_atoms(large, cut), strict=True)
    ):
        return None
    begins, ends, before, after = cut

    def part(
        size: int, sources: _Origins, results: _Origins | None, chosen: Sequence[int]
    ) -> Callable[..., Any]:
        program = _program(f, shape, dtype, size)
        _, varying = _forward(program)
        # What does not depend on the input is computed in whichever part needs it.
        equations = [
            equation
            for i, equation in enumerate(program.eqns)
            if i in chosen or not varying.intersection(equation.outvars)
        ]
        out = program.jaxpr.outvars if results is None else _atoms(program, results)
        whole = (program.jaxpr.constvars, program.consts, _atoms(program, sources), out, equations)
        return jaxpr_as_fun(without_dead_code(program_of(*whole)))

    rest = [i for i in range(len(small.eqns)) if i not in begins and i not in ends]
    return AffineParts(
        lambda x: part(len(x), (_INPUT,), before, begins)(x),
        lambda values: part(len(values[0]), before, after, rest)(*values),
        lambda values: part(len(values[0]), after, None, ends)(*values)[0],
    )


def _program(f: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any, size: int) -> ClosedJaxpr:
    traced = jax.make_jaxpr(lambda x: f(x))(jax.ShapeDtypeStruct((size, *shape), dtype))
    return without_dead_code(inline(traced, lambda equation: True))


def _is_wider(program: ClosedJaxpr) -> bool:
    """Whether it computes in double precision while JAX around it does not: its parts cannot be run one by one."""
    wide = any(atom.aval.dtype == np.float64 for equation in program.eqns for atom in equation.outvars)
    return wide and jnp.result_type(float) != np.float64


def _forward(program: ClosedJaxpr) -> tuple[set[Any], set[Any]]:
    """Variables that are affine in the input, and all that depend on it."""
    varying, affine = set(program.jaxpr.invars), set(program.jaxpr.invars)
    for equation in program.eqns:
        inputs = [atom for atom in equation.invars if not is_literal(atom) and atom in varying]
        if inputs:
            varying.update(equation.outvars)
            if _keeps_affine(equation, varying) and all(atom in affine for atom in inputs):
                affine.update(equation.outvars)
    return affine, varying


def _keeps_affine(equation: Any, varying: set[Any]) -> bool:
    """Whether results are affine functions of those operands that vary, together."""
    name = equation.primitive.name
    which = [i for i, atom in enumerate(equation.invars) if not is_literal(atom) and atom in varying]
    if name == "convert_element_type":
        return bool(jnp.issubdtype(equation.params["new_dtype"], jnp.inexact))
    if name in _FIRST_ONLY or name == "div":
        return which == [0]
    if name == "select_n":
        return 0 not in which
    return name in _ANY or (name in _ONE and len(which) == 1)


_Origins: TypeAlias = tuple[tuple[int, int], ...]
"""Where values come from: (equation, result)."""
_INPUT = (-1, 0)
_Cut: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], _Origins, _Origins]
"""Numbers of the first and last equations, and the values that are passed on after the one and before the other."""


def _cut(program: ClosedJaxpr) -> _Cut | None:
    affine, varying = _forward(program)
    origin = {program.jaxpr.invars[0]: _INPUT}
    for i, equation in enumerate(program.eqns):
        origin.update({variable: (i, k) for k, variable in enumerate(equation.outvars)})
    begins = tuple(i for i, equation in enumerate(program.eqns) if affine.intersection(equation.outvars))
    ends = _ends(program, varying, frozenset(begins))
    before, after = set(), set()
    for i, equation in enumerate(program.eqns):
        for atom in equation.invars:
            if is_literal(atom) or atom not in varying:
                continue
            if i not in begins and i not in ends and atom in affine:
                before.add(origin[atom])
            if i in ends and origin[atom][0] not in ends:
                after.add(origin[atom])
                before.update({origin[atom]} if atom in affine else ())
    for atom in program.jaxpr.outvars:
        if is_literal(atom) or atom not in varying:
            return None
        if origin[atom][0] not in ends:
            after.add(origin[atom])
            before.update({origin[atom]} if atom in affine else ())
    return begins, ends, tuple(sorted(before)), tuple(sorted(after))


def _ends(program: ClosedJaxpr, varying: set[Any], begins: frozenset[int]) -> tuple[int, ...]:
    """Equations after which everything is affine: all that use their results are among them."""
    blocked: set[Any] = set()
    found = []
    for i in range(len(program.eqns) - 1, -1, -1):
        equation = program.eqns[i]
        inputs = [atom for atom in equation.invars if not is_literal(atom) and atom in varying]
        if not inputs:
            continue
        late = i not in begins and not blocked.intersection(equation.outvars)
        if late and _keeps_affine(equation, varying):
            found.append(i)
        else:
            blocked.update(inputs)
    return tuple(reversed(found))


def _atoms(program: ClosedJaxpr, origins: Sequence[tuple[int, int]]) -> list[Any]:
    return [program.jaxpr.invars[0] if i < 0 else program.eqns[i].outvars[k] for i, k in origins]


def _cut_atoms(program: ClosedJaxpr, cut: _Cut) -> list[Any]:
    return [*_atoms(program, cut[2]), *_atoms(program, cut[3])]


def _has_batch_axis(small: Any, large: Any) -> bool:
    one, two = small.aval.shape, large.aval.shape
    return bool(one) and one[0] == _SIZES[0] and two == (_SIZES[1], *one[1:])


__all__ = ["AffineParts", "affine_parts", "is_affine"]
