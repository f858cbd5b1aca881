"""The two networks of a Helmholtz machine: layers of binary units, each drawn given the layer beside it.

    generative:   p(z_L) p(z_{L-1} | z_L) ... p(x | z_1)
    recognition:  q(z_1 | x) q(z_2 | z_1) ... q(z_L | z_{L-1})

A unit is one with a probability that is the sigmoid of an affine function of the layer before it.
"""

from collections.abc import Sequence
from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.nn import Linear

Code: TypeAlias = tuple[Float[Array, "*batch _"], ...]
"""The states of the hidden layers, from the data up."""


def bernoulli(
    logits: Float[Array, "*batch units"], bits: Float[Array, "*batch units"]
) -> Float[Array, "*batch units"]:
    """The log-probability of each bit."""
    return bits * logits - jax.nn.softplus(logits)


def drawn(key: Key, logits: Float[Array, "*batch units"]) -> Float[Array, "*batch units"]:
    """Bits with these logits."""
    return jax.random.bernoulli(key, jax.nn.sigmoid(logits)).astype(logits.dtype)


@final
class GenerativeNetwork(eqx.Module):
    """From the top layer down to the data."""

    top: Float[Array, " units"]
    """Logits of the units of the top layer."""
    layers: tuple[Linear, ...]
    """From each hidden layer to the one below it; the first leads to the data."""

    def __init__(self, sizes: Sequence[int], key: Key) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        self.top = jnp.zeros(sizes[-1])
        self.layers = tuple(
            Linear(above, below, key=one) for below, above, one in zip(sizes, sizes[1:], keys, strict=False)
        )

    def logits(self, z: Code) -> list[Float[Array, "*batch _"]]:
        """Of the data and of every hidden layer, each given the layer above it."""
        below = [layer(above) for layer, above in zip(self.layers, z, strict=True)]
        shape = (1,) * (z[-1].ndim - 1) + (-1,)
        return [*below, jnp.broadcast_to(self.top.reshape(shape), z[-1].shape)]

    def log_joint(self, x: Float[Array, "*batch entries"], z: Code) -> Float[Array, "*batch"]:
        """`log p(x, z)`."""
        found = zip(self.logits(z), (x, *z), strict=True)
        return sum((bernoulli(logits, bits).sum(axis=-1) for logits, bits in found), start=jnp.zeros(()))

    def dream(
        self, key: Key, n: int, temperature: Array | float = 1.0
    ) -> tuple[Float[Array, "batch entries"], Code]:
        """Logits of `n` examples, and the codes they come from; a temperature divides the logits of the codes."""
        first, *keys = jax.random.split(key, len(self.layers))
        state = drawn(first, jnp.broadcast_to(self.top[None, :], (n, len(self.top))) / temperature)
        z = [state]
        for layer, one in zip(reversed(self.layers[1:]), keys, strict=True):
            z.insert(0, drawn(one, layer(z[0]) / temperature))
        return self.layers[0](z[0]), tuple(z)


@final
class RecognitionNetwork(eqx.Module):
    """From the data up to the top layer."""

    layers: tuple[Linear, ...]

    def __init__(self, sizes: Sequence[int], key: Key) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        self.layers = tuple(
            Linear(below, above, key=one) for below, above, one in zip(sizes, sizes[1:], keys, strict=False)
        )

    def draw(self, key: Key, x: Float[Array, "*batch entries"]) -> Code:
        """A code of each example."""
        z: list[Array] = []
        for layer, one in zip(self.layers, jax.random.split(key, len(self.layers)), strict=True):
            z.append(drawn(one, layer(z[-1] if z else x)))
        return tuple(z)

    def logits(self, x: Float[Array, "*batch entries"], z: Code) -> list[Float[Array, "*batch _"]]:
        """Of every hidden layer given the layer below it."""
        return [layer(below) for layer, below in zip(self.layers, (x, *z[:-1]), strict=True)]

    def log_prob(self, x: Float[Array, "*batch entries"], z: Code) -> Float[Array, "*batch"]:
        """`log q(z|x)`."""
        found = zip(self.logits(x, z), z, strict=True)
        return sum((bernoulli(logits, bits).sum(axis=-1) for logits, bits in found), start=jnp.zeros(()))

    def means(self, x: Float[Array, "*batch entries"]) -> Code:
        """Probabilities of the units, each layer from those of the one below it."""
        z: list[Array] = []
        for layer in self.layers:
            z.append(jax.nn.sigmoid(layer(z[-1] if z else x)))
        return tuple(z)


__all__ = ["Code", "GenerativeNetwork", "RecognitionNetwork", "bernoulli", "drawn"]
