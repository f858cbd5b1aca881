"""The plainest PixelRNN: an LSTM over all channels of all pixels, one after the other."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.conditionals import Conditionals, Continuation
from chainrule.models.autoregressive.pixels import PixelConfig, centred, class_tables, of_class, spread_over
from chainrule.nn import Linear, Stack
from chainrule.probability.distributions.outputs import OutputDistribution


@final
class RasterLSTM(Conditionals):
    """`h_t = LSTM(x_(t-1), position t, h_(t-1))`, and the distribution of entry t from h_t."""

    inward: Linear
    positions: Float[Array, "entries width"]
    body: Stack
    last: Linear
    tables: tuple[Float[Array, "classes _"], ...]
    output: OutputDistribution
    labels: Int[Array, " batch"] | None
    """Classes of the images at hand, while it is used for them."""

    def __init__(
        self,
        schema: Schema,
        config: PixelConfig,
        output: OutputDistribution,
        *,
        width: int,
        depth: int,
        key: Key,
    ) -> None:
        keys = jax.random.split(key, 4)
        self.inward = Linear(1, width, initializer="xavier", key=keys[0])
        self.positions = 0.1 * jax.random.normal(keys[1], (schema.dimensions, width))
        self.body = Stack(
            width, width, depth=depth, cell="lstm", recurrent_initializer="orthogonal", key=keys[2]
        )
        last = Linear(width, output.parameter_count, initializer="xavier", gain=0.1, key=keys[3])
        start = jnp.asarray(output.initial_parameters(), last.weight.dtype)
        self.last = eqx.tree_at(lambda layer: layer.bias, last, start)
        self.tables = class_tables(schema, config, (width,))
        self.output = output
        self.labels = None

    def of_classes(self, labels: Int[Array, " batch"]) -> "RasterLSTM":
        """The conditionals of images of these classes."""
        return eqx.tree_at(lambda one: one.labels, self, labels, is_leaf=lambda leaf: leaf is None)

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries numbers"]:
        """All conditionals in one pass."""
        before = jnp.pad(centred(x)[:, :-1], ((0, 0), (1, 0)))
        return self.last(self.body(self._inputs(before, self.positions))[0])

    def continued(self, x: Float[Array, "batch entries"], how: Continuation) -> Float[Array, "batch entries"]:
        """Entry after entry, with the states carried along."""

        def move(
            carry: tuple[Array, Tree], now: tuple[Array, Array, Array]
        ) -> tuple[tuple[Array, Tree], Array]:
            (before, states), (t, position, known) = carry, now
            out, states = self.body(self._inputs(before[:, None], position[None]), states)
            value = self.drawn(self.last(out)[:, 0], t, known, how)
            return (centred(value), states), value

        start = (jnp.zeros(len(x), x.dtype), self.body.initial((len(x),), x.dtype))
        over = (jnp.arange(x.shape[1]), self.positions, jnp.swapaxes(x, 0, 1))
        return jnp.swapaxes(jax.lax.scan(move, start, over)[1], 0, 1)

    def _inputs(
        self, before: Float[Array, "batch time"], positions: Float[Array, "time width"]
    ) -> Float[Array, "batch time width"]:
        bias = of_class(self.tables, self.labels, 0)
        return self.inward(before[..., None]) + positions[None] + spread_over(bias, 1)


__all__ = ["RasterLSTM"]
