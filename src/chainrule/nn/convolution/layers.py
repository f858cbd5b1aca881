"""Convolution layers in one to three dimensions: any leading axes, channels last."""

import math
import warnings
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.nn.convolution.functions import convolve, convolve_transpose
from chainrule.nn.initializers import GAINS, draw
from chainrule.nn.linear import as_weights, plus
from chainrule.nn.windows import (
    Padding,
    Pairs,
    PerAxis,
    check_padding,
    output_sizes,
    per_axis,
    resolve,
    spread,
)

PADDING_MODES = ("zeros", "reflect", "circular")


@final
class Conv(eqx.Module):
    """A convolution over the last `dimensions` axes before the channels.

    `y[i] = b + Σ_m x[i stride + m dilation - padding] w[m]`, with a weight of shape (*kernel, inputs / groups,
    outputs). With `groups`, the inputs are split into as many equal parts and each makes its own share of the outputs.
    An axis of n entries comes out with `floor((n + 2 padding - dilation (kernel - 1) - 1) / stride) + 1`; padding
    "same" makes that `ceil(n / stride)`. What lies beyond the edge is zero, the mirror image, or the other end.

    >>> layer = Conv(2, 3, 8, 5, stride=2, key=jax.random.key(0))
    >>> layer(jnp.zeros((10, 28, 28, 3))).shape
    (10, 14, 14, 8)
    """

    weight: Float[Array, "*kernel inputs_per_group outputs"]
    bias: Float[Array, " outputs"] | None
    stride: tuple[int, ...] = eqx.field(static=True)
    padding: str | Pairs = eqx.field(static=True)
    padding_mode: str = eqx.field(static=True)
    dilation: tuple[int, ...] = eqx.field(static=True)
    groups: int = eqx.field(static=True)

    def __init__(
        self,
        dimensions: int,
        inputs: int,
        outputs: int,
        kernel: PerAxis,
        *,
        stride: PerAxis = 1,
        padding: Padding = "same",
        padding_mode: str = "zeros",
        dilation: PerAxis = 1,
        groups: int = 1,
        bias: bool = True,
        initializer: str = "fan-in",
        gain: float | None = None,
        key: Key,
    ) -> None:
        check_dimensions("Conv", dimensions)
        inputs, outputs, groups = check_groups("Conv", inputs, outputs, groups)
        check_choice("Conv", "padding_mode", padding_mode, PADDING_MODES)
        kernel = per_axis("Conv", "kernel", kernel, dimensions)
        key_weight, key_bias = jax.random.split(key)
        shape = (*kernel, inputs // groups, outputs)
        self.weight = draw(initializer, key_weight, shape, gain)
        fan_in = math.prod(shape[:-1])
        self.bias = initial_bias(key_bias, fan_in, outputs, initializer) if bias else None
        self.stride = per_axis("Conv", "stride", stride, dimensions)
        self.padding = check_padding("Conv", padding, dimensions)
        self.padding_mode = padding_mode
        self.dilation = per_axis("Conv", "dilation", dilation, dimensions)
        self.groups = groups

    @property
    def kernel(self) -> tuple[int, ...]:
        """Entries of the kernel along each axis."""
        return self.weight.shape[:-2]

    @property
    def inputs(self) -> int:
        """Channels that go in."""
        return self.weight.shape[-2] * self.groups

    @property
    def outputs(self) -> int:
        """Channels that come out."""
        return self.weight.shape[-1]

    def __call__(self, x: Float[Array, "*axes inputs"]) -> Float[Array, "*output_axes outputs"]:
        """The convolution of every array along the leading axes."""
        sizes = check_input("Conv", x, len(self.kernel), self.inputs, self.groups)
        padding = resolve(self.padding, sizes, self.kernel, self.stride, self.dilation)
        output_sizes("Conv", sizes, self.kernel, self.stride, padding, self.dilation)
        if self.padding_mode != "zeros":
            x = _extend(x, padding, self.padding_mode)
            padding = ((0, 0),) * len(self.kernel)
        out = convolve(
            as_weights(x, self.weight),
            self.weight,
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
            groups=self.groups,
        )
        return add_bias(out, self.bias)


@final
class ConvTranspose(eqx.Module):
    """The adjoint of a convolution with the same weight and settings: it maps its outputs' shape to its inputs'.

    The weight has shape (*kernel, outputs / groups, inputs), that of a `Conv` from outputs to inputs. An axis of n
    entries comes out with `(n - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`; padding "same"
    makes that `n stride`. Kernels whose size is no multiple of the stride cover some outputs more often than others
    and draw checkerboards (Odena et al., 2016), hence the warning.

    >>> layer = ConvTranspose(2, 8, 3, 4, stride=2, key=jax.random.key(0))
    >>> layer(jnp.zeros((10, 14, 14, 8))).shape
    (10, 28, 28, 3)
    """

    weight: Float[Array, "*kernel outputs_per_group inputs"]
    bias: Float[Array, " outputs"] | None
    stride: tuple[int, ...] = eqx.field(static=True)
    padding: Pairs = eqx.field(static=True)
    dilation: tuple[int, ...] = eqx.field(static=True)
    output_padding: tuple[int, ...] = eqx.field(static=True)
    groups: int = eqx.field(static=True)

    def __init__(
        self,
        dimensions: int,
        inputs: int,
        outputs: int,
        kernel: PerAxis,
        *,
        stride: PerAxis = 1,
        padding: Padding = "same",
        output_padding: PerAxis = 0,
        dilation: PerAxis = 1,
        groups: int = 1,
        bias: bool = True,
        initializer: str = "fan-in",
        gain: float | None = None,
        key: Key,
    ) -> None:
        where = "ConvTranspose"
        check_dimensions(where, dimensions)
        inputs, outputs, groups = check_groups(where, inputs, outputs, groups)
        kernel = per_axis(where, "kernel", kernel, dimensions)
        self.stride = per_axis(where, "stride", stride, dimensions)
        self.dilation = per_axis(where, "dilation", dilation, dimensions)
        extra = per_axis(where, "output_padding", output_padding, dimensions, least=0)
        if any(e >= max(s, d) for e, s, d in zip(extra, self.stride, self.dilation, strict=True)):
            raise ArgumentError(
                f"{where}(output_padding={output_padding}): output_padding must be smaller than stride or dilation"
            )
        pairs = check_padding(where, padding, dimensions)
        if pairs == "valid":
            pairs = ((0, 0),) * dimensions
        elif isinstance(pairs, str):
            pairs, extra = _multiple(kernel, self.stride, self.dilation)
        self.padding, self.output_padding, self.groups = pairs, extra, groups
        if any(k % s for k, s in zip(kernel, self.stride, strict=True)):
            warnings.warn(
                f"{where}(kernel={kernel}, stride={self.stride}): a kernel that is no multiple of the stride draws "
                "checkerboards; make it one, or upsample and convolve",
                stacklevel=2,
            )
        key_weight, key_bias = jax.random.split(key)
        self.weight = _adjoint_weight(
            key_weight, kernel, inputs, outputs, groups, self.stride, initializer, gain
        )
        fan_in = math.prod(kernel) * outputs // groups
        self.bias = initial_bias(key_bias, fan_in, outputs, initializer) if bias else None

    @property
    def kernel(self) -> tuple[int, ...]:
        """Entries of the kernel along each axis."""
        return self.weight.shape[:-2]

    @property
    def inputs(self) -> int:
        """Channels that go in."""
        return self.weight.shape[-1]

    @property
    def outputs(self) -> int:
        """Channels that come out."""
        return self.weight.shape[-2] * self.groups

    def __call__(self, x: Float[Array, "*axes inputs"]) -> Float[Array, "*output_axes outputs"]:
        """The adjoint convolution of every array along the leading axes."""
        check_input("ConvTranspose", x, len(self.kernel), self.inputs, self.groups)
        out = convolve_transpose(
            as_weights(x, self.weight),
            self.weight,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
            output_padding=self.output_padding,
        )
        return add_bias(out, self.bias)


def check_dimensions(where: str, dimensions: int) -> None:
    """Raise unless there are one to three dimensions."""
    if whole(where, "dimensions", dimensions) not in (1, 2, 3):
        raise ArgumentError(f"{where}(dimensions={dimensions}): dimensions must be 1, 2 or 3")


def check_groups(where: str, inputs: int, outputs: int, groups: int) -> tuple[int, int, int]:
    """Channels that go in and come out, and groups; an error unless the groups divide both."""
    inputs, outputs = whole(where, "inputs", inputs), whole(where, "outputs", outputs)
    groups = whole(where, "groups", groups)
    if inputs % groups or outputs % groups:
        raise ArgumentError(
            f"{where}(groups={groups}): {groups} groups cannot share {inputs} inputs and {outputs} outputs: "
            f"{inputs} / {groups} = {inputs / groups:g}, {outputs} / {groups} = {outputs / groups:g}",
            remedy=f"use a divisor of {math.gcd(inputs, outputs)}",
        )
    return inputs, outputs, groups


def check_input(where: str, x: Array, dimensions: int, inputs: int, groups: int = 1) -> tuple[int, ...]:
    """The sizes of the axes that are convolved; an error for the wrong number of axes or channels."""
    if x.ndim < dimensions + 1:
        raise ArgumentError(
            f"{where}: an input of shape {x.shape} has no {dimensions} axes before its channels",
            remedy="inputs are (..., height, width, channels), with as many axes as the kernel",
        )
    if x.shape[-1] != inputs:
        sum_of_groups = f" = {groups} groups · {inputs // groups}" if groups > 1 else ""
        raise ArgumentError(
            f"{where}: the input has {x.shape[-1]} channels (shape {x.shape}), the layer takes {inputs}{sum_of_groups}",
            remedy="channels come last; for images stored channels first use jnp.moveaxis(x, -3, -1)",
        )
    return x.shape[-dimensions - 1 : -1]


def add_bias(x: Array, bias: Array | None) -> Array:
    """`x` plus a number per channel."""
    return x if bias is None else plus(x, bias.reshape((1,) * (x.ndim - 1) + bias.shape))


def initial_bias(key: Key, fan_in: int, outputs: int, initializer: str) -> Array:
    """Zeros, or in PyTorch's scheme numbers drawn like its weights."""
    if initializer == "torch":
        limit = 1 / math.sqrt(fan_in)
        return random.uniform(key, (outputs,), -limit, limit)
    return jnp.zeros(outputs)


def _extend(x: Array, padding: Pairs, mode: str) -> Array:
    """`x` continued beyond its edges."""
    sizes = x.shape[-len(padding) - 1 : -1]
    for size, pair in zip(sizes, padding, strict=True):
        most = size - 1 if mode == "reflect" else size
        if max(pair) > most:
            raise ArgumentError(
                f'Conv(padding_mode="{mode}"): {max(pair)} entries cannot be made from an axis of {size}',
                remedy='use a smaller kernel, or padding_mode="zeros"',
            )
    widths = [(0, 0)] * (x.ndim - len(padding) - 1) + [*padding, (0, 0)]
    return jnp.pad(x, widths, mode="wrap" if mode == "circular" else "reflect")


def _multiple(
    kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[Pairs, tuple[int, ...]]:
    """Padding and output padding with which an axis of n entries comes out with n stride."""
    pairs, extra = [], []
    for k, s, d in zip(kernel, stride, dilation, strict=True):
        total = spread(k, d) - s
        pairs.append((max(total, 0) // 2, max(total, 0) - max(total, 0) // 2))
        extra.append(max(-total, 0))
    return tuple(pairs), tuple(extra)


def _adjoint_weight(
    key: Key,
    kernel: tuple[int, ...],
    inputs: int,
    outputs: int,
    groups: int,
    stride: tuple[int, ...],
    initializer: str,
    gain: float | None,
) -> Array:
    if initializer == "torch":  # whose fan counts outputs
        return draw(initializer, key, (*kernel, outputs // groups, inputs))
    # An output is reached by one entry of the kernel in `stride`, so that many fewer products are summed.
    scaled = (GAINS.get(initializer, 1.0) if gain is None else gain) * math.sqrt(math.prod(stride))
    drawn = draw(initializer, key, (*kernel, inputs // groups, outputs), scaled)
    grouped = drawn.reshape(*kernel, inputs // groups, groups, outputs // groups)
    return grouped.swapaxes(-1, -3).reshape(*kernel, outputs // groups, inputs)


__all__ = ["Conv", "ConvTranspose"]
