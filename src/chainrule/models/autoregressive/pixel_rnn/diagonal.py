"""The diagonal bidirectional LSTM: states go along both diagonals (van den Oord et al., 2016).

A state is computed from that of the pixel to the left and that of the pixel above. All pixels of a diagonal are then
independent of each other: an image whose rows are each shifted by one more pixel is read column by column. A second
sweep goes from the right; its states are taken from the row above, where all of the row is known. It therefore reads
the pixels of that row beside their features, which know nothing of their own pixel: as published, without them, the
last pixel of the row above would be out of sight. Together a pixel sees everything before it, in every layer.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key, Tree
from chainrule.models.autoregressive.masked import masked
from chainrule.models.autoregressive.pixel_rnn.gates import remembering
from chainrule.models.autoregressive.pixel_stack import ClassBias, PixelLayer
from chainrule.models.autoregressive.pixels import spread_over
from chainrule.nn import Linear
from chainrule.nn.initializers import draw
from chainrule.nn.recurrent.cells import Feedback, LSTMCell


@final
class Sweep(eqx.Module):
    """States of pixels from left to right, each from that beside it and that above it."""

    inward: Linear
    beside: Feedback
    above: Feedback

    def __init__(self, inputs: int, width: int, key: Key) -> None:
        one, two, three = jax.random.split(key, 3)
        self.inward = remembering(Linear(inputs, 4 * width, initializer="xavier", key=one))
        self.beside = Feedback(draw("xavier", two, (width, 4 * width)), None)
        self.above = Feedback(draw("xavier", three, (width, 4 * width)), None)

    @property
    def units(self) -> int:
        """Numbers in a state."""
        return self.beside.weight.shape[0]

    def __call__(
        self, gates: Float[Array, "batch height width gates"]
    ) -> Float[Array, "batch height width units"]:
        """The states of all pixels, from the input's part of their gates."""
        batch, height, width, _ = gates.shape
        rows = jnp.arange(height)

        def move(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
            (h, c), (gates, column) = carry, now
            upper = jnp.pad(h, ((0, 0), (1, 0), (0, 0)))[:, :-1]
            h, c = self.step((h, c), upper, gates)
            begun = (column >= rows)[None, :, None]
            h, c = jnp.where(begun, h, 0), jnp.where(begun, c, 0)
            return (h, c), h

        nothing = jnp.zeros((batch, height, self.units), gates.dtype)
        columns = jnp.arange(height + width - 1)
        _, states = jax.lax.scan(move, (nothing, nothing), (jnp.moveaxis(skewed(gates), 2, 0), columns))
        return unskewed(jnp.moveaxis(states, 0, 2), width)

    def along(
        self, gates: Float[Array, "batch width gates"], upper: Float[Array, "batch width units"]
    ) -> Float[Array, "batch width units"]:
        """The states of one row below one whose states are known."""

        def move(carry: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
            h, c = self.step(carry, *now)
            return (h, c), h

        nothing = jnp.zeros((len(gates), self.units), gates.dtype)
        over = (jnp.swapaxes(upper, 0, 1), jnp.swapaxes(gates, 0, 1))
        return jnp.swapaxes(jax.lax.scan(move, (nothing, nothing), over)[1], 0, 1)

    def step(self, left: tuple[Array, Array], upper: Array, gates: Array) -> tuple[Array, Array]:
        """The states of a pixel from those on its left, the one above and the input's part of the gates."""
        (h, c), _ = LSTMCell().step(self.beside, left, gates + self.above(upper))
        return h, c


@final
class DiagonalLSTM(PixelLayer):
    """`x + W (l + r)`: states l of a sweep from the left, and r of one from the right, a row above."""

    left: Sweep
    right: Sweep
    out: Linear
    channels: int = eqx.field(static=True)

    def __init__(self, width: int, channels: int, key: Key) -> None:
        """`width` is that of a state; there are twice as many features."""
        one, two, three = jax.random.split(key, 3)
        self.left = Sweep(2 * width, width, one)
        self.right = Sweep(2 * width + channels, width, two)
        self.out = Linear(width, 2 * width, initializer="xavier", key=three)
        self.channels = channels

    @property
    def bias_size(self) -> int:
        """One number for each gate of both sweeps."""
        return 8 * self.left.units

    def __call__(
        self,
        x: Float[Array, "batch height width features"],
        pixels: Float[Array, "batch height width channels"],
        bias: ClassBias,
    ) -> Float[Array, "batch height width features"]:
        """The features of whole images."""
        for_left, for_right = _halves(bias, 2)
        ahead = self.left(self._from_left(x) + for_left)
        back = jnp.flip(self.right(jnp.flip(self._from_right(x, pixels) + for_right, axis=2)), axis=2)
        return x + self._out(ahead + jnp.pad(back, ((0, 0), (1, 0), (0, 0), (0, 0)))[:, :-1])

    def first_row(self, batch: int, width: int, dtype: jnp.dtype) -> tuple[Tree, Tree]:
        """No states above, of either sweep."""
        nothing = jnp.zeros((batch, width, self.left.units), dtype)
        return nothing, (nothing, nothing)

    def next_row(
        self,
        carried: Tree,
        x: Float[Array, "batch width features"],
        pixels: Float[Array, "batch width channels"],
        kept: Tree,
        bias: ClassBias,
    ) -> tuple[Tree, Tree]:
        """The sweep from the right over the complete row, below its own states of the row before."""
        gates = self._from_right(x, pixels) + _halves(bias, 1)[1]
        back = jnp.flip(self.right.along(jnp.flip(gates, axis=1), jnp.flip(carried, axis=1)), axis=1)
        return back, (kept[0], back)

    def before_first(self, batch: int, dtype: jnp.dtype) -> Tree:
        """No states to the left."""
        nothing = jnp.zeros((batch, self.left.units), dtype)
        return nothing, nothing

    def at(
        self, along: Tree, above: Tree, x: Float[Array, "batch features"], bias: ClassBias
    ) -> tuple[Float[Array, "batch features"], Tree]:
        """One pixel; its states are kept."""
        upper, back = above
        h, c = self.left.step(along, upper, self._from_left(x) + _halves(bias, 0)[0])
        return x + self._out(h + back), (h, c)

    def passed(self, along: Tree, x: Float[Array, "batch features"], kept: Tree) -> Tree:
        """The states of the pixel."""
        del along, x
        return kept

    def _from_left(self, x: Array) -> Array:
        """The sweep from the left reads the pixel itself, so that the order of the channels counts."""
        return masked(self.left.inward, self.channels, x, shares=4)

    def _from_right(self, x: Array, pixels: Array) -> Array:
        return self.right.inward(jnp.concatenate([x, pixels.astype(x.dtype)], axis=-1))

    def _out(self, h: Array) -> Array:
        return masked(self.out, self.channels, h)


def skewed(x: Float[Array, "batch height width features"]) -> Float[Array, "batch height columns features"]:
    """Every row shifted to the right by one more pixel than that above it.

    >>> skewed(jnp.arange(1.0, 7).reshape(1, 2, 3, 1))[0, ..., 0].astype(int).tolist()
    [[1, 2, 3, 0], [0, 4, 5, 6]]
    """
    height, width = x.shape[1:3]
    padded = jnp.pad(x, ((0, 0), (0, 0), (0, height), (0, 0)))
    flat = padded.reshape(len(x), height * (width + height), -1)[:, : height * (width + height - 1)]
    return flat.reshape(len(x), height, width + height - 1, -1)


def unskewed(
    x: Float[Array, "batch height columns features"], width: int
) -> Float[Array, "batch height width features"]:
    """The inverse of `skewed`."""
    height = x.shape[1]
    columns = np.arange(height)[:, None] + np.arange(width)[None]
    return x[:, np.arange(height)[:, None], columns]


def _halves(bias: ClassBias, axes: int) -> tuple[Array | float, Array | float]:
    """What the gates of both sweeps are given for a class, over so many axes of pixels."""
    if bias is None:
        return 0.0, 0.0
    left, right = jnp.split(spread_over(bias, axes), 2, axis=-1)
    return left, right


__all__ = ["DiagonalLSTM", "Sweep", "skewed", "unskewed"]
