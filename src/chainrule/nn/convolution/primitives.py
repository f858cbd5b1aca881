"""Convolution as two bilinear primitives, so that derivatives of every kind and order come out of two fast programs.

`convolution(x, w)` and `weight_gradient(x, dy)` are linear in each argument, and the transpose of either in either
argument is one of the two again: the input gradient is a convolution with the flipped, channel-swapped kernel (strides
become dilations of the input), the weight gradient is the second primitive, and transposing that one gives convolutions
back. Forward mode, reverse mode and any nesting of them therefore never leave the pair. On a CPU both are lowered to
the programs in `chainrule.nn.convolution.cpu`; every other platform gets XLA's own convolution.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from chainrule.core.types import Array
from chainrule.nn.convolution import cpu, stock
from chainrule.nn.native import availability
from chainrule.nn.windows import Geometry, swapped

convolution_p = Primitive("convolution")
weight_gradient_p = Primitive("convolution_weight_gradient")


def convolution(x: Array, weight: Array, geometry: Geometry) -> Array:
    """(batch, *space, inputs) and (*kernel, inputs / groups, outputs) to (batch, *sizes, outputs)."""
    if availability.left_out():
        return stock.convolution(x, weight, geometry=geometry)
    return convolution_p.bind(x, weight, geometry=geometry)


def weight_gradient(x: Array, cotangent: Array, geometry: Geometry, kernel: tuple[int, ...]) -> Array:
    """The weight `w` for which `vdot(w, v)` is `vdot(cotangent, convolution(x, v))`, for all `v`."""
    return weight_gradient_p.bind(x, cotangent, geometry=geometry, kernel=kernel)


# ---------------------------------------------------------------------- shapes


@convolution_p.def_abstract_eval
def _convolution_shape(x: ShapedArray, weight: ShapedArray, *, geometry: Geometry) -> ShapedArray:
    *kernel, per_group, outputs = weight.shape
    assert x.shape[-1] == per_group * geometry.groups
    sizes = geometry.sizes(x.shape[1:-1], kernel)
    return ShapedArray((x.shape[0], *sizes, outputs), jnp.promote_types(x.dtype, weight.dtype))


@weight_gradient_p.def_abstract_eval
def _weight_gradient_shape(
    x: ShapedArray, cotangent: ShapedArray, *, geometry: Geometry, kernel: tuple[int, ...]
) -> ShapedArray:
    assert cotangent.shape[1:-1] == geometry.sizes(x.shape[1:-1], kernel)
    shape = (*kernel, x.shape[-1] // geometry.groups, cotangent.shape[-1])
    return ShapedArray(shape, jnp.promote_types(x.dtype, cotangent.dtype))


# ---------------------------------------------------------------------- transposes


def _convolution_in_input(cotangent: Array, x: Any, weight: Array, *, geometry: Geometry) -> Array:
    adjoint = geometry.adjoint(x.aval.shape[1:-1], weight.shape[:-2])
    return convolution(cotangent, swapped(weight, geometry.groups), adjoint)


def _convolution_in_weight(cotangent: Array, x: Array, weight: Any, *, geometry: Geometry) -> Array:
    return weight_gradient(x, cotangent, geometry, weight.aval.shape[:-2])


def _weight_gradient_in_input(
    weight: Array, x: Any, cotangent: Array, *, geometry: Geometry, kernel: tuple[int, ...]
) -> Array:
    adjoint = geometry.adjoint(x.aval.shape[1:-1], kernel)
    return convolution(cotangent, swapped(weight, geometry.groups), adjoint)


def _weight_gradient_in_cotangent(
    weight: Array, x: Array, cotangent: Any, *, geometry: Geometry, kernel: tuple[int, ...]
) -> Array:
    del cotangent, kernel
    return convolution(x, weight, geometry)


ad.defbilinear(convolution_p, _convolution_in_input, _convolution_in_weight)
ad.defbilinear(weight_gradient_p, _weight_gradient_in_input, _weight_gradient_in_cotangent)

# ---------------------------------------------------------------------- batching


def _convolution_batched(
    operands: tuple[Array, Array], axes: tuple[int | None, int | None], *, geometry: Geometry
) -> tuple[Array, int]:
    x, weight = operands
    x_axis, weight_axis = axes
    groups = geometry.groups
    if weight_axis is None:  # more examples
        assert x_axis is not None
        x = jnp.moveaxis(x, x_axis, 0)
        count, batch = x.shape[:2]
        out = convolution(x.reshape(count * batch, *x.shape[2:]), weight, geometry)
        return out.reshape(count, batch, *out.shape[1:]), 0
    weight = jnp.moveaxis(weight, weight_axis, -2)
    count, outputs = weight.shape[-2:]
    if x_axis is None:  # more outputs, within each group
        weight = _split(weight, groups).swapaxes(-3, -2)  # (..., groups, count, outputs / groups)
        out = convolution(x, _merge(weight, 3), geometry)
        out = out.reshape(*out.shape[:-1], groups, count, outputs // groups)
        return _merge(jnp.moveaxis(out, -2, 0), 2), 0
    x = jnp.moveaxis(x, x_axis, -2)  # more groups
    out = convolution(_merge(x, 2), _merge(weight, 2), geometry._replace(groups=count * groups))
    return out.reshape(*out.shape[:-1], count, outputs), out.ndim - 1


def _weight_gradient_batched(
    operands: tuple[Array, Array],
    axes: tuple[int | None, int | None],
    *,
    geometry: Geometry,
    kernel: tuple[int, ...],
) -> tuple[Array, int]:
    x, cotangent = operands
    x_axis, cotangent_axis = axes
    groups = geometry.groups
    x = x if x_axis is None else jnp.moveaxis(x, x_axis, -2)
    cotangent = cotangent if cotangent_axis is None else jnp.moveaxis(cotangent, cotangent_axis, -2)
    if x_axis is None:  # more outputs, within each group
        count, outputs = cotangent.shape[-2:]
        cotangent = _merge(_split(cotangent, groups).swapaxes(-3, -2), 3)
        out = weight_gradient(x, cotangent, geometry, kernel)
        out = out.reshape(*out.shape[:-1], groups, count, outputs // groups)
        return _merge(jnp.moveaxis(out, -2, 0), 2), 0
    count, inputs = x.shape[-2:]
    if cotangent_axis is None:  # more inputs, within each group
        x = _merge(_split(x, groups).swapaxes(-3, -2), 3)
        out = weight_gradient(x, cotangent, geometry, kernel)
        return out.reshape(*kernel, count, inputs // groups, out.shape[-1]), len(kernel)
    many = geometry._replace(groups=count * groups)
    out = weight_gradient(_merge(x, 2), _merge(cotangent, 2), many, kernel)
    return out.reshape(*out.shape[:-1], count, cotangent.shape[-1]), out.ndim - 1


def _split(array: Array, groups: int) -> Array:
    """The last axis as (groups, rest)."""
    return array.reshape(*array.shape[:-1], groups, array.shape[-1] // groups)


def _merge(array: Array, axes: int) -> Array:
    """The last axes as one."""
    return array.reshape(*array.shape[:-axes], math.prod(array.shape[-axes:]))


batching.primitive_batchers[convolution_p] = _convolution_batched
batching.primitive_batchers[weight_gradient_p] = _weight_gradient_batched

# ---------------------------------------------------------------------- programs


def _run(primitive: Any, definition: Callable[..., Array]) -> Callable[..., Array]:
    """Outside of any transformation a primitive is compiled on its own; traced, it shows what it is made of."""
    compiled = jax.jit(primitive.bind, static_argnames=("geometry", "kernel"))

    def run(*operands: Array, **params: Any) -> Array:
        traced = any(isinstance(operand, jax.core.Tracer) for operand in operands)
        out: Array = (definition if traced else compiled)(*operands, **params)
        return out

    return run


for _primitive, _cpu, _stock in (
    (convolution_p, cpu.convolution, stock.convolution),
    (weight_gradient_p, cpu.weight_gradient, stock.weight_gradient),
):
    mlir.register_lowering(_primitive, mlir.lower_fun(_stock, multiple_results=False))
    mlir.register_lowering(_primitive, mlir.lower_fun(_cpu, multiple_results=False), platform="cpu")
    _primitive.def_impl(_run(_primitive, _stock))

__all__ = ["convolution", "convolution_p", "weight_gradient", "weight_gradient_p"]
