"""The vector-quantised auto-encoder (van den Oord, Vinyals and Kavukcuoglu, 2017), and a prior of its codes.

The encoder gives each cell of a grid a vector, and the nearest of a codebook takes its place; the decoder reads these
alone. Gradients pass the choice as if it were none, and a commitment keeps vectors near the codes they become. A prior
over grids of codes is learned beside, on codes that it cannot change, so that examples can be drawn and

    -log p(x) <= -log p(x | c) - log p(c),  c the codes of x

holds: of the sum p(x) = Σ_c p(c) p(x | c) a single term is kept.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.quantized import QuantizedCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.latent.coded import AT_ONCE, Entries, JudgesEntries
from chainrule.models.latent.likelihoods import output_of
from chainrule.models.latent.settings import EntryConfig
from chainrule.models.latent.vq_vae import pictures
from chainrule.models.latent.vq_vae.bodies import Coder, Uncoder, make_coders
from chainrule.models.latent.vq_vae.coding import quantized_code
from chainrule.models.latent.vq_vae.prior import CodePrior
from chainrule.models.latent.vq_vae.quantizer import Quantizer, perplexity, straight_through
from chainrule.models.protocol import (
    Bounded,
    HasBoundParts,
    HasCodebook,
    HasState,
    Metrics,
    read_options,
)
from chainrule.networks import units
from chainrule.probability.distributions.outputs import OutputDistribution


@final
class VQVAEConfig(EntryConfig):
    """Settings of the vector-quantised variational auto-encoder."""

    codes: int = Field(
        64, ge=2, le=65536, description="vectors in the codebook; 256 for images above 16 pixels"
    )
    code_size: int = Field(8, ge=1, le=4096, description="entries of each of these vectors")
    body: Literal["auto", "conv", "mlp"] = Field(
        "auto",
        description="encoder and decoder: residual convolutions with a grid of codes, or dense layers with a few; "
        "auto: conv for images",
    )
    channels: tuple[int, ...] = Field(
        (32, 64),
        min_length=1,
        max_length=8,
        description="conv: channels at each resolution; every one after the first halves the sides of the grid",
    )
    slots: int = Field(4, ge=1, le=4096, description="mlp: codes of an example")
    width: int = Field(256, ge=1, description="mlp: units of each hidden layer")
    depth: int = Field(2, ge=0, le=20, description="mlp: hidden layers")
    commitment: float = Field(
        0.25, ge=0, description="weight of the squared distance of vectors from the codes they become"
    )
    codebook_decay: float = Field(
        0.99, ge=0, lt=1, description="of the running means that the codes are, from step to step"
    )
    revive: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="codes met less often than this share of an even use are put where a vector is; 0: never",
    )
    prior_layers: int = Field(
        2,
        ge=0,
        le=100,
        description="blocks of the causal transformer over the codes; 0: every place has frequencies of its own",
    )
    prior_width: int = Field(64, ge=4, description="numbers that stand for a code in it; 4 heads divide them")


@final
class VQVAE(JudgesEntries, HasState, HasBoundParts, HasCodebook, HasCode):
    """Stands for each example by codes of a codebook, and knows how likely their combinations are."""

    encoder: Coder
    quantizer: Quantizer
    decoder: Uncoder
    prior: CodePrior
    entry_output: OutputDistribution
    config: VQVAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: VQVAEConfig, schema: Schema, key: Key) -> None:
        if config.prior_width % 4:
            raise ArgumentError(
                f"prior_width={config.prior_width}: 4 heads divide it evenly",
                remedy=f"use prior_width={4 * (config.prior_width // 4 + 1)}",
            )
        keys = jax.random.split(key, 3)
        self.config, self.schema = config, schema
        self.entry_output = output_of(config, schema)
        self.encoder, self.decoder = make_coders(config, schema, self.entry_output, keys[0])
        self.quantizer = Quantizer(
            config.codes, config.code_size, decay=config.codebook_decay, revive=config.revive, key=keys[1]
        )
        self.prior = CodePrior(
            locations=math.prod(self.code_shape),
            codes=config.codes,
            width=config.prior_width,
            layers=config.prior_layers,
            key=keys[2],
        )

    # ------------------------------------------------------------------ training

    def state(self) -> Sequence[Tree]:
        """The codebook and what its running means are made of."""
        return [self.quantizer]

    def loss_unit(self) -> str:
        """That of a bound."""
        return "nats per example"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The bound in nats of an example, and the weighted distance of vectors from their codes."""
        for_noise, for_codes = jax.random.split(key)
        x = self.target(batch.x, for_noise)
        vectors = self._vectors(x)
        found = self.quantizer(vectors)
        read = straight_through(vectors, found.codes)
        distortion = self._distortion(x, read).mean()
        rate = -self.prior.log_prob(found.indices.reshape(len(x), -1)).mean()
        apart = jnp.square(vectors - found.codes).sum() / len(x)
        moved = self.quantizer.moved(vectors, found.indices, for_codes)
        met = jnp.zeros(self.config.codes).at[found.indices].add(1.0)
        metrics = {
            "distortion": distortion,
            "rate": rate,
            "commitment": apart,
            "perplexity": perplexity(met),
        }
        loss = distortion + rate + self.config.commitment * apart
        return loss, metrics, eqx.tree_at(lambda model: model.quantizer, self, moved)

    def _vectors(self, x: Array) -> Float[Array, "vectors size"]:
        """What the encoder says of every cell of every example, one after another."""
        found = self.encoder(units.to_network(self.schema, x))
        found = found.astype(jnp.promote_types(found.dtype, jnp.float32))
        return found.reshape(-1, self.config.code_size)

    def parameters(self, codes: Float[Array, "vectors size"]) -> Array:
        """Parameters of every entry of the examples whose codes these vectors are."""
        found = self.decoder(codes.reshape(-1, *self.code_shape, self.config.code_size))
        return found.astype(jnp.promote_types(found.dtype, jnp.float32))

    def _distortion(self, x: Array, codes: Float[Array, "vectors size"]) -> Float[Array, " batch"]:
        """What is left to say of each example in nats once its codes are known."""
        return self.nats(self.entry_log_likelihood(x, self.parameters(codes)))

    # ------------------------------------------------------------------ the bound

    @property
    def output(self) -> OutputDistribution:
        """As the settings ask for it."""
        return self.entry_output

    def bound(self, batch: Batch, key: Key) -> Bounded:
        """The bound of each example from its own codes; `codes` is what they cost under the prior."""
        x = self.target(batch.x, key)
        found = self.quantizer(self._vectors(x))
        given = self.entry_log_likelihood(x, self.parameters(found.codes))
        cost = -self.prior.log_prob(found.indices.reshape(len(x), -1))
        return Bounded(given - cost, {"codes": cost}, {})

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """`log p(x | c) + log p(c)` of each example and its codes."""
        return self.bound(Batch(x), key).elbo

    def code(self) -> QuantizedCode:
        """Codes by the prior, then entries given the codes."""
        return quantized_code(self)

    # ------------------------------------------------------------------ codes

    @property
    def codebook(self) -> Float[Array, "codes size"]:
        """The vectors, one row for each code."""
        return self.quantizer.codebook

    @property
    def code_shape(self) -> tuple[int, ...]:
        """Rows and columns of the grid, or how many codes an example has."""
        return self.encoder.grid

    def encode_indices(self, x: Array) -> Int[Array, "batch *grid"]:
        """The codes of each example, by their numbers."""
        return self.quantizer(self._vectors(x)).indices.reshape(len(x), *self.code_shape)

    def decode_indices(self, indices: Int[Array, "batch *grid"]) -> Array:
        """The example of each grid of codes, the mean of every entry."""
        return self.output.mean(self.parameters(self.codebook[indices.reshape(-1)]))

    def encode(self, x: Array) -> Float[Array, "batch features"]:
        """The vectors of the codes of each example, one after another."""
        return self.quantizer(self._vectors(x)).codes.reshape(len(x), -1)

    def decode(self, z: Array) -> Array:
        """The example of such vectors, the mean of every entry."""
        return self.output.mean(self.parameters(z.reshape(-1, self.config.code_size)))

    def sample_indices(
        self, key: Key, n: int, temperature: Float[Array, ""] | float = 1.0
    ) -> Int[Array, "n *grid"]:
        """`n` grids of codes from the prior."""
        return self.prior.sample(key, n, temperature).reshape(n, *self.code_shape)

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        temperature: Annotated[
            float, Field(ge=0, description="of the codes: below 1 likelier ones; 0: the likeliest")
        ] = 1.0,
        entries: Entries = "auto",
    ) -> Array:
        """`n` examples from grids of codes drawn from the prior."""
        read_options(self.sample_options(), {"temperature": temperature, "entries": entries})
        parts = [min(AT_ONCE, n - first) for first in range(0, n, AT_ONCE)]
        warm = jnp.asarray(temperature, jnp.float32)
        found = [
            _drawn(self, jax.random.fold_in(key, number), count, warm, entries)
            for number, count in enumerate(parts)
        ]
        return jnp.concatenate(found)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Reconstructions, the use of the codebook, what single codes look like, and a grid of codes at work."""
        return pictures.pictures(self, data, key)


@eqx.filter_jit
def _drawn(model: VQVAE, key: Key, n: int, temperature: Array, entries: str) -> Array:
    for_codes, for_entries = jax.random.split(key)
    indices = model.sample_indices(for_codes, n, temperature)
    return model.shown(model.parameters(model.codebook[indices.reshape(-1)]), for_entries, entries)


__all__ = ["VQVAE", "VQVAEConfig"]
