"""The row LSTM: states go down from row to row (van den Oord, Kalchbrenner and Kavukcuoglu, 2016).

A state is computed from the three nearest of the row above, so that a pixel sees a triangle over it.
"""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Tree
from chainrule.models.autoregressive.masked import MaskedConv, masked, pushed
from chainrule.models.autoregressive.pixel_rnn.gates import remembering
from chainrule.models.autoregressive.pixel_stack import ClassBias, PixelLayer
from chainrule.models.autoregressive.pixels import spread_over
from chainrule.nn import Linear
from chainrule.nn.initializers import draw
from chainrule.nn.recurrent.cells import Feedback, LSTMCell


@final
class RowLSTM(PixelLayer):
    """`x + W h`, where h and its cell come from the row above, and gates from the row itself up to the pixel too."""

    inward: MaskedConv
    recurrent: Feedback
    out: Linear

    def __init__(self, width: int, kernel: int, channels: int, key: Key) -> None:
        """`width` is that of a state; there are twice as many features."""
        one, two, three = jax.random.split(key, 3)
        inward = MaskedConv(2 * width, 4 * width, kernel, channels, rows=False, shares=4, key=one)
        self.inward = eqx.tree_at(lambda one: one.here, inward, remembering(inward.here))
        self.recurrent = Feedback(draw("xavier", two, (kernel * width, 4 * width)), None)
        self.out = Linear(width, 2 * width, initializer="xavier", key=three)

    @property
    def bias_size(self) -> int:
        """One number for each gate."""
        return self.recurrent.weight.shape[1]

    @property
    def units(self) -> int:
        """Numbers in a state."""
        return self.out.weight.shape[0]

    def __call__(
        self,
        x: Float[Array, "batch height width features"],
        pixels: Float[Array, "batch height width channels"],
        bias: ClassBias,
    ) -> Float[Array, "batch height width features"]:
        """The features of whole images, row after row."""
        del pixels
        gates = self.inward(x) + spread_over(bias, 2)

        def move(carry: tuple[Array, Array], now: Array) -> tuple[tuple[Array, Array], Array]:
            h, c = self._step(self._neighbours(carry[0]), carry[1], now)
            return (h, c), h

        nothing = jnp.zeros((*x.shape[:1], x.shape[2], self.units), gates.dtype)
        _, states = jax.lax.scan(move, (nothing, nothing), jnp.swapaxes(gates, 0, 1))
        return x + self._out(jnp.swapaxes(states, 0, 1))

    def first_row(self, batch: int, width: int, dtype: jnp.dtype) -> tuple[Tree, Tree]:
        """No states above."""
        nothing = jnp.zeros((batch, width, self.units), dtype)
        return (), (self._neighbours(nothing), nothing)

    def next_row(
        self,
        carried: Tree,
        x: Float[Array, "batch width features"],
        pixels: Float[Array, "batch width channels"],
        kept: Tree,
        bias: ClassBias,
    ) -> tuple[Tree, Tree]:
        """The states of the row, those of neighbours side by side."""
        del x, pixels, bias
        h, c = kept
        return carried, (self._neighbours(h), c)

    def before_first(self, batch: int, dtype: jnp.dtype) -> Tree:
        """No pixels to the left."""
        return jnp.zeros((batch, self.inward.reach, 2 * self.units), dtype)

    def at(
        self, along: Tree, above: Tree, x: Float[Array, "batch features"], bias: ClassBias
    ) -> tuple[Float[Array, "batch features"], Tree]:
        """One pixel; its states are kept."""
        neighbours, c = above
        h, c = self._step(neighbours, c, self.inward.at(along, None, x) + spread_over(bias, 0))
        return x + self._out(h), (h, c)

    def passed(self, along: Tree, x: Float[Array, "batch features"], kept: Tree) -> Tree:
        """The window of features along the row, moved on."""
        del kept
        return pushed(along, x)

    def _neighbours(self, h: Float[Array, "batch width units"]) -> Float[Array, "batch width more"]:
        reach, width = self.inward.reach, h.shape[1]
        wide = jnp.pad(h, ((0, 0), (reach, reach), (0, 0)))
        return jnp.concatenate([wide[:, shift : shift + width] for shift in range(2 * reach + 1)], axis=-1)

    def _step(self, neighbours: Array, c: Array, gates: Array) -> tuple[Array, Array]:
        (h, c), _ = LSTMCell().step(self.recurrent, (neighbours, c), gates)
        return h, c

    def _out(self, h: Array) -> Array:
        return masked(self.out, self.inward.channels, h)


__all__ = ["RowLSTM"]
