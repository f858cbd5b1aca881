"""Convolution of arrays, channels last, and its adjoint: what the layers are made of.

Like every learning library's, these are correlations: `y[i] = Σ_m x[i s + m d - p] w[m]`, the kernel is not flipped.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.nn.geometry import Pairs, output_sizes


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
    flat = x.reshape(math.prod(leading), *space, x.shape[-1])
    out = _stock(flat, weight, tuple(stride), padding, (1,) * dimensions, tuple(dilation), groups)
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
    leading, space = x.shape[: -dimensions - 1], x.shape[-dimensions - 1 : -1]
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[:dimensions], strict=True)]
    around = tuple(
        (r - low, r - high + extra)
        for r, (low, high), extra in zip(reach, padding, output_padding, strict=True)
    )
    flat = x.reshape(math.prod(leading), *space, x.shape[-1])
    out = _stock(
        flat, swapped(weight, groups), (1,) * dimensions, around, tuple(stride), tuple(dilation), groups
    )
    return out.reshape(*leading, *out.shape[1:])


def swapped(weight: Array, groups: int) -> Array:
    """The kernel of the adjoint: flipped in space, inputs and outputs of each group exchanged."""
    *kernel, per_group, outputs = weight.shape
    flipped = jnp.flip(weight, axis=tuple(range(len(kernel))))
    grouped = flipped.reshape(*kernel, per_group, groups, outputs // groups)
    return grouped.swapaxes(-1, -3).reshape(*kernel, outputs // groups, groups * per_group)


def _stock(
    x: Array,
    weight: Array,
    stride: tuple[int, ...],
    padding: Pairs,
    input_dilation: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    space = "DHW"[-len(stride) :]
    return jax.lax.conv_general_dilated(
        x,
        weight,
        stride,
        padding,
        lhs_dilation=input_dilation,
        rhs_dilation=dilation,
        dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"),
        feature_group_count=groups,
    )


__all__ = ["convolve", "convolve_transpose", "swapped"]
