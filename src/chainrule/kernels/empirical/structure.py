"""Layers read off a program: where a matrix of parameters meets what depends on the data.

The gradient of an output by the matrix of a dense layer is an outer product of what goes into the layer and of what
comes back to it. So its share of a tangent kernel is a product of two Gram matrices, `<g, g'> <b, b'>`, and no gradient
has to be written down. Here the program of one example is searched for such matrices: each used once, in a matrix
product or convolution, perhaps after a reshaping or a constant factor. Any other parameter is left to general means.

Reference: Novak, Sohl-Dickstein and Schoenholz, Fast finite width neural tangent kernel, ICML 2022, arXiv:2206.08720.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.types import Array, Float
from chainrule.derive.jaxprs.equations import (
    inline,
    inner_programs,
    is_literal,
    is_plain_call,
    program_of,
    without_dead_code,
)

_ISOMETRIES = frozenset(("reshape", "transpose", "squeeze", "copy", "neg", "rev"))


class Meeting(NamedTuple):
    """A parameter and the equation in which it meets the data."""

    parameter: int
    equation: Any
    side: int
    """Which operand of the equation it is."""
    factors: tuple[tuple[Any, bool], ...]
    """Numbers it was multiplied by on the way, or divided by."""


class LayerStructure(NamedTuple):
    """A program of one example and the layers found in it."""

    program: ClosedJaxpr
    meetings: tuple[Meeting, ...]
    general: tuple[int, ...]
    """Parameters without such a layer."""


class LayerFactors(NamedTuple):
    """Of one example and one layer: what goes in, and what comes back for each output."""

    inputs: Float[Array, "*examples positions inputs"]
    returns: Float[Array, "*examples outputs positions units"]


def structure_of(
    single: Callable[[list[Array], Any], Array], chosen: Sequence[Any], one: Any
) -> LayerStructure:
    """The layers of a function of parameters and one example, both as arrays or shapes."""
    traced = jax.make_jaxpr(single)(list(chosen), one)
    program = without_dead_code(inline(traced, is_plain_call))
    parameters = program.jaxpr.invars[: len(chosen)]
    known = _fixed(program)
    uses = Counter(a for e in program.eqns for a in e.invars if not is_literal(a))
    uses.update(a for a in program.jaxpr.outvars if not is_literal(a))
    on_way: dict[Any, tuple[int, tuple[tuple[Any, bool], ...]]] = {
        variable: (number, ()) for number, variable in enumerate(parameters)
    }
    meetings = []
    for equation in program.eqns:
        sides = [i for i, a in enumerate(equation.invars) if not is_literal(a) and a in on_way]
        if len(sides) != 1 or uses[equation.invars[sides[0]]] != 1:
            continue
        (side,) = sides
        number, factors = on_way[equation.invars[side]]
        if _keeps_lengths(equation):
            on_way[equation.outvars[0]] = (number, factors)
        elif (factor := _factor(equation, side, known)) is not None:
            on_way[equation.outvars[0]] = (number, (*factors, factor))
        elif _is_layer(equation, side, known):
            meetings.append(Meeting(number, equation, side, factors))
    found = {meeting.parameter for meeting in meetings}
    return LayerStructure(program, tuple(meetings), tuple(i for i in range(len(chosen)) if i not in found))


def _fixed(program: ClosedJaxpr) -> Callable[[Any], bool]:
    """Whether a value depends neither on parameters nor on the example."""
    moved = set(program.jaxpr.invars)
    for equation in program.eqns:
        if any(not is_literal(a) and a in moved for a in equation.invars):
            moved.update(equation.outvars)
    return lambda atom: is_literal(atom) or atom not in moved


def _keeps_lengths(equation: Any) -> bool:
    """Whether the squares of a gradient add up to the same before and after."""
    name = equation.primitive.name
    if name == "broadcast_in_dim":
        return bool(equation.invars[0].aval.size == equation.outvars[0].aval.size)
    if name == "convert_element_type":
        before, after = (one.aval.dtype for one in (equation.invars[0], equation.outvars[0]))
        return bool(jnp.issubdtype(after, jnp.floating) and after.itemsize >= before.itemsize)
    return name in _ISOMETRIES


def _factor(equation: Any, side: int, known: Callable[[Any], bool]) -> tuple[Any, bool] | None:
    """The number that the parameter is multiplied or divided by."""
    name = equation.primitive.name
    if name not in ("mul", "div") or (name == "div" and side == 1):
        return None
    other = equation.invars[1 - side]
    return (other, name == "div") if other.aval.size == 1 and known(other) else None


def _is_layer(equation: Any, side: int, known: Callable[[Any], bool]) -> bool:
    if known(equation.invars[1 - side] if len(equation.invars) == 2 else equation.invars[0]):
        return False
    if equation.primitive.name == "dot_general":
        return not any(equation.params["dimension_numbers"][1])
    if equation.primitive.name == "conv_general_dilated":
        params = equation.params
        return side == 1 and params["feature_group_count"] == 1 == params["batch_group_count"]
    return False


def factors(
    found: LayerStructure, chosen: Sequence[Array], one: Any
) -> tuple[list[LayerFactors], list[Float[Array, "outputs *parameter"]]]:
    """LayerFactors of every layer, and gradients by all other parameters, of one example for every output."""
    layers = {id(meeting.equation): number for number, meeting in enumerate(found.meetings)}
    example = jax.tree.leaves(one)

    def run(general: Sequence[Array], bumps: Sequence[Array]) -> tuple[Array, list[tuple[Array, Array]]]:
        arrays = list(chosen)
        for number, array in zip(found.general, general, strict=True):
            arrays[number] = array
        values = dict(zip(found.program.jaxpr.constvars, found.program.consts, strict=True))
        values.update(zip(found.program.jaxpr.invars, [*arrays, *example], strict=True))
        seen: list[tuple[Array, Array]] = [(jnp.zeros(()), jnp.zeros(()))] * len(bumps)

        def read(atom: Any) -> Any:
            return atom.val if is_literal(atom) else values[atom]

        for equation in found.program.eqns:
            out = _done(equation, values)
            layer = layers.get(id(equation))
            if layer is not None:
                meeting = found.meetings[layer]
                seen[layer] = (_inputs(meeting, read), _scale(meeting, read))
                out = [out[0] + bumps[layer]]
            values.update(zip(equation.outvars, out, strict=True))
        (result,) = (read(atom) for atom in found.program.jaxpr.outvars)
        return result, seen

    bumps = [
        jnp.zeros(m.equation.outvars[0].aval.shape, m.equation.outvars[0].aval.dtype) for m in found.meetings
    ]
    out, pull, seen = jax.vjp(run, [chosen[i] for i in found.general], bumps, has_aux=True)
    general, returned = jax.vmap(pull)(jnp.eye(len(out), dtype=out.dtype))
    made = [
        LayerFactors(inputs, scale * jax.vmap(lambda g, m=meeting: _units(m, g))(g))
        for meeting, (inputs, scale), g in zip(found.meetings, seen, returned, strict=True)
    ]
    return made, general


def _done(equation: Any, values: dict[Any, Any]) -> list[Any]:
    """The results of one equation, with whatever rules of differentiation it has."""
    names = list(dict.fromkeys(atom for atom in equation.invars if not is_literal(atom)))
    alone = program_of([], [], names, equation.outvars, [equation])
    # What a function computes in double precision inside of single stays so.
    wide = any(map(_has_wide_values, inner_programs(equation)))
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        return list(jaxpr_as_fun(alone)(*(values[name] for name in names)))


def _has_wide_values(program: ClosedJaxpr) -> bool:
    return any(
        any(getattr(out.aval, "dtype", None) == jnp.float64 for out in equation.outvars)
        or any(map(_has_wide_values, inner_programs(equation)))
        for equation in program.eqns
    )


def _scale(meeting: Meeting, read: Callable[[Any], Any]) -> Array:
    scale = jnp.ones((), meeting.equation.outvars[0].aval.dtype)
    for atom, divides in meeting.factors:
        number = jnp.asarray(read(atom)).reshape(())
        scale = scale / number if divides else scale * number
    return scale


def _inputs(meeting: Meeting, read: Callable[[Any], Any]) -> Float[Array, "positions inputs"]:
    """What the matrix is multiplied by, one row for each position."""
    equation = meeting.equation
    other = jnp.asarray(read(equation.invars[1 - meeting.side]))
    if equation.primitive.name == "conv_general_dilated":
        return _patches(equation, other)
    contracted = equation.params["dimension_numbers"][0][1 - meeting.side]
    # The matrix has its axes in the order in which they are listed; both sides of a kernel use the same one.
    return _last(other, contracted)


def _units(meeting: Meeting, g: Array) -> Float[Array, "positions units"]:
    """What comes back to the layer, one row for each position."""
    equation = meeting.equation
    if equation.primitive.name == "conv_general_dilated":
        return _last(g, (equation.params["dimension_numbers"].out_spec[1],))
    contracted = equation.params["dimension_numbers"][0][meeting.side]
    free = equation.invars[meeting.side].aval.ndim - len(contracted)
    return _last(g, range(free) if meeting.side == 0 else range(g.ndim - free, g.ndim))


def _last(array: Array, axes: Sequence[int]) -> Float[Array, "rest chosen"]:
    """The array as a matrix whose columns are the entries along some axes."""
    columns = 1
    for axis in axes:
        columns *= array.shape[axis]
    moved = jnp.moveaxis(array, tuple(axes), range(array.ndim - len(axes), array.ndim))
    return moved.reshape(array.size // max(columns, 1), columns)


def _patches(equation: Any, x: Array) -> Float[Array, "positions inputs"]:
    """What lies under the kernel at every position."""
    params = equation.params
    numbers = params["dimension_numbers"]
    kernel = equation.invars[1].aval.shape
    found = jax.lax.conv_general_dilated_patches(
        x,
        tuple(kernel[axis] for axis in numbers.rhs_spec[2:]),
        params["window_strides"],
        params["padding"],
        lhs_dilation=params["lhs_dilation"],
        rhs_dilation=params["rhs_dilation"],
        dimension_numbers=numbers,
    )
    return _last(found, (numbers.out_spec[1],))


__all__ = ["LayerFactors", "LayerStructure", "Meeting", "factors", "structure_of"]
