"""Encoders and decoders of latent-variable models: dense layers for anything, convolutions for images."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.latent.map_bodies import MapDecoder, MapEncoder
from chainrule.models.latent.settings import BodyConfig
from chainrule.networks.conv_autoencoder import ConvDecoder, ConvEncoder
from chainrule.nn import constructions, norm
from chainrule.nn.sequential import Sequential
from chainrule.probability.distributions.outputs import OutputDistribution

_QUIET = 0.1
"""Factor on the last weights of a decoder: it begins near the parameters that its distribution suggests."""


DenseNetwork: TypeAlias = constructions.Network | Sequential
"""Dense layers: plain ones, or with normalisers between them."""


@final
class DenseEncoder(eqx.Module):
    """Entries, and perhaps a vector beside them, through dense layers."""

    network: DenseNetwork

    def __call__(
        self, x: Float[Array, "batch ..."], beside: Float[Array, "batch _"] | None = None
    ) -> Float[Array, "batch outputs"]:
        """A vector for each example."""
        rows = x.reshape(len(x), -1)
        return self.network(rows if beside is None else jnp.concatenate([rows, beside], axis=1))

    def advance(self, x: Float[Array, "batch ..."], key: Key) -> tuple[Float[Array, "batch outputs"], Self]:
        """A vector for each example as in training, and the encoder with running statistics moved on."""
        out, network = _advanced(self.network, x.reshape(len(x), -1), key)
        return out, eqx.tree_at(lambda body: body.network, self, network)


@final
class DenseDecoder(eqx.Module):
    """Vectors through dense layers to so many numbers for every entry."""

    network: DenseNetwork
    shape: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, z: Float[Array, "batch inputs"]) -> Float[Array, "batch ..."]:
        """The numbers of every entry."""
        return self.network(z).reshape(len(z), *self.shape)

    def advance(self, z: Float[Array, "batch inputs"], key: Key) -> tuple[Float[Array, "batch ..."], Self]:
        """The numbers of every entry as in training, and the decoder with running statistics moved on."""
        out, network = _advanced(self.network, z, key)
        moved = eqx.tree_at(lambda body: body.network, self, network)
        return out.reshape(len(z), *self.shape), moved


Encoder: TypeAlias = DenseEncoder | ConvEncoder | MapEncoder
Decoder: TypeAlias = DenseDecoder | ConvDecoder | MapDecoder


Body = TypeVar("Body", bound=Encoder | Decoder)


def make_encoder(
    config: BodyConfig,
    schema: Schema,
    beside: int,
    outputs: int,
    key: Key,
    *,
    normalization: str = "none",
    latent: int | None = None,
) -> Encoder:
    """From examples, and a vector of length `beside`, to vectors; normalisers follow the hidden dense layers.

    `latent` are the entries of a code where the vectors are parameters of its distribution.
    """
    if config.body != "mlp":
        check_pixels(f"body={config.body}", schema, "use body=mlp")
    if config.body == "grid":
        _check_alone(beside)
        return MapEncoder(schema.shape, outputs, latent=latent or outputs, channels=config.channels, key=key)
    if config.body == "conv":
        return ConvEncoder(schema.shape, outputs, channels=config.channels, beside=beside, key=key)
    sizes = [schema.dimensions + beside, *[config.width] * config.depth, outputs]
    return DenseEncoder(_dense(sizes, config.activation, normalization, key))


def make_decoder(
    config: BodyConfig,
    inputs: int,
    schema: Schema,
    output: OutputDistribution | None,
    key: Key,
    *,
    normalization: str = "none",
) -> Decoder:
    """From vectors to the parameters of every entry, which begin with those the distribution suggests.

    Without a distribution it is one number for every entry.
    """
    numbers = 1 if output is None else output.parameter_count
    if config.body != "mlp":
        made = MapDecoder if config.body == "grid" else ConvDecoder
        conv = made(inputs, schema.shape, numbers, channels=config.channels, key=key)
        return conv if output is None else begun(conv, lambda decoder: decoder.exit, output)
    sizes = [inputs, *[config.width] * config.depth, schema.dimensions * numbers]
    network = _dense(sizes, config.activation, normalization, key)
    if output is not None:
        network = begun(network, lambda network: network.layers[-1], output)
    return DenseDecoder(network, (*schema.shape, numbers))


def map_of(encoder: Encoder) -> tuple[int, int, int] | None:
    """Rows, columns and channels of the codes of an encoder; none where they are no maps."""
    return encoder.code_map if isinstance(encoder, MapEncoder) else None


def advance(body: Body, x: Array, key: Key) -> tuple[Array, Body]:
    """What a body makes of a batch as in training, and the body with its running statistics moved on.

    Convolutions normalise each example by itself and have none.
    """
    if isinstance(body, DenseEncoder | DenseDecoder):
        moved: tuple[Array, Any] = body.advance(x, key)
        return moved
    return body(x), body


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


def check_pixels(setting: str, schema: Schema, remedy: str) -> None:
    """Raise unless the data are images."""
    if not kinds.of(schema).spatial:
        raise ArgumentError(
            f"{setting}: {schema.kind} data have no rows and columns of pixels", remedy=remedy
        )


def _check_alone(beside: int) -> None:
    """Raise where a condition would stand beside a map."""
    if beside:
        raise ArgumentError(
            "body=grid: conditions come as one vector, which has no place in a map", remedy="use body=conv"
        )


def _dense(sizes: Sequence[int], activation: str, normalization: str, key: Key) -> DenseNetwork:
    """Dense layers; with a normalisation, every hidden one is followed by it and then by the activation."""
    plain = constructions.mlp(sizes, activation, key=key)
    if normalization == "none":
        return plain
    *hidden, last = plain.layers
    normalised = [(layer, norm(normalization, layer.weight.shape[1]), activation) for layer in hidden]
    return Sequential([*itertools.chain.from_iterable(normalised), last])


def _advanced(network: DenseNetwork, x: Array, key: Key) -> tuple[Array, DenseNetwork]:
    return network.advance(x, key) if isinstance(network, Sequential) else (network(x), network)


def begun(network: Any, last: Callable[[Any], Any], output: OutputDistribution) -> Any:
    """A network whose last layer says little and begins with the parameters that the distribution suggests."""
    layer = last(network)
    assert layer.bias is not None, "last layers have a bias"
    with jax.ensure_compile_time_eval():  # a model may be built for its shapes alone
        start = np.resize(output.initial_parameters(), layer.bias.shape)
    quiet = (_QUIET * layer.weight, jnp.asarray(start, layer.bias.dtype))
    return eqx.tree_at(lambda n: (last(n).weight, last(n).bias), network, quiet)


__all__ = [
    "Decoder",
    "DenseDecoder",
    "DenseEncoder",
    "DenseNetwork",
    "Encoder",
    "advance",
    "begun",
    "check_pixels",
    "coarsened",
    "make_decoder",
    "make_encoder",
    "map_of",
]
