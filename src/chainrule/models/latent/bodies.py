"""Encoders and decoders of latent-variable models: dense layers for anything, convolutions for images."""

from typing import TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.latent.settings import LatentConfig
from chainrule.networks.conv_autoencoder import ConvDecoder, ConvEncoder
from chainrule.nn import constructions
from chainrule.probability.distributions.outputs import OutputDistribution

_QUIET = 0.1
"""Factor on the last weights of a decoder: it begins near the parameters that its distribution suggests."""


@final
class DenseEncoder(eqx.Module):
    """Entries, and perhaps a vector beside them, through dense layers."""

    network: constructions.Network

    def __call__(
        self, x: Float[Array, "batch ..."], beside: Float[Array, "batch _"] | None = None
    ) -> Float[Array, "batch outputs"]:
        """A vector for each example."""
        rows = x.reshape(len(x), -1)
        return self.network(rows if beside is None else jnp.concatenate([rows, beside], axis=1))


@final
class DenseDecoder(eqx.Module):
    """Vectors through dense layers to so many numbers for every entry."""

    network: constructions.Network
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, z: Float[Array, "batch inputs"]) -> Float[Array, "batch ..."]:
        """The numbers of every entry."""
        return self.network(z).reshape(len(z), *self.shape)


Encoder: TypeAlias = DenseEncoder | ConvEncoder
Decoder: TypeAlias = DenseDecoder | ConvDecoder


def make_encoder(config: LatentConfig, schema: Schema, beside: int, outputs: int, key: Key) -> Encoder:
    """From examples, and a vector of length `beside`, to vectors."""
    if config.body == "conv":
        _check_pixels("body=conv", schema, "use body=mlp")
        return ConvEncoder(schema.shape, outputs, channels=config.channels, beside=beside, key=key)
    if config.coarse > 1:
        _check_pixels(f"coarse={config.coarse}", schema, "leave coarse out")
    sizes = [schema.dimensions + beside, *[config.width] * config.depth, outputs]
    return DenseEncoder(constructions.mlp(sizes, config.activation, key=key))


def make_decoder(
    config: LatentConfig, inputs: int, schema: Schema, output: OutputDistribution, key: Key
) -> Decoder:
    """From vectors to the parameters of every entry, which begin with those the distribution suggests."""
    numbers = output.parameter_count
    if config.body == "conv":
        conv = ConvDecoder(inputs, schema.shape, numbers, channels=config.channels, key=key)
        quiet = (_QUIET * conv.exit.weight, _start(output, conv.exit.bias))
        return eqx.tree_at(lambda d: (d.exit.weight, d.exit.bias), conv, quiet)
    sizes = [inputs, *[config.width] * config.depth, schema.dimensions * numbers]
    network = constructions.mlp(sizes, config.activation, key=key)
    last = network.layers[-1]
    quiet = (_QUIET * last.weight, _start(output, last.bias))
    network = eqx.tree_at(lambda n: (n.layers[-1].weight, n.layers[-1].bias), network, quiet)
    return DenseDecoder(network, (*schema.shape, numbers))


def coarsened(x: Float[Array, "batch height width channels"], side: int) -> Array:
    """Every pixel replaced by the mean over its square of `side` pixels a side.

    >>> coarsened(jnp.arange(4.0).reshape(1, 1, 4, 1), 2).ravel().tolist()
    [0.5, 0.5, 2.5, 2.5]
    """
    down, across = (_means(length, side) for length in x.shape[1:3])
    return jnp.einsum("ij,bjkc,lk->bilc", down.astype(x.dtype), x, across.astype(x.dtype))


def _means(length: int, side: int) -> np.ndarray:
    number = np.arange(length) // side
    same = number[:, None] == number[None, :]
    means: np.ndarray = same / same.sum(axis=1, keepdims=True)
    return means


def _check_pixels(setting: str, schema: Schema, remedy: str) -> None:
    if not kinds.of(schema).spatial:
        raise ArgumentError(
            f"{setting}: {schema.kind} data have no rows and columns of pixels", remedy=remedy
        )


def _start(output: OutputDistribution, bias: Array | None) -> Array:
    assert bias is not None, "last layers have a bias"
    with jax.ensure_compile_time_eval():  # a model may be built for its shapes alone
        start = np.resize(output.initial_parameters(), bias.shape)
    return jnp.asarray(start, bias.dtype)


__all__ = ["Decoder", "DenseDecoder", "DenseEncoder", "Encoder", "coarsened", "make_decoder", "make_encoder"]
