"""The auto-encoder D(E(x)): a code that a decoder can rebuild the example from, and nothing said about chance.

A code shorter than the example is what keeps it from copying; a penalty on the code (L1) or on how codes change with
examples (contractive) can take the place of a short one. Errors are sums over the entries of an example, means over
examples.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent import code_pictures, likelihoods
from chainrule.models.latent.autoencoder.contraction import contraction
from chainrule.models.latent.bodies import (
    Decoder,
    Encoder,
    advance,
    check_pixels,
    coarsened,
    make_decoder,
    make_encoder,
    map_of,
)
from chainrule.models.latent.settings import BodyConfig, EntryConfig
from chainrule.models.protocol import CanDecode, CanEncode, HasPictures, HasScores, HasState, Metrics, Scored
from chainrule.networks import units
from chainrule.nn import activation
from chainrule.nn.sequential import running_statistics
from chainrule.probability.distributions.outputs import LikelihoodName, OutputDistribution


@final
class AutoencoderConfig(EntryConfig, BodyConfig):
    """Settings of the auto-encoder."""

    latent: int = Field(16, ge=1, description="entries of a code")
    depth: int = Field(
        1, ge=0, le=20, description="mlp: hidden layers of the encoder and of the decoder; 0: linear"
    )
    likelihood: Literal["none", "auto", LikelihoodName] = Field(  # type: ignore[assignment]  # or none at all
        "none",
        description="none: squared error is minimised; otherwise the distribution of an entry given the code, whose "
        "likelihood is maximised; auto: bernoulli for zeros and ones, discretized_logistic for other levels, gaussian "
        "for numbers",
    )
    normalization: Literal["none", "batch", "layer"] = Field(
        "none", description="mlp: of every hidden layer, before what follows it"
    )
    code_activation: Literal["identity", "sigmoid", "tanh", "relu"] = Field(
        "identity",
        description="after the last layer of the encoder; sigmoid with depth=0 is the form with one hidden layer, its "
        "code",
    )
    final_activation: Literal["identity", "sigmoid"] = Field(
        "identity", description="after the last layer of the decoder; sigmoid: for data from 0 to 1"
    )
    l1: float = Field(
        0.0, ge=0, description="weight of the sum of the absolute entries of a code: few are far from zero"
    )
    contractive: float = Field(
        0.0,
        ge=0,
        description="weight of |dE/dx|² over all entries: codes change little with examples. Exact; a step then takes "
        "as many reverse passes through the encoder as a code has entries",
    )
    probe_vectors: int = Field(
        0,
        ge=0,
        description="contractive: estimate it, right on average, by so many random directions and passes; 0: exact",
    )


@final
class Autoencoder(HasState, CanEncode, CanDecode, HasScores, HasPictures):
    """Learns a code of each example, and to rebuild the example from it."""

    encoder: Encoder
    decoder: Decoder
    output: OutputDistribution | None
    """The distribution of an entry given its code; none: squared error."""
    config: AutoencoderConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: AutoencoderConfig, schema: Schema, key: Key) -> None:
        _check(config, schema)
        one, two = jax.random.split(key)
        self.config, self.schema = config, schema
        self.output = None if config.likelihood == "none" else likelihoods.output_of(config, schema)
        how = config.normalization
        self.encoder = make_encoder(config, schema, 0, config.latent, one, normalization=how)
        self.decoder = make_decoder(config, config.latent, schema, self.output, two, normalization=how)

    def loss_unit(self) -> str:
        """That of what is rebuilt."""
        return "squared error per example" if self.output is None else "nats per example"

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """Squared error of an example or nats of it given its code, and the penalties of the code."""
        config = self.config
        keys = jax.random.split(key, 4)
        raw, encoder = advance(self.encoder, self._seen(batch.x), keys[0])
        code = activation(config.code_activation)(raw)
        numbers, decoder = advance(self.decoder, code, keys[1])
        error, metrics = self._error(batch.x, _wide(numbers), keys[2])
        loss = error.mean()
        if config.l1:
            metrics["l1"] = jnp.abs(_wide(code)).sum(axis=1).mean()
            loss = loss + config.l1 * metrics["l1"]
        if config.contractive:
            each = contraction(self.encode, batch.x, keys[3], config.probe_vectors)
            metrics["contraction"] = _wide(each).mean()
            loss = loss + config.contractive * metrics["contraction"]
        moved = eqx.tree_at(lambda model: (model.encoder, model.decoder), self, (encoder, decoder))
        return loss, metrics, moved

    def state(self) -> Sequence[Tree]:
        """The running statistics of normalisers."""
        return running_statistics(self)

    @property
    def code_map(self) -> tuple[int, int, int] | None:
        """That of the encoder."""
        return map_of(self.encoder)

    def encode(self, x: Array) -> Float[Array, "batch size"]:
        """The code of each example; normalisers use their running statistics."""
        return activation(self.config.code_activation)(self.encoder(self._seen(x)))

    def decode(self, z: Array) -> Array:
        """The example of each code; of a distribution, its mean."""
        return self._entries(_wide(self.decoder(z)))

    def reconstruct(self, x: Array) -> Array:
        """Examples rebuilt from their codes."""
        return self.decode(self.encode(x))

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Squared error of an entry and, where entries have a distribution, nats of an example given its code."""
        left = jnp.square(self.reconstruct(batch.x) - batch.x).reshape(len(batch.x), -1)
        found = {"squared_error": Scored(left.mean(axis=1), f"per entry, {units.described(self.schema)}")}
        if self.output is not None:
            nats, _ = self._error(batch.x, _wide(self.decoder(self.encode(batch.x))), key)
            found["nats_given_code"] = Scored(nats, "nats, given the code")
        return found

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Held-out examples rebuilt, their codes, and a sweep through them."""
        del key
        return code_pictures.pictures(eqx.filter_jit(self.encode), eqx.filter_jit(self.decode), data)

    def _seen(self, x: Array) -> Array:
        """Examples as the encoder sees them."""
        seen = units.to_network(self.schema, x)
        return coarsened(seen, self.config.coarse) if self.config.coarse > 1 else seen

    def _error(self, x: Array, numbers: Array, key: Key) -> tuple[Float[Array, " batch"], dict[str, Array]]:
        """What is left of each example, from the numbers its code was decoded to, and what is worth watching."""
        squares = jnp.square(self._entries(numbers) - _wide(x)).reshape(len(x), -1)
        metrics = {"squared_error": squares.mean()}
        if self.output is None:
            return squares.sum(axis=1), metrics
        target = likelihoods.target(self.output, self.schema, x, key)
        found = likelihoods.log_likelihood(self.output, self.schema, numbers, target)
        return likelihoods.nats(self.schema, found), metrics

    def _entries(self, numbers: Float[Array, "batch ... numbers"]) -> Array:
        """Entries of examples, from the numbers the decoder gives for each."""
        if self.output is not None:
            return self.output.mean(numbers)
        if self.config.final_activation == "sigmoid":
            return jax.nn.sigmoid(numbers[..., 0])
        return units.to_model(self.schema, numbers[..., 0])


def _check(config: AutoencoderConfig, schema: Schema) -> None:
    """Refuse settings that contradict each other or the data."""
    if config.final_activation == "sigmoid" and config.likelihood != "none":
        raise ArgumentError(
            f"final_activation=sigmoid: the parameters of likelihood={config.likelihood} have ranges of their own",
            remedy="leave final_activation out, or use likelihood=none",
        )
    if config.final_activation == "sigmoid" and not units.unit(schema):
        raise ArgumentError(
            "final_activation=sigmoid: these data do not lie between 0 and 1",
            remedy="leave final_activation out",
        )
    if config.coarse > 1:
        check_pixels(f"coarse={config.coarse}", schema, "leave coarse out")
    if config.normalization != "none" and config.body != "mlp":
        raise ArgumentError(
            f"normalization={config.normalization}: body={config.body} normalises groups of channels as it is",
            remedy="leave normalization out, or use body=mlp",
        )
    if config.normalization == "batch" and config.contractive:
        raise ArgumentError(
            f"contractive={config.contractive:g}: with normalization=batch a code depends on the whole batch, not on "
            "its example alone",
            remedy="use normalization=layer or none",
        )
    if config.probe_vectors and not config.contractive:
        raise ArgumentError(
            f"probe_vectors={config.probe_vectors}: there is no contractive penalty to estimate",
            remedy="give it a weight, contractive=0.1, or leave probe_vectors out",
        )


def _wide(numbers: Array) -> Array:
    """Numbers in single precision at least, whatever the layers compute in."""
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))


__all__ = ["Autoencoder", "AutoencoderConfig"]
