"""Residual blocks of the first PixelCNN (van den Oord et al., 2016): masked convolutions in a single stack.

However many there are, a pixel never sees a wedge to its upper right: what lies to the right of the pixel above it has
to come down by a diagonal of the kernel, one column for each row.
"""

from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Tree
from chainrule.models.autoregressive.masked import MaskedConv, masked, pushed
from chainrule.models.autoregressive.pixel_stack import ClassBias, PixelLayer
from chainrule.models.autoregressive.pixels import spread_over
from chainrule.nn import Linear


@final
class PlainBlock(PixelLayer):
    """`x + W relu(conv(relu(V relu(x))))` with half as many features inside, all masked."""

    inward: Linear
    conv: MaskedConv
    out: Linear

    def __init__(self, width: int, kernel: int, channels: int, key: Key) -> None:
        """`width` is that of the inner features."""
        one, two, three = jax.random.split(key, 3)
        self.inward = Linear(2 * width, width, initializer="xavier", key=one)
        self.conv = MaskedConv(width, width, kernel, channels, key=two)
        self.out = Linear(width, 2 * width, initializer="xavier", key=three)

    @property
    def bias_size(self) -> int:
        """One number for each inner feature."""
        return self.inward.weight.shape[1]

    def __call__(
        self,
        x: Float[Array, "batch height width features"],
        pixels: Float[Array, "batch height width channels"],
        bias: ClassBias,
    ) -> Float[Array, "batch height width features"]:
        """The features of whole images."""
        del pixels
        return x + self._outer(self.conv(self._inner(x)) + spread_over(bias, 2))

    def first_row(self, batch: int, width: int, dtype: jnp.dtype) -> tuple[Tree, Tree]:
        """A window of inner features of the rows above."""
        window = jnp.zeros((batch, self.conv.reach, width, self.bias_size), dtype)
        return window, self.conv.from_above(window)

    def next_row(
        self,
        carried: Tree,
        x: Float[Array, "batch width features"],
        pixels: Float[Array, "batch width channels"],
        kept: Tree,
        bias: ClassBias,
    ) -> tuple[Tree, Tree]:
        """The window moved on."""
        del x, pixels, bias
        window = pushed(carried, kept)
        return window, self.conv.from_above(window)

    def before_first(self, batch: int, dtype: jnp.dtype) -> Tree:
        """No pixels to the left."""
        return jnp.zeros((batch, self.conv.reach, self.bias_size), dtype)

    def at(
        self, along: Tree, above: Tree, x: Float[Array, "batch features"], bias: ClassBias
    ) -> tuple[Float[Array, "batch features"], Tree]:
        """One pixel; its inner features are kept."""
        inner = self._inner(x)
        return x + self._outer(self.conv.at(along, above, inner) + spread_over(bias, 0)), inner

    def passed(self, along: Tree, x: Float[Array, "batch features"], kept: Tree) -> Tree:
        """The window of inner features along the row, moved on."""
        del x
        return pushed(along, kept)

    def _inner(self, x: Array) -> Array:
        return jax.nn.relu(masked(self.inward, self.conv.channels, jax.nn.relu(x)))

    def _outer(self, x: Array) -> Array:
        return masked(self.out, self.conv.channels, jax.nn.relu(x))


__all__ = ["PlainBlock"]
