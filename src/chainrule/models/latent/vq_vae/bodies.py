"""Encoders that give every cell of a grid a vector, and decoders that read such grids."""

from typing import TYPE_CHECKING, TypeAlias, final

import equinox as eqx
import jax

from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.latent.bodies import DenseDecoder, begun, check_pixels
from chainrule.networks.conv_autoencoder import GridDecoder, GridEncoder, resolutions
from chainrule.nn import constructions
from chainrule.probability.distributions.outputs import OutputDistribution

if TYPE_CHECKING:
    from chainrule.models.latent.vq_vae.model import VQVAEConfig


@final
class ConvCoder(eqx.Module):
    """Images through convolutions to a vector for each cell of the coarsest resolution."""

    network: GridEncoder
    grid: tuple[int, ...] = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch rows columns size"]:
        """A vector for each cell."""
        return self.network(x)


@final
class DenseCoder(eqx.Module):
    """Entries through dense layers to a few vectors."""

    network: constructions.Network
    grid: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, "batch ..."]) -> Float[Array, "batch slots size"]:
        """So many vectors."""
        return self.network(x.reshape(len(x), -1)).reshape(len(x), *self.grid, -1)


@final
class DenseUncoder(eqx.Module):
    """Several vectors, side by side, through dense layers to the numbers of every entry."""

    decoder: DenseDecoder

    def __call__(self, z: Float[Array, "batch slots size"]) -> Float[Array, "batch ..."]:
        """The numbers of every entry."""
        return self.decoder(z.reshape(len(z), -1))


Coder: TypeAlias = ConvCoder | DenseCoder
Uncoder: TypeAlias = GridDecoder | DenseUncoder


def make_coders(
    config: "VQVAEConfig", schema: Schema, output: OutputDistribution, key: Key
) -> tuple[Coder, Uncoder]:
    """What the settings ask for; parameters of entries begin with those that their distribution suggests."""
    one, two = jax.random.split(key)
    size, numbers = config.code_size, output.parameter_count
    if config.body == "conv" or (config.body == "auto" and kinds.of(schema).spatial):
        check_pixels("body=conv", schema, "use body=mlp")
        encoder = GridEncoder(schema.shape, size, channels=config.channels, key=one)
        decoder = GridDecoder(size, schema.shape, numbers, channels=config.channels, key=two)
        grid = resolutions(schema.shape, len(config.channels))[-1]
        return ConvCoder(encoder, grid), begun(decoder, lambda made: made.exit, output)
    hidden, entries = [config.width] * config.depth, schema.dimensions
    inward = constructions.mlp([entries, *hidden, config.slots * size], "relu", key=one)
    outward = constructions.mlp([config.slots * size, *hidden, entries * numbers], "relu", key=two)
    dense = DenseDecoder(begun(outward, lambda made: made.layers[-1], output), (*schema.shape, numbers))
    return DenseCoder(inward, (config.slots,)), DenseUncoder(dense)


__all__ = ["Coder", "ConvCoder", "DenseCoder", "DenseUncoder", "Uncoder", "make_coders"]
