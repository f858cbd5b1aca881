"""From noise to examples: dense layers for vectors, convolutions at rising resolutions for images."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.networks import units
from chainrule.networks.conv_autoencoder import ConvDecoder
from chainrule.nn import Linear, activations

_SMALL = 16
"""Images of at most so many pixels a side have two resolutions, others three."""


@final
class DenseGenerator(eqx.Module):
    """Hidden layers with ReLU, and a linear one to the entries; without hidden layers an affine map.

    >>> network = DenseGenerator(2, 3, width=8, depth=1, key=jax.random.key(0))
    >>> network(jnp.zeros((5, 2))).shape
    (5, 3)
    """

    layers: tuple[Linear, ...]

    def __init__(self, inputs: int, outputs: int, *, width: int, depth: int, key: Key) -> None:
        keys = jax.random.split(key, depth + 1)
        sizes = [inputs, *[width] * depth]
        gain = activations["relu"].gain
        hidden = [Linear(sizes[i], width, key=keys[i], gain=gain) for i in range(depth)]
        self.layers = (*hidden, Linear(sizes[-1], outputs, key=keys[-1]))

    def __call__(self, z: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
        for layer in self.layers[:-1]:
            z = jax.nn.relu(layer(z))
        return self.layers[-1](z)


@final
class NoiseGenerator(eqx.Module):
    """Examples in model units: those with entries from 0 to 1 end with a sigmoid."""

    network: DenseGenerator | ConvDecoder
    shape: tuple[int, ...] = eqx.field(static=True)
    bounded: bool = eqx.field(static=True)

    def __init__(
        self, schema: Schema, latent: int, *, width: int, depth: int, channels: int, key: Key
    ) -> None:
        self.shape, self.bounded = tuple(schema.shape), units.unit(schema)
        if kinds.of(schema).spatial:
            count = 2 if max(schema.shape[:2]) <= _SMALL else 3
            widths = [channels * 2**i for i in range(count)]
            self.network = ConvDecoder(latent, schema.shape, 1, channels=widths, key=key)
        else:
            self.network = DenseGenerator(latent, schema.dimensions, width=width, depth=depth, key=key)

    def __call__(self, z: Float[Array, "batch latent"]) -> Float[Array, "batch ..."]:
        x = self.network(z).reshape(len(z), *self.shape)
        x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return jax.nn.sigmoid(x) if self.bounded else x


__all__ = ["DenseGenerator", "NoiseGenerator"]
