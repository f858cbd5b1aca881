"""Layers within an image that see pixels before a pixel, row by row, and earlier channels of it.

A masked convolution is written as the parts of its kernel that are left: rows above, pixels to the left, and the pixel
itself, where masks on the weights keep the order of the channels. Each part can also be applied where a sample is being
drawn, to the rows and pixels that are known by then.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key
from chainrule.nn import Conv, Linear
from chainrule.nn.convolution.functions import convolve


def masked(
    layer: Linear,
    channels: int,
    x: Float[Array, "*leading inputs"],
    *,
    strictly: bool = False,
    shares: int = 1,
) -> Float[Array, "*leading outputs"]:
    """A dense layer within a pixel, whose outputs for a channel see inputs of no later one (`strictly`: of earlier).

    Features belong to the channels in equal parts, in each of the `shares` of the outputs: gates lie side by side.
    """
    inputs, outputs = layer.weight.shape
    mask = _channel_mask(inputs, outputs // shares, channels, strictly)
    weight = jnp.where(jnp.tile(mask, (1, shares)), layer.weight, 0)
    return eqx.tree_at(lambda layer: layer.weight, layer, weight)(x)


def _channel_mask(inputs: int, outputs: int, channels: int, strictly: bool) -> Bool[Array, "inputs outputs"]:
    """
    >>> _channel_mask(3, 3, 3, strictly=True).astype(int)
    Array([[0, 1, 1],
           [0, 0, 1],
           [0, 0, 0]], dtype=int32)
    """
    of_input, of_output = (jnp.arange(n) * channels // n for n in (inputs, outputs))
    return of_input[:, None] < of_output[None, :] + (not strictly)


@final
class MaskedConv(eqx.Module):
    """A convolution that sees rows above, pixels to the left and, channel by channel, the pixel itself.

    Type A (`strictly`) is for pixels: an output sees earlier channels of its own one. Type B is for features, which
    know nothing of the channel they belong to: an output sees those of its own channel too. Without `rows` the kernel
    is as high as one row.
    """

    above: Conv | None
    left: Conv
    here: Linear
    strictly: bool = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    shares: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        channels: int,
        *,
        strictly: bool = False,
        rows: bool = True,
        shares: int = 1,
        key: Key,
    ) -> None:
        keys, reach = jax.random.split(key, 3), kernel // 2

        def conv(size: tuple[int, int], padding: tuple[tuple[int, int], tuple[int, int]], key: Key) -> Conv:
            return Conv(2, inputs, outputs, size, padding=padding, bias=False, initializer="xavier", key=key)

        self.above = conv((reach, kernel), ((reach, 0), (reach, reach)), keys[0]) if rows else None
        self.left = conv((1, reach), ((0, 0), (reach, 0)), keys[1])
        self.here = Linear(inputs, outputs, initializer="xavier", key=keys[2])
        self.strictly = strictly
        self.channels = channels
        self.shares = shares

    @property
    def reach(self) -> int:
        """Rows above and pixels to the left that it sees."""
        return self.left.kernel[1]

    def __call__(
        self, x: Float[Array, "batch height width inputs"]
    ) -> Float[Array, "batch height width outputs"]:
        """The convolution of whole images."""
        height, width = x.shape[1:3]
        out = self._here(x) + self.left(x)[:, :, :width]
        return out if self.above is None else out + self.above(x)[:, :height]

    def from_above(
        self, rows: Float[Array, "batch reach width inputs"]
    ) -> Float[Array, "batch width outputs"]:
        """What the rows above give to each pixel of the next one."""
        assert self.above is not None
        return row_of(self.above, rows)

    def at(
        self,
        left: Float[Array, "batch reach inputs"],
        above: Float[Array, "batch outputs"] | None,
        x: Float[Array, "batch inputs"],
    ) -> Float[Array, "batch outputs"]:
        """The output at one pixel, from the pixels to its left, what the rows above give to it, and the pixel."""
        out = self._here(x) + before(self.left, left)
        return out if above is None else out + above

    def _here(self, x: Float[Array, "*leading inputs"]) -> Float[Array, "*leading outputs"]:
        return masked(self.here, self.channels, x, strictly=self.strictly, shares=self.shares)


def row_of(conv: Conv, rows: Float[Array, "batch rows width inputs"]) -> Float[Array, "batch width outputs"]:
    """One row of the output of a convolution over several rows: the one for which these are all that it sees."""
    reach = conv.kernel[1] // 2
    out = convolve(rows, conv.weight, stride=(1, 1), padding=((0, 0), (reach, reach)), dilation=(1, 1))[:, 0]
    return out if conv.bias is None else out + conv.bias[None, None]


def before(conv: Conv, left: Float[Array, "batch reach inputs"]) -> Float[Array, "batch outputs"]:
    """One pixel of the output of a convolution along a row, from the pixels to its left."""
    out = left.reshape(len(left), -1) @ conv.weight.reshape(-1, conv.outputs)
    return out if conv.bias is None else out + conv.bias[None]


def pushed(window: Array, newest: Array) -> Array:
    """A window along the second axis moved on by one."""
    return jnp.concatenate([window[:, 1:], newest[:, None]], axis=1)


__all__ = ["MaskedConv", "before", "masked", "pushed", "row_of"]
