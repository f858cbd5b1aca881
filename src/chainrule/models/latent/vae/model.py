"""The variational auto-encoder (Kingma and Welling, 2014), and what labels add to it."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.latent.coded import Entries, Temperature
from chainrule.models.latent.contexts import ContextSettings
from chainrule.models.latent.networks import LatentNetworks
from chainrule.models.latent.priors import PriorSettings
from chainrule.models.latent.rate_weighted import RateConfig, RateWeighted
from chainrule.models.protocol import HasParts, HasScores, Metrics, Part, Scored
from chainrule.nn import Linear
from chainrule.nn.losses import cross_entropy


@final
class VAEConfig(RateConfig, PriorSettings, ContextSettings):
    """Settings of the variational auto-encoder."""

    encoder_steps: int = Field(
        1,
        ge=1,
        le=100,
        description="moves of the encoder for each of the decoder, on batches of its own; 5 keeps codes in use beside "
        "a strong decoder (aggressive updates)",
    )

    label_weight: float = Field(
        0.0,
        ge=0,
        description="supervised bottleneck: weight of the cross-entropy with which the class is read from the code",
    )


class AnyVAE(RateWeighted, HasScores):
    """Learns a code of each example, and from codes the examples; both together bound the likelihood."""

    label_head: eqx.AbstractVar[Linear | None]
    config: eqx.AbstractVar[VAEConfig]

    def __init__(self, config: VAEConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        self.networks = LatentNetworks(config, schema, key, contexts=config, priors=config)
        self.label_head = None
        if config.label_weight:
            if not targets.of(schema).one_class:
                raise CapabilityError(
                    f"label_weight={config.label_weight:g}: these data have no classes to read from a code",
                    remedy="leave label_weight out, or train on data with classes",
                )
            self.label_head = Linear(config.latent, len(schema.classes), key=jax.random.fold_in(key, 1))

    def further_loss(self, batch: Batch, z: Float[Array, "batch size"]) -> tuple[Scalar | float, Metrics]:
        """The cross-entropy of the class as read from the code, at its weight."""
        if self.label_head is None:
            return 0.0, {}
        logits = self.label_head(z).astype(jnp.float32)
        entropy = cross_entropy(logits, batch.y).mean()
        right = (logits.argmax(axis=-1) == batch.y).mean()
        return self.config.label_weight * entropy, {"label_entropy": entropy, "accuracy": right}

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """How often the class read from a code is right, and its cross-entropy; nothing without a label head."""
        if self.label_head is None:
            return {}
        logits = self.label_head(self.encode(batch.x, key=key))
        return {
            "label_entropy": Scored(cross_entropy(logits, batch.y), "nats"),
            "label_accuracy": Scored((logits.argmax(axis=-1) == batch.y).astype(jnp.float32)),
        }

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int, *, temperature: Temperature = 1.0, entries: Entries = "auto"
    ) -> Array:
        """`n` examples from codes drawn from the prior."""
        return self.sampled(key, n, None, {"temperature": temperature, "entries": entries})


@final
class VAE(AnyVAE):
    """Encoder and decoder move together."""

    label_head: Linear | None
    networks: LatentNetworks
    config: VAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)


@final
class AggressiveVAE(AnyVAE, HasParts):
    """The encoder moves several times for each move of the decoder, which would otherwise run ahead (He et al., 2019).

    A decoder that does well without codes learns to before the encoder has anything to tell it. Both parts follow the
    same loss.
    """

    label_head: Linear | None
    networks: LatentNetworks
    config: VAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def parts(self) -> Sequence[Part[Any]]:
        """The encoder with its family of posteriors, then all the rest."""

        def loss(model: Self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
            return (*model.loss(batch, key), model)

        def loss_at(model: Self, batch: Batch, key: Key, now: Scalar) -> tuple[Scalar, Metrics, Self]:
            return (*model.loss_at(batch, key, now), model)

        return [
            Part("encoder", _inward, loss, repeat=self.config.encoder_steps, loss_at=loss_at, counted=False),
            Part("decoder", _outward, loss, loss_at=loss_at),
        ]


def _inward(model: AggressiveVAE) -> Tree:
    networks = model.networks
    return _present(networks.encoder, networks.posterior, networks.spread)


def _outward(model: AggressiveVAE) -> Tree:
    networks = model.networks
    rest = (networks.output, networks.prior, networks.mixture, networks.context)
    return _present(networks.decoder, *rest, model.label_head)


def _present(*layers: Tree) -> Tree:
    """Those that hold anything: `equinox.tree_at` replaces nothing else."""
    return tuple(layer for layer in layers if jax.tree.leaves(layer))


def build(config: VAEConfig, schema: Schema, key: Key) -> VAE | AggressiveVAE:
    """A fresh model."""
    made: type[Any] = VAE if config.encoder_steps == 1 else AggressiveVAE
    model: VAE | AggressiveVAE = made(config, schema, key)
    return model


__all__ = ["VAE", "AggressiveVAE", "AnyVAE", "VAEConfig", "build"]
