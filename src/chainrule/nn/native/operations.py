"""Primitives with native programs for values and gradients, and derivatives of every mode.

Three primitives make one: the operation itself, its tangent (linear in the tangents of the operands) and that map's
transpose, the gradients. The first and the last have programs; whatever is not a training step (forward mode, second
derivatives, other devices) is computed by the formula. The program of the operation leaves some numbers for that of the
gradients, so that these need not be found again. Every operand has the examples on its first axis.
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
from chainrule.nn.native import availability
from chainrule.nn.native.availability import THREADS, Registers
from chainrule.nn.native.compiler import register

Formula = Callable[..., Array]
Shape = Callable[..., tuple[int, ...]]
Writer = Callable[[Any, Registers, int], str]
"""From what a program depends on, the registers and the number of other threads to the text of the program."""


def operation(
    name: str,
    formula: Formula,
    left: Shape,
    given: Callable[..., Any],
    write: tuple[Writer, Writer],
    static: tuple[str, ...],
) -> Callable[..., Array]:
    """The function `formula`, computed by programs on a CPU.

    `formula(*operands, **how)` is an array like the first operand; `static` names the settings in `how`. `left` is the
    shape of what the program leaves, and `given` all that programs depend on, which has a `name`. `write` makes their
    texts: of the one that turns operands into the value and what it leaves, and of the one that turns operands, that
    and a cotangent into the gradient of every operand.
    """
    itself, tangent, adjoint = Primitive(name), Primitive(f"{name}_tangent"), Primitive(f"{name}_gradients")
    itself.multiple_results = adjoint.multiple_results = True

    def define(*operands: Array, **how: Any) -> tuple[Array, Array]:
        return formula(*operands, **how), jnp.zeros(left(*operands, **how), operands[0].dtype)

    def define_tangent(*given: Array, **how: Any) -> Array:
        count = len(given) // 2
        moved: Array = jax.jvp(functools.partial(formula, **how), given[:count], given[count + 1 :])[1]
        return moved

    def define_gradients(*given: Array, **how: Any) -> tuple[Array, ...]:
        *operands, _, cotangent = given
        found: tuple[Array, ...] = jax.vjp(functools.partial(formula, **how), *operands)[1](cotangent)
        return found

    def jvp(primals: Sequence[Array], tangents: Sequence[Any], **how: Any) -> tuple[Any, Any]:
        out, rest = itself.bind(*primals, **how)
        moved = tangent.bind(*primals, rest, *map(ad.instantiate_zeros, tangents), **how)
        return (out, rest), (moved, ad.Zero(jax.typeof(rest).to_tangent_aval()))

    def transposed(cotangent: Any, *given: Any, **how: Any) -> list[Any]:
        count = len(given) // 2
        known, linear = given[: count + 1], given[count + 1 :]
        nothing = [None] * len(known)
        if type(cotangent) is ad.Zero:
            return nothing + [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in linear]
        found = adjoint.bind(*known, cotangent, **how)
        wanted = zip(found, linear, strict=True)
        return nothing + [g if ad.is_undefined_primal(x) else None for g, x in wanted]

    def shapes(*operands: ShapedArray, **how: Any) -> list[ShapedArray]:
        return [operands[0], ShapedArray(left(*operands, **how), operands[0].dtype)]

    itself.def_abstract_eval(shapes)
    tangent.def_abstract_eval(lambda first, *others, **how: first)
    adjoint.def_abstract_eval(lambda *given, **how: list(given[:-2]))
    ad.primitive_jvps[itself] = jvp
    ad.primitive_jvps[tangent] = _by_definition(define_tangent)
    ad.primitive_jvps[adjoint] = _by_definition(define_gradients)
    ad.primitive_transposes[tangent] = transposed
    for primitive, definition in ((itself, define), (tangent, define_tangent), (adjoint, define_gradients)):
        _defined(primitive, definition, static)
    for primitive, text in zip((itself, adjoint), write, strict=True):
        program = _program(primitive, given, text)
        mlir.register_lowering(primitive, mlir.lower_fun(program, multiple_results=True), platform="cpu")

    def value(*operands: Array, **how: Any) -> Array:
        out: Array = itself.bind(*operands, **how)[0]
        return out

    return value


def _program(primitive: Any, given: Callable[..., Any], write: Writer) -> Callable[..., list[Array]]:
    """What XLA is told to call: a program for the shapes at hand, written and compiled when they are first met."""

    @functools.cache
    def registered(what: Any, registers: Registers) -> str:
        text = write(what, registers, THREADS - 1)
        return register(f"chainrule_{primitive.name}_{registers.lanes}_{what.name}", text)

    def run(*operands: Array, **how: Any) -> list[Array]:
        registers = availability.registers()
        assert registers is not None
        shapes = primitive.abstract_eval(*map(jax.typeof, operands), **how)[0]
        results = [jax.ShapeDtypeStruct(shape.shape, shape.dtype) for shape in shapes]
        return list(jax.ffi.ffi_call(registered(given(*operands, **how), registers), results)(*operands))

    return run


def _by_definition(definition: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    def jvp(primals: Sequence[Array], tangents: Sequence[Any], **how: Any) -> tuple[Any, Any]:
        moved = tuple(map(ad.instantiate_zeros, tangents))
        out: tuple[Any, Any] = jax.jvp(functools.partial(definition, **how), primals, moved)
        return out

    return jvp


def _defined(primitive: Any, definition: Callable[..., Any], static: tuple[str, ...]) -> None:
    """Have a primitive computed by its definition, also outside of a program, and for many at once."""
    primitive.def_impl(_run(primitive, definition, static))
    batching.primitive_batchers[primitive] = functools.partial(_batched, primitive)
    many = primitive.multiple_results
    mlir.register_lowering(primitive, mlir.lower_fun(definition, multiple_results=many))


def _run(primitive: Any, definition: Callable[..., Any], static: tuple[str, ...]) -> Callable[..., Any]:
    """Outside of any transformation a primitive is compiled on its own; traced, it shows what it is made of."""
    compiled = jax.jit(primitive.bind, static_argnames=static)

    def run(*operands: Array, **how: Any) -> Any:
        traced = any(isinstance(operand, jax.core.Tracer) for operand in operands)
        return (definition if traced else compiled)(*operands, **how)

    return run


def _batched(
    primitive: Any, operands: Sequence[Array], axes: Sequence[int | None], **how: Any
) -> tuple[Any, Any]:
    """More examples."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)

    def merged(x: Array, axis: int | None) -> Array:
        x = jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        return x.reshape(-1, *x.shape[2:])

    found = primitive.bind(*map(merged, operands, axes), **how)
    split = jax.tree.map(lambda x: x.reshape(size, -1, *x.shape[1:]), found)
    return split, jax.tree.map(lambda x: 0, split)


__all__ = ["operation"]
