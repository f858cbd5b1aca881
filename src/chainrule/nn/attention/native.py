"""Attention in the machine's own instructions, for single precision on processors with vector registers.

XLA runs attention over short texts as many small matrix products with tables of scores written and read between them: a
quarter of the time of a training step. Here a head is worked off block by block while everything is in a core's cache,
hidden halves of causal tables are left out, and the backward pass computes weights again from two numbers a query
instead of reading a table (Dao et al., 2022). The programs are in `chainrule.nn.kernels.heads`.

Three primitives make derivatives of every mode and order: the attention itself, its tangent (linear in the tangents of
queries, keys and values) and that map's transpose, the gradients. The first and the last have programs; whatever is not
a training step (forward mode, second derivatives, other numbers) is computed by the definition.
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
from chainrule.nn.attention.masks import Causal, Mask
from chainrule.nn.attention.softmax import softmax
from chainrule.nn.kernels import heads, native
from chainrule.nn.kernels.heads import Heads

attention_p = Primitive("attention")
attention_p.multiple_results = True
tangent_p = Primitive("attention_tangent")
gradients_p = Primitive("attention_gradients")
gradients_p.multiple_results = True


def attend(query: Array, key: Array, value: Array, mask: Mask | None, scale: float) -> Array:
    """See `chainrule.nn.attention.attend`; for what `fast` says yes to."""
    operands = (x.swapaxes(1, 2) for x in (query, key, value))
    out, _ = attention_p.bind(*operands, causal=mask is not None, scale=scale)
    return out.swapaxes(1, 2)


def fast(query: Array, key: Array, value: Array, mask: Mask | None, bias: object | None) -> bool:
    """Whether there is a program for this attention on this machine."""
    machine = native.machine() if jax.default_backend() == "cpu" else None
    return (
        machine is not None
        and query.ndim == 4
        and key.shape == value.shape
        and query.shape[1] == key.shape[1]
        and query.dtype == key.dtype == value.dtype == jnp.float32
        and bias is None
        and (mask is None or isinstance(mask, Causal))
        and heads.fits(_heads(query.swapaxes(1, 2), key.swapaxes(1, 2), mask is not None, 1.0), machine)
    )


def _heads(query: Any, key: Any, causal: bool, scale: float) -> Heads:
    batch, queries, count, size = query.shape
    return Heads(batch, count, queries, key.shape[1], size, causal, scale)


# ---------------------------------------------------------------------- definitions, of (batch, time, heads, size)


def _weights(query: Array, key: Array, causal: bool, scale: float) -> Array:
    scores = jnp.einsum("bqhd,bkhd->bhqk", query * jnp.asarray(scale, query.dtype), key)
    queries, keys = scores.shape[-2:]
    return softmax(scores, where=jnp.tri(queries, keys, dtype=bool) if causal else None)


def _gathered(query: Array, key: Array, value: Array, *, causal: bool, scale: float) -> Array:
    return jnp.einsum("bhqk,bkhd->bqhd", _weights(query, key, causal, scale), value)


def _attention(query: Array, key: Array, value: Array, **how: Any) -> tuple[Array, Array]:
    batch, queries, count, _ = query.shape
    return _gathered(query, key, value, **how), jnp.zeros((batch, count, 2, queries), query.dtype)


def _tangent(
    query: Array, key: Array, value: Array, level: Array, dq: Array, dk: Array, dv: Array, **how: Any
) -> Array:
    del level
    return jax.jvp(functools.partial(_gathered, **how), (query, key, value), (dq, dk, dv))[1]


def _gradients(
    query: Array, key: Array, value: Array, level: Array, cotangent: Array, **how: Any
) -> tuple[Array, ...]:
    del level
    grads: tuple[Array, ...] = jax.vjp(functools.partial(_gathered, **how), query, key, value)[1](cotangent)
    return grads


# ---------------------------------------------------------------------- shapes


@attention_p.def_abstract_eval
def _attention_shape(
    query: ShapedArray, key: ShapedArray, value: ShapedArray, **how: Any
) -> list[ShapedArray]:
    del key, value, how
    batch, queries, count, _ = query.shape
    return [query, ShapedArray((batch, count, 2, queries), query.dtype)]


@tangent_p.def_abstract_eval
def _tangent_shape(query: ShapedArray, *others: ShapedArray, **how: Any) -> ShapedArray:
    del others, how
    return query


@gradients_p.def_abstract_eval
def _gradients_shape(
    query: ShapedArray, key: ShapedArray, value: ShapedArray, *others: ShapedArray, **how: Any
) -> list[ShapedArray]:
    del others, how
    return [query, key, value]


# ---------------------------------------------------------------------- derivatives


def _attention_jvp(primals: Sequence[Array], tangents: Sequence[Any], **how: Any) -> tuple[Any, Any]:
    out, level = attention_p.bind(*primals, **how)
    moved = tangent_p.bind(*primals, level, *map(ad.instantiate_zeros, tangents), **how)
    return (out, level), (moved, ad.Zero(jax.typeof(level).to_tangent_aval()))


def _tangent_transposed(cotangent: Any, *operands: Any, **how: Any) -> list[Any]:
    known, linear = operands[:4], operands[4:]
    if type(cotangent) is ad.Zero:
        return [None] * 4 + [ad.Zero(x.aval) if ad.is_undefined_primal(x) else None for x in linear]
    found = gradients_p.bind(*known, cotangent, **how)
    wanted = [g if ad.is_undefined_primal(x) else None for g, x in zip(found, linear, strict=True)]
    return [None] * 4 + wanted


def _tangent_jvp(primals: Sequence[Array], tangents: Sequence[Any], **how: Any) -> tuple[Any, Any]:
    return jax.jvp(functools.partial(_tangent, **how), primals, tuple(map(ad.instantiate_zeros, tangents)))


def _gradients_jvp(primals: Sequence[Array], tangents: Sequence[Any], **how: Any) -> tuple[Any, Any]:
    return jax.jvp(functools.partial(_gradients, **how), primals, tuple(map(ad.instantiate_zeros, tangents)))


ad.primitive_jvps[attention_p] = _attention_jvp
ad.primitive_jvps[tangent_p] = _tangent_jvp
ad.primitive_jvps[gradients_p] = _gradients_jvp
ad.primitive_transposes[tangent_p] = _tangent_transposed

# ---------------------------------------------------------------------- batching


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


# ---------------------------------------------------------------------- programs


@functools.cache
def _program(kind: str, given: Heads) -> str:
    """The name under which XLA knows the program."""
    machine = native.machine()
    assert machine is not None
    write = {"attention": heads.attention, "gradients": heads.gradients}[kind]
    return native.register(f"chainrule_{kind}_{given.name}", write(given, machine, native.THREADS - 1))


def _run_attention(query: Array, key: Array, value: Array, *, causal: bool, scale: float) -> list[Array]:
    given = _heads(query, key, causal, scale)
    level = (given.batch, given.heads, 2, given.queries)
    results = [jax.ShapeDtypeStruct(shape, query.dtype) for shape in (query.shape, level)]
    return list(jax.ffi.ffi_call(_program("attention", given), results)(query, key, value))


def _run_gradients(
    query: Array, key: Array, value: Array, *others: Array, causal: bool, scale: float
) -> list[Array]:
    given = _heads(query, key, causal, scale)
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (query, key, value)]
    return list(jax.ffi.ffi_call(_program("gradients", given), results)(query, key, value, *others))


def _run(primitive: Any, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Outside of any transformation a primitive is compiled on its own; traced, it shows what it is made of."""
    compiled = jax.jit(primitive.bind, static_argnames=("causal", "scale"))

    def run(*operands: Array, **how: Any) -> Any:
        traced = any(isinstance(operand, jax.core.Tracer) for operand in operands)
        return (definition if traced else compiled)(*operands, **how)

    return run


for _primitive, _definition in ((attention_p, _attention), (tangent_p, _tangent), (gradients_p, _gradients)):
    _primitive.def_impl(_run(_primitive, _definition))
    batching.primitive_batchers[_primitive] = functools.partial(_batched, _primitive)
    mlir.register_lowering(
        _primitive, mlir.lower_fun(_definition, multiple_results=_primitive.multiple_results)
    )
mlir.register_lowering(attention_p, mlir.lower_fun(_run_attention, multiple_results=True), platform="cpu")
mlir.register_lowering(gradients_p, mlir.lower_fun(_run_gradients, multiple_results=True), platform="cpu")

__all__ = ["attend", "fast"]
