"""Convolution of arrays, channels last, and its adjoint: what the layers are made of.

Like every learning library's, these are correlations: `y[i] = Σ_m x[i s + m d - p] w[m]`, the kernel is not flipped.
"""

import math
from collections.abc import Sequence

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.convolution.primitives import convolution
from chainrule.nn.windows import Geometry, Pairs, output_sizes, spread, swapped


def convolve(
    x: Float[Array, "*axes inputs"],
    weight: Float[Array, "*kernel inputs_per_group outputs"],
    *,
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
    groups: int = 1,
) -> Float[Array, "*outputs_axes outputs"]:
    """Correlate the last axes but one of `x` with a kernel, for any leading axes.

    >>> x = jnp.arange(5.0)[:, None]  # five entries of one channel
    >>> difference = jnp.array([-1.0, 1.0])[:, None, None]
    >>> convolve(x, difference, stride=(1,), padding=((0, 0),), dilation=(1,))[:, 0]
    Array([1., 1., 1., 1.], dtype=float32)
    """
    dimensions = weight.ndim - 2
    leading, space = x.shape[: -dimensions - 1], x.shape[-dimensions - 1 : -1]
    sizes = output_sizes("convolve", space, weight.shape[:dimensions], stride, padding, dilation)
    geometry = Geometry(tuple(stride), padding, (1,) * dimensions, tuple(dilation), groups)
    out = convolution(*_flattened(x, weight), geometry)
    return out.reshape(*leading, *sizes, weight.shape[-1])


def convolve_transpose(
    x: Float[Array, "*axes inputs"],
    weight: Float[Array, "*kernel outputs_per_group inputs"],
    *,
    stride: Sequence[int],
    padding: Pairs,
    dilation: Sequence[int],
    groups: int = 1,
    output_padding: Sequence[int],
) -> Float[Array, "*outputs_axes outputs"]:
    """The adjoint of `convolve` with the same weight and settings.

    `convolve` maps several sizes to one; `output_padding` chooses among them the one with that many entries more than
    the smallest: `(size - 1) stride - padding + dilation (kernel - 1) + output_padding + 1`.
    """
    dimensions = weight.ndim - 2
    leading = x.shape[: -dimensions - 1]
    reach = [spread(k, d) - 1 for d, k in zip(dilation, weight.shape[:dimensions], strict=True)]
    settings = zip(x.shape[-dimensions - 1 : -1], stride, padding, reach, output_padding, strict=True)
    for axis, (n, s, (low, high), r, extra) in enumerate(settings):
        size = (n - 1) * s - low - high + r + extra + 1
        if size < 1:
            raise ArgumentError(
                f"convolve_transpose: no output: ({n} - 1)·{s} - {low} - {high} + {r} + {extra} + 1 = {size} on axis "
                f"{axis}",
                remedy="use less padding, or a larger kernel or stride",
            )
    around = tuple(
        (r - low, r - high + extra)
        for r, (low, high), extra in zip(reach, padding, output_padding, strict=True)
    )
    geometry = Geometry((1,) * dimensions, around, tuple(stride), tuple(dilation), groups)
    out = convolution(*_flattened(x, swapped(weight, groups)), geometry)
    return out.reshape(*leading, *out.shape[1:])


def _flattened(x: Array, weight: Array) -> tuple[Array, Array]:
    """Both of one type, leading axes as one."""
    dimensions = weight.ndim - 2
    dtype = jnp.promote_types(x.dtype, weight.dtype)
    flat = x.reshape(math.prod(x.shape[: -dimensions - 1]), *x.shape[-dimensions - 1 :])
    return flat.astype(dtype), weight.astype(dtype)


__all__ = ["convolve", "convolve_transpose"]
