"""Convolution and weight gradient as programs that XLA's CPU backend runs fast, in and out of loops.

XLA's own convolution is good where it is recognised as the plain case: single precision, channels last, nothing flipped
or transposed on the way. Its gradients are not of that kind, and inside a loop, where training runs, they fall back to
scalar code that is a hundred times slower. So the operands are brought into the plain case first. What does not fit is
written as matrix products over shifted copies of the input, `(pixels x inputs) (inputs x outputs)`, a few examples at a
time so that the copies stay in the cache. `chainrule.nn.convolution.selection` knows which is faster where.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.convolution import native, selection, stock
from chainrule.nn.convolution.phases import by_phases
from chainrule.nn.windows import Geometry, spread, swapped


def convolution(x: Array, weight: Array, *, geometry: Geometry) -> Array:
    """(batch, *space, inputs) and (*kernel, inputs / groups, outputs) to (batch, *sizes, outputs)."""
    sizes = geometry.sizes(x.shape[1:-1], weight.shape[:-2])
    dtype = jnp.promote_types(x.dtype, jnp.float32)  # sums of low-precision products are not low-precision
    if 0 in (*x.shape, *weight.shape, *sizes):
        return jnp.zeros((x.shape[0], *sizes, weight.shape[-1]), x.dtype)
    wide = x.astype(dtype), weight.astype(dtype)
    if all(dilation == 1 for dilation in geometry.input_dilation):
        out = _undilated(*wide, geometry)
    elif all(stride == 1 for stride in geometry.stride):
        # The barrier keeps what comes next from computing every pixel of the interleaved phases anew, entry by entry.
        out = jax.lax.optimization_barrier(by_phases(*wide, geometry, _undilated))
    else:  # no layer and no derivative of one has both
        out = stock.convolution(*wide, geometry=geometry)
    return out.astype(x.dtype)


def weight_gradient(x: Array, cotangent: Array, *, geometry: Geometry, kernel: tuple[int, ...]) -> Array:
    """(batch, *space, inputs) and (batch, *sizes, outputs) to (*kernel, inputs / groups, outputs)."""
    shape = (*kernel, x.shape[-1] // geometry.groups, cotangent.shape[-1])
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    if 0 in (*x.shape, *cotangent.shape, *shape):
        return jnp.zeros(shape, x.dtype)
    wide = x.astype(dtype), cotangent.astype(dtype)
    if all(dilation == 1 for dilation in geometry.input_dilation):
        out = _undilated_gradient(*wide, geometry, kernel)
    elif all(stride == 1 for stride in geometry.stride):
        # The adjoint of this convolution has no zeros between inputs, and the same gradient with roles exchanged.
        adjoint = geometry.adjoint(x.shape[1:-1], kernel)
        out = swapped(_undilated_gradient(wide[1], wide[0], adjoint, kernel), geometry.groups)
    else:
        out = stock.weight_gradient(*wide, geometry=geometry, kernel=kernel)
    return out.astype(x.dtype)


def _undilated(x: Array, weight: Array, geometry: Geometry) -> Array:
    if native.convolves(x, weight, geometry):
        return native.convolution(x, weight, geometry)
    if selection.convolve_by_xla(x, weight, geometry):
        # The barrier keeps the compiler from folding a flip or a transposition into the convolution, which it would
        # then no longer recognise as the plain case.
        if selection.in_pairs(x, weight, geometry):
            return _pairs(x, weight, geometry)
        return stock.convolution(x, jax.lax.optimization_barrier(weight), geometry=geometry)
    *kernel, per_group, outputs = weight.shape
    sizes = geometry.sizes(x.shape[1:-1], kernel)

    def products(x: Array) -> Array:
        entries = [
            _over_inputs(patch, part)
            for patch, part in zip(
                patches(x, geometry, kernel), weight.reshape(-1, per_group, outputs), strict=True
            )
        ]
        return sum(entries[1:], start=entries[0]).reshape(x.shape[0], *sizes, outputs)

    def _over_inputs(patch: Array, part: Array) -> Array:
        groups = geometry.groups
        if groups == 1:
            return patch.reshape(-1, per_group) @ part
        part = part.reshape(per_group, groups, outputs // groups)
        patch = patch.reshape(-1, groups, per_group)
        if per_group == 1:
            return (patch * part[0][None]).reshape(-1, outputs)
        return jnp.einsum("pgi,igo->pgo", patch, part).reshape(-1, outputs)

    if per_group == 1 or math.prod(kernel) == 1:  # no copies: shifts are fused into the products
        return products(x)
    size = selection.block(x.shape[0], 4 * math.prod(sizes) * (x.shape[-1] + outputs))
    return _in_blocks(products, x, size)


def _pairs(x: Array, weight: Array, geometry: Geometry) -> Array:
    """Two neighbours along the last axis at once, as twice as many outputs of a kernel that is one entry longer."""
    edges = [(0, 0)] * weight.ndim
    before, after = ([*edges[:-3], pair, *edges[-2:]] for pair in ((0, 1), (1, 0)))
    both = jnp.concatenate([jnp.pad(weight, before), jnp.pad(weight, after)], axis=-1)
    stepping = geometry._replace(stride=(*geometry.stride[:-1], 2))
    out = stock.convolution(x, jax.lax.optimization_barrier(both), geometry=stepping)
    return out.reshape(*out.shape[:-2], 2 * out.shape[-2], weight.shape[-1])


def _undilated_gradient(x: Array, cotangent: Array, geometry: Geometry, kernel: tuple[int, ...]) -> Array:
    if native.weighs(x, cotangent, geometry):
        return native.weight_gradient(x, cotangent, geometry, (kernel[0], kernel[1]))
    if selection.weigh_by_xla(x, geometry, kernel):
        if selection.weigh_exchanged(x, cotangent):
            adjoint = geometry.adjoint(x.shape[1:-1], kernel)
            return swapped(_gradient_as_convolution(cotangent, x, adjoint, kernel), 1)
        return _gradient_as_convolution(x, cotangent, geometry, kernel)
    groups, inputs, outputs = geometry.groups, x.shape[-1], cotangent.shape[-1]
    per_group = inputs // groups
    if inputs == outputs == groups and len(kernel) == 2:
        return _depthwise_gradient(x, cotangent, geometry, kernel)

    def products(x: Array, cotangent: Array) -> Array:
        pixels = cotangent.reshape(-1, groups, outputs // groups)
        found = patches(x, geometry, kernel)
        if groups == 1:
            # In this order it is the cotangent that has to be transposed, once for all entries of the kernel.
            columns = jnp.concatenate([patch.reshape(len(pixels), inputs) for patch in found], axis=-1)
            return pixels[:, 0].T @ columns
        return jnp.stack(
            [jnp.einsum("pgi,pgo->goi", p.reshape(len(pixels), groups, per_group), pixels) for p in found],
            axis=2,
        )

    size = selection.block(x.shape[0], 4 * math.prod(cotangent.shape[1:-1]) * math.prod(kernel) * inputs)
    total = _sum_of_blocks(products, (x, cotangent), size)
    return total.reshape(outputs, *kernel, per_group).transpose(*range(1, len(kernel) + 2), 0)


def _depthwise_gradient(x: Array, cotangent: Array, geometry: Geometry, kernel: tuple[int, ...]) -> Array:
    """Channel by channel: `Σ_p x[p + offset] dy[p]`, for a stretch of a row of some examples at a time.

    A stretch gives one product for each of its pixels, all of them of the shape of the result, which the compiler adds
    up in one pass. As sums over all pixels, one for each offset, they were passes over the whole image: eight times
    slower for 7x7 kernels.
    """
    batch, height, width, channels = cotangent.shape
    together = math.gcd(batch, selection.PARALLEL)
    stretch = min(width, selection.STRETCH)
    pieces = -(-width // stretch)
    missing = pieces * stretch - width
    (down, right), (dilated_rows, dilated_columns) = geometry.stride, geometry.dilation
    tall, wide = (spread(size, dilation) for size, dilation in zip(kernel, geometry.dilation, strict=True))
    edges = [(0, 0), *geometry.padding, (0, 0)]
    low, high = edges[2]
    edges[2] = (low, high + missing * right)
    seen = jax.lax.pad(x, jnp.zeros((), x.dtype), [(*pair, 0) for pair in edges])
    gone = jnp.pad(cotangent, [(0, 0), (0, 0), (0, missing), (0, 0)])
    seen, gone = (a.reshape(batch // together, together, *a.shape[1:]) for a in (seen, gone))

    def add(total: Array, number: Array) -> tuple[Array, None]:
        number, piece = number // pieces, number % pieces * stretch
        example, row = number // height, number % height
        columns = (stretch - 1) * right + wide
        inputs = jax.lax.dynamic_slice(
            seen,
            (example, 0, row * down, piece * right, 0),
            (1, together, tall, columns, channels),
        )[0, :, ::dilated_rows]
        outputs = jax.lax.dynamic_slice(
            gone, (example, 0, row, piece, 0), (1, together, 1, stretch, channels)
        )[0]
        products = (
            inputs[:, :, i * right : i * right + wide : dilated_columns] * outputs[:, :, i : i + 1]
            for i in range(stretch)
        )
        return sum(products, start=total), None

    start = jnp.zeros((together, *kernel, channels), x.dtype)
    total, _ = jax.lax.scan(add, start, jnp.arange(batch // together * height * pieces))
    return total.sum(axis=0)[:, :, None]


def _gradient_as_convolution(x: Array, cotangent: Array, geometry: Geometry, kernel: Sequence[int]) -> Array:
    """One convolution: channels as examples, examples as channels, the cotangent as a kernel the size of the output."""
    axes = range(1, x.ndim - 1)
    sizes = cotangent.shape[1:-1]
    padding = tuple(
        (low, spread(size, stride) + spread(k, dilation) - 1 - n - low)
        for low, size, stride, k, dilation, n in zip(
            (pair[0] for pair in geometry.padding),
            sizes,
            geometry.stride,
            kernel,
            geometry.dilation,
            x.shape[1:-1],
            strict=True,
        )
    )
    exchanged = Geometry(geometry.dilation, padding, geometry.input_dilation, geometry.stride, 1)
    operands = jax.lax.optimization_barrier(
        (x.transpose(x.ndim - 1, *axes, 0), cotangent.transpose(*axes, 0, x.ndim - 1))
    )
    return stock.convolution(*operands, geometry=exchanged).transpose(*axes, 0, x.ndim - 1)


def patches(x: Array, geometry: Geometry, kernel: Sequence[int]) -> list[Array]:
    """For each entry of the kernel the inputs that it meets, (batch, *sizes, inputs)."""
    sizes = geometry.sizes(x.shape[1:-1], kernel)
    edges = [(0, 0, 0), *((low, high, 0) for low, high in geometry.padding), (0, 0, 0)]
    padded = jax.lax.pad(x, jnp.zeros((), x.dtype), edges)
    found = []
    for offsets in itertools.product(*(range(k) for k in kernel)):
        starts = [offset * dilation for offset, dilation in zip(offsets, geometry.dilation, strict=True)]
        limits = [
            start + spread(size, stride)
            for start, size, stride in zip(starts, sizes, geometry.stride, strict=True)
        ]
        found.append(
            jax.lax.slice(
                padded,
                (0, *starts, 0),
                (x.shape[0], *limits, x.shape[-1]),
                (1, *geometry.stride, 1),
            )
        )
    return found


def _in_blocks(function: Callable[[Array], Array], x: Array, size: int) -> Array:
    """`function` of a few examples at a time."""
    count, rest = divmod(x.shape[0], size)
    if count == 1 and not rest:
        return function(x)
    whole = x[: count * size].reshape(count, size, *x.shape[1:])
    out = jax.lax.map(function, whole)
    out = out.reshape(count * size, *out.shape[2:])
    return jnp.concatenate([out, function(x[count * size :])]) if rest else out


def _sum_of_blocks(function: Callable[..., Array], operands: tuple[Array, ...], size: int) -> Array:
    """The sum of `function` over a few examples at a time."""
    count, rest = divmod(len(operands[0]), size)
    if count == 1 and not rest:
        return function(*operands)
    blocks = [operand[: count * size].reshape(count, size, *operand.shape[1:]) for operand in operands]
    one = jax.eval_shape(function, *(block[0] for block in blocks))
    start = jnp.zeros(one.shape, one.dtype)
    total, _ = jax.lax.scan(lambda total, block: (total + function(*block), None), start, blocks)
    return total + function(*(operand[count * size :] for operand in operands)) if rest else total


__all__ = ["convolution", "patches", "weight_gradient"]
