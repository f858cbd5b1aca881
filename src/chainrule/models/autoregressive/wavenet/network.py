"""Dilated causal convolutions with gates, residual and skip connections (van den Oord et al., 2016).

A layer reads the present and K - 1 values before it, `dilation` steps apart. With dilations 1, 2, 4, ... what a step
sees grows exponentially with the layers: `1 + (K - 1) Σ dilation` inputs. Step by step every layer needs only the
values it will read again; they wait in a queue, so that a new step costs one column of each layer.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn import Linear


@final
class DilatedLayer(eqx.Module):
    """`tanh(a) · sigmoid(b)` of values `dilation` steps apart, added to the input and passed on to the output."""

    taps: Linear
    out: Linear
    skip: Linear
    kernel: int = eqx.field(static=True)
    dilation: int = eqx.field(static=True)

    def __init__(self, width: int, skip: int, kernel: int, dilation: int, key: Key) -> None:
        keys = jax.random.split(key, 3)
        self.taps = Linear(kernel * width, 2 * width, initializer="xavier", key=keys[0])
        self.out = Linear(width, width, initializer="xavier", key=keys[1])
        self.skip = Linear(width, skip, initializer="xavier", key=keys[2])
        self.kernel = kernel
        self.dilation = dilation

    @property
    def memory(self) -> int:
        """How many steps before the present one it still needs."""
        return (self.kernel - 1) * self.dilation

    def __call__(
        self, x: Float[Array, "batch time width"]
    ) -> tuple[Float[Array, "batch time width"], Float[Array, "batch time skip"]]:
        """The input with what was found added, and what goes to the output; before the first step all is zero."""
        padded = jnp.pad(x, ((0, 0), (self.memory, 0), (0, 0)))
        starts = range(0, self.memory + 1, self.dilation)
        return self._combined([padded[:, start : start + x.shape[1]] for start in starts], x)

    def step(
        self, queue: Float[Array, "batch memory width"], t: Int[Array, ""], x: Float[Array, "batch width"]
    ) -> tuple[Float[Array, "batch memory width"], Float[Array, "batch width"], Float[Array, "batch skip"]]:
        """The same for step `t` alone; step p waits in the queue at p modulo its length."""
        back = range(self.memory, 0, -self.dilation)
        past = [queue[:, (t - lag) % self.memory] for lag in back]
        new, skip = self._combined([*past, x], x)
        return queue.at[:, t % self.memory].set(x), new, skip

    def _combined(self, seen: Sequence[Array], x: Array) -> tuple[Array, Array]:
        a, b = jnp.split(self.taps(jnp.concatenate(seen, axis=-1)), 2, axis=-1)
        found = jnp.tanh(a) * jax.nn.sigmoid(b)
        return x + self.out(found), self.skip(found)


class Queues(NamedTuple):
    """What the layers remember, and how many steps they have read."""

    queues: tuple[Float[Array, "batch memory width"], ...]
    steps: Int[Array, ""]


@final
class CausalStack(eqx.Module):
    """Layers of growing dilation; what all of them pass on is read out by two dense layers."""

    inward: Linear
    layers: tuple[DilatedLayer, ...]
    hidden: Linear
    last: Linear

    def __init__(
        self, inputs: int, outputs: int, *, width: int, kernel: int, dilations: Sequence[int], key: Key
    ) -> None:
        keys = jax.random.split(key, len(dilations) + 3)
        skip = 2 * width
        self.inward = Linear(inputs, width, initializer="xavier", key=keys[0])
        self.layers = tuple(
            DilatedLayer(width, skip, kernel, dilation, one)
            for dilation, one in zip(dilations, keys[1:], strict=False)
        )
        self.hidden = Linear(skip, skip, initializer="xavier", key=keys[-2])
        self.last = Linear(skip, outputs, initializer="xavier", gain=0.1, key=keys[-1])

    @property
    def receptive_field(self) -> int:
        """How many inputs an output depends on."""
        return 1 + sum(layer.memory for layer in self.layers)

    def __call__(self, x: Float[Array, "batch time inputs"]) -> Float[Array, "batch time outputs"]:
        """The outputs of all steps in one pass."""
        return self._pass(x)[0]

    def begun(self, x: Float[Array, "batch time inputs"]) -> tuple[Float[Array, "batch outputs"], Queues]:
        """The output of the last step of a pass, and the queues after it."""
        out, seen = self._pass(x)
        return out[:, -1], Queues(tuple(map(_queued, self.layers, seen)), jnp.asarray(x.shape[1]))

    def step(
        self, before: Queues, x: Float[Array, "batch inputs"]
    ) -> tuple[Float[Array, "batch outputs"], Queues]:
        """The output of one more step, at the cost of one step."""
        h, total, queues = self.inward(x), jnp.zeros(()), []
        for layer, queue in zip(self.layers, before.queues, strict=True):
            queue, h, skip = layer.step(queue, before.steps, h)
            queues.append(queue)
            total = total + skip
        return self._read(total), Queues(tuple(queues), before.steps + 1)

    def _pass(self, x: Array) -> tuple[Array, list[Array]]:
        """Outputs, and the inputs of every layer."""
        h, total, seen = self.inward(x), jnp.zeros(()), []
        for layer in self.layers:
            seen.append(h)
            h, skip = layer(h)
            total = total + skip
        return self._read(total), seen

    def _read(self, total: Array) -> Array:
        return self.last(jax.nn.relu(self.hidden(jax.nn.relu(total))))


def _queued(layer: DilatedLayer, x: Float[Array, "batch time width"]) -> Float[Array, "batch memory width"]:
    """The last inputs of a layer, each at its place in the queue."""
    padded = jnp.pad(x, ((0, 0), (layer.memory, 0), (0, 0)))[:, -layer.memory :]
    return jnp.roll(padded, x.shape[1], axis=1)


__all__ = ["CausalStack", "DilatedLayer", "Queues"]
