"""A layer over all steps as three primitives, so that on a CPU its first derivatives come out of two fast programs.

`advance` takes the steps, `follow` carries a change of the states and of the input's part of the gates along, and
`back` is `follow` turned around; the last two are each other's transpose. Each is defined by a loop in JAX, which is
what other platforms compile and what derivatives by weights and slopes (second derivatives of the layer) are taken of.
On a CPU they are lowered to the programs of `chainrule.nn.recurrent.native` (there is none for `follow`, which is no
part of training).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from chainrule.core.types import Array
from chainrule.nn.recurrent import native
from chainrule.nn.recurrent.cells import Feedback, Slopes, States, UnitCell

advance_p, follow_p, back_p = (Primitive(f"recurrence_{name}") for name in ("advance", "follow", "back"))
_WEIGHTS = {advance_p: 2, follow_p: 1, back_p: 1}
"""How many operands come first that are the same for all sequences."""


def advance(
    cell: UnitCell, recurrent: Feedback, states: States, inward: Array, keep: bool
) -> tuple[States, Array, Slopes]:
    """States after the last step, outputs and, if they are kept, slopes of all."""
    bias = jnp.zeros(inward.shape[-1:], inward.dtype) if recurrent.bias is None else recurrent.bias
    outputs, *rest = advance_p.bind(recurrent.weight, bias, inward, *states, cell=cell, keep=keep)
    others = len(states) - 1
    return (outputs[-1], *rest[:others]), outputs, tuple(rest[others:])


def follow(
    cell: UnitCell, weight: Array, slopes: Slopes, states: States, inward: Array
) -> tuple[States, Array]:
    """Change of the last states and of all outputs; linear in the changes of the first states and of `inward`."""
    outputs, *last = follow_p.bind(weight, *slopes, inward, *states, cell=cell)
    return tuple(last), outputs


# ---------------------------------------------------------------------- definitions


def _advance(
    weight: Array, bias: Array, inward: Array, *states: Array, cell: UnitCell, keep: bool
) -> Sequence[Array]:
    def move(before: States, now: Array) -> tuple[States, tuple[Array, Slopes]]:
        after, slopes = cell.step(Feedback(weight, bias), before, now)
        return after, (after[0], slopes if keep else ())

    last, (outputs, slopes) = jax.lax.scan(move, states, inward)
    return outputs, *last[1:], *slopes


def _follow(weight: Array, *operands: Array, cell: UnitCell) -> Sequence[Array]:
    slopes, (inward, *states) = _cut(operands, cell)
    transposed = turned(weight)

    def move(before: States, now: tuple[Slopes, Array]) -> tuple[States, Array]:
        after = cell.tangent(transposed, now[0], before, now[1])
        return after, after[0]

    last, outputs = jax.lax.scan(move, tuple(states), (slopes, inward))
    return outputs, *last


def _back(weight: Array, *operands: Array, cell: UnitCell) -> Sequence[Array]:
    slopes, (outputs, *last) = _cut(operands, cell)
    inward = jax.ShapeDtypeStruct((*outputs.shape[:2], weight.shape[1]), outputs.dtype)
    linear = functools.partial(_follow, weight, *slopes, cell=cell)
    found: Sequence[Array] = jax.linear_transpose(linear, inward, *last)((outputs, *last))
    return found


def turned(weight: Array) -> Array:
    """The weights transposed; the barrier keeps the compiler from folding that back into products."""
    out: Array = jax.lax.optimization_barrier(weight.T)
    return out


def _cut(operands: Sequence[Any], cell: UnitCell) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    count = len(cell.slopes)
    return tuple(operands[:count]), tuple(operands[count:])


# ---------------------------------------------------------------------- shapes


@advance_p.def_abstract_eval
def _advance_shapes(
    weight: ShapedArray,
    bias: ShapedArray,
    inward: ShapedArray,
    *states: ShapedArray,
    cell: UnitCell,
    keep: bool,
) -> Sequence[ShapedArray]:
    del weight, bias
    over_time = states[0].update(shape=(inward.shape[0], *states[0].shape))
    return over_time, *states[1:], *(over_time for _ in (cell.slopes if keep else ()))


@follow_p.def_abstract_eval
def _follow_shapes(weight: ShapedArray, *operands: ShapedArray, cell: UnitCell) -> Sequence[ShapedArray]:
    del weight
    slopes, (_, *states) = _cut(operands, cell)
    return slopes[0], *states


@back_p.def_abstract_eval
def _back_shapes(weight: ShapedArray, *operands: ShapedArray, cell: UnitCell) -> Sequence[ShapedArray]:
    _, (outputs, *last) = _cut(operands, cell)
    return outputs.update(shape=(*outputs.shape[:2], weight.shape[1])), *last


# ---------------------------------------------------------------------- derivatives


def _by_definition(definition: Callable[..., Any], primals: Any, tangents: Any, **params: Any) -> Any:
    tangents = tuple(map(ad.instantiate_zeros, tangents))
    return jax.jvp(functools.partial(definition, **params), tuple(primals), tangents)


def _linear(primitive: Primitive, definition: Callable[..., Any]) -> Callable[..., Any]:
    """The forward rule of what is linear in all but the weights and slopes."""

    def rule(primals: Any, tangents: Any, *, cell: UnitCell) -> Any:
        fixed = 1 + len(cell.slopes)
        if not all(isinstance(tangent, ad.Zero) for tangent in tangents[:fixed]):
            return _by_definition(definition, primals, tangents, cell=cell)
        moving = map(ad.instantiate_zeros, tangents[fixed:])
        return primitive.bind(*primals, cell=cell), primitive.bind(*primals[:fixed], *moving, cell=cell)

    return rule


def _transpose(primitive: Primitive) -> Callable[..., Any]:
    """The rule of what `primitive` is the transpose of."""

    def rule(cotangents: Any, weight: Array, *operands: Any, cell: UnitCell) -> Any:
        slopes, moving = _cut(operands, cell)
        found = primitive.bind(weight, *slopes, *map(ad.instantiate_zeros, cotangents), cell=cell)
        wanted = (one if ad.is_undefined_primal(x) else None for x, one in zip(moving, found, strict=True))
        return None, *(None for _ in slopes), *wanted

    return rule


ad.primitive_jvps[advance_p] = functools.partial(_by_definition, _advance)
ad.primitive_jvps[follow_p] = _linear(follow_p, _follow)
ad.primitive_jvps[back_p] = _linear(back_p, _back)
ad.primitive_transposes[follow_p] = _transpose(back_p)
ad.primitive_transposes[back_p] = _transpose(follow_p)

# ---------------------------------------------------------------------- batching


def _batched(primitive: Primitive, definition: Callable[..., Any]) -> Callable[..., Any]:
    def rule(operands: Sequence[Array], axes: Sequence[int | None], **params: Any) -> Any:
        common = _WEIGHTS[primitive]
        if any(axis is not None for axis in axes[:common]):  # many layers
            out = jax.vmap(functools.partial(definition, **params), tuple(axes))(*operands)
            return out, (0,) * len(out)
        (size,) = {x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None}
        moving = [_merged(x, axis, size) for x, axis in zip(operands[common:], axes[common:], strict=True)]
        out = primitive.bind(*operands[:common], *moving, **params)
        apart = [x.reshape(*x.shape[:-2], size, x.shape[-2] // size, x.shape[-1]) for x in out]
        return apart, tuple(x.ndim - 3 for x in apart)

    return rule


def _merged(x: Array, axis: int | None, size: int) -> Array:
    """More sequences, before the axis of those there are."""
    x = x[None] if axis is None else jnp.moveaxis(x, axis, 0)
    x = jnp.moveaxis(jnp.broadcast_to(x, (size, *x.shape[1:])), 0, -3)
    return x.reshape(*x.shape[:-3], size * x.shape[-2], x.shape[-1])


# ---------------------------------------------------------------------- programs


def _advance_natively(
    weight: Array, bias: Array, inward: Array, *states: Array, cell: UnitCell, keep: bool
) -> Sequence[Array]:
    return native.forward(cell, weight, bias, inward, states, keep)


def _back_natively(weight: Array, *operands: Array, cell: UnitCell) -> Sequence[Array]:
    slopes, (outputs, *last) = _cut(operands, cell)
    return native.backward(cell, weight, slopes, outputs, tuple(last))


def _run(primitive: Primitive, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Outside of any transformation a primitive is compiled on its own; traced, it shows what it is made of."""
    compiled = jax.jit(primitive.bind, static_argnames=("cell", "keep"))

    def run(*operands: Array, **params: Any) -> Any:
        traced = any(isinstance(operand, jax.core.Tracer) for operand in operands)
        return (definition if traced else compiled)(*operands, **params)

    return run


for _primitive, _definition, _native in (
    (advance_p, _advance, _advance_natively),
    (follow_p, _follow, None),
    (back_p, _back, _back_natively),
):
    _primitive.multiple_results = True
    _primitive.def_impl(_run(_primitive, _definition))
    batching.primitive_batchers[_primitive] = _batched(_primitive, _definition)
    mlir.register_lowering(_primitive, mlir.lower_fun(_definition, multiple_results=True))
    if _native is not None:
        mlir.register_lowering(_primitive, mlir.lower_fun(_native, multiple_results=True), platform="cpu")


def available(recurrent: Feedback, states: States, inward: Array) -> bool:
    """Whether there would be programs for these on a CPU."""
    numbers = (recurrent.weight, inward, *states, *(() if recurrent.bias is None else (recurrent.bias,)))
    single = all(x.dtype == jnp.float32 for x in numbers)
    return single and native.runs(states[0].shape[-1], inward.shape)


__all__ = ["advance", "available", "follow", "turned"]
