"""Layers with weights: dense and convolutional.

In the parameterisation of tangent kernels weights are drawn from N(0, 1) and multiplied by `weight_std / sqrt(fan_in)`,
so the rate of training does not depend on the width. In the standard one they are drawn with that deviation; their
tangent kernel grows with the width (Sohl-Dickstein, Novak, Schoenholz and Lee, On the infinite width limit of neural
networks with a standard parameterization, 2020).
"""

import math
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.kernels.infinite.layer import Drawn, HasKernels, Shape, Sizes, check_std
from chainrule.kernels.infinite.state import KernelState
from chainrule.kernels.infinite.windows import SlidingWindow, slid, window
from chainrule.nn.convolution.functions import convolve


@final
class Affine(HasKernels):
    """A dense layer on channels: `K' = weight_std² K + bias_std²`, `Theta' = weight_std² Theta + K'`.

    `scaled=False` leaves out the division by the root of the number of inputs, which only a first layer can do.
    """

    weight_std: Scalar
    bias_std: Scalar | None
    scaled: bool = eqx.field(static=True)

    def __init__(self, weight_std: Any = 1.0, bias_std: Any = None, *, scaled: bool = True) -> None:
        self.weight_std = check_std("Affine", "weight_std", weight_std)
        self.bias_std = None if bias_std is None else check_std("Affine", "bias_std", bias_std)
        self.scaled = scaled

    def kernels(self, state: KernelState) -> KernelState:
        if not self.scaled and state.wide:
            raise ArgumentError(
                "Affine(scaled=False): behind a layer of infinite width its outputs would be infinite",
                remedy="leave scaled=False to the first layer",
            )
        times = 1.0 if self.scaled else float(state.channels)
        return weighed(state, self.weight_std, self.bias_std, state.fan_in(), times)

    def needs_pairs(self, later: bool) -> bool:
        return later

    def has_weights(self) -> bool:
        return True

    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """Weights of shape `(inputs, outputs)`."""
        shape = (inputs[-1], sizes.outputs)
        fan_in = inputs[-1] if self.scaled else 1
        drawn = FiniteAffine(*_parameters(key, shape, fan_in, self.weight_std, self.bias_std, sizes.standard))
        return drawn, (*inputs[:-1], sizes.outputs)


@final
class Convolve(HasKernels):
    """A convolution over one or two axes: an `Affine` layer of the window around every position.

    `window=3` slides over sequences `(time, channels)`, `window=(3, 3)` over images.
    """

    weight_std: Scalar
    bias_std: Scalar | None
    window: SlidingWindow

    def __init__(
        self,
        window_size: int | Sequence[int],
        weight_std: Any = 1.0,
        bias_std: Any = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: str = "same",
    ) -> None:
        self.weight_std = check_std("Convolve", "weight_std", weight_std)
        self.bias_std = None if bias_std is None else check_std("Convolve", "bias_std", bias_std)
        self.window = window("Convolve", window_size, stride, padding)

    def kernels(self, state: KernelState) -> KernelState:
        copies = 2 if state.pairs else 1
        moved = state.each(lambda k: slid("Convolve", self.window, k, state.space, copies, jointly=True))
        moved = moved.marked(space=self.window.output("Convolve", state.space))
        fan_in = state.fan_in() * math.prod(self.window.size)
        return weighed(moved, self.weight_std, self.bias_std, fan_in, 1.0)

    def needs_pairs(self, later: bool) -> bool:
        return later

    def has_weights(self) -> bool:
        return True

    def axes(self) -> int | None:
        return len(self.window.size) + 1

    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """Weights of shape `(*window, inputs, outputs)`."""
        output = self.window.output("Convolve", inputs[:-1])
        shape = (*self.window.size, inputs[-1], sizes.outputs)
        fan_in = math.prod(shape[:-1])
        parameters = _parameters(key, shape, fan_in, self.weight_std, self.bias_std, sizes.standard)
        return FiniteConvolve(*parameters, self.window), (*output, sizes.outputs)


def weighed(
    state: KernelState, weight_std: Array, bias_std: Array | None, fan_in: int, times: float
) -> KernelState:
    """Kernels behind weights, from those of what they multiply; `times` as much where inputs are not scaled."""
    square = jnp.square(weight_std).astype(state.nngp.dtype) * times
    added = 0.0 if bias_std is None else jnp.square(bias_std).astype(state.nngp.dtype)

    def linear(kernel: Array) -> Array:
        return square * kernel + added

    nngp, ntk = linear(state.nngp), None
    if state.ntk is not None:
        own = nngp
        if state.standard is not None:
            own = fan_in * state.nngp + (0.0 if bias_std is None else 1.0)
        ntk = square * state.ntk + own
    moved = state.with_arrays(nngp, ntk, linear(state.left), linear(state.right))
    return moved.marked(gaussian=True, channels=1, wide=True)


def _parameters(
    key: Key, shape: Shape, fan_in: int, weight_std: Array, bias_std: Array | None, standard: bool
) -> tuple[Array, Array | None, float, float]:
    """Weights, biases, and the factors they are used with."""
    weight_key, bias_key = jax.random.split(key)
    weight_scale = float(weight_std) / math.sqrt(fan_in)
    bias_scale = 0.0 if bias_std is None else float(bias_std)
    weight = jax.random.normal(weight_key, shape)
    bias = None if bias_std is None else jax.random.normal(bias_key, shape[-1:])
    if standard:
        return weight * weight_scale, None if bias is None else bias * bias_scale, 1.0, 1.0
    return weight, bias, weight_scale, bias_scale


def _with_bias(x: Array, bias: Array | None, scale: float) -> Array:
    return x if bias is None else x + scale * bias.reshape((1,) * (x.ndim - 1) + bias.shape)


@final
class FiniteAffine(eqx.Module):
    """A dense layer of finite width."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"] | None
    weight_scale: float = eqx.field(static=True)
    bias_scale: float = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "*batch inputs"], key: Key | None = None
    ) -> Float[Array, "*batch outputs"]:
        """Applied to the last axis."""
        del key
        return _with_bias(self.weight_scale * (x @ self.weight), self.bias, self.bias_scale)


@final
class FiniteConvolve(eqx.Module):
    """A convolution of finite width."""

    weight: Float[Array, "*window inputs outputs"]
    bias: Float[Array, " outputs"] | None
    weight_scale: float = eqx.field(static=True)
    bias_scale: float = eqx.field(static=True)
    window: SlidingWindow

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """Applied to the axes between the first and the last."""
        del key
        axes, one = range(1, x.ndim - 1), (1,) * len(self.window.size)
        found = convolve(
            self.window.padded("Convolve", x, axes, x.shape[1:-1]),
            self.weight,
            stride=self.window.stride,
            padding=((0, 0),) * len(one),
            dilation=one,
        )
        return _with_bias(self.weight_scale * found, self.bias, self.bias_scale)


__all__ = ["Affine", "Convolve", "FiniteAffine", "FiniteConvolve", "weighed"]
