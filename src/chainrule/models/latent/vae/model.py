"""The variational auto-encoder (Kingma and Welling, 2014), and what labels add to it."""

from collections.abc import Mapping
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.latent.networks import LatentNetworks
from chainrule.models.latent.rate_weighted import RateConfig, RateWeighted
from chainrule.models.latent.variational import Entries, Temperature
from chainrule.models.protocol import HasScores, Metrics, Scored
from chainrule.nn import Linear
from chainrule.nn.losses import cross_entropy


@final
class VAEConfig(RateConfig):
    """Settings of the variational auto-encoder."""

    label_weight: float = Field(
        0.0,
        ge=0,
        description="supervised bottleneck: weight of the cross-entropy with which the class is read from the code",
    )


@final
class VAE(RateWeighted, HasScores):
    """Learns a code of each example, and from codes the examples; both together bound the likelihood."""

    label_head: Linear | None
    networks: LatentNetworks
    config: VAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: VAEConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        self.networks = LatentNetworks(config, schema, key)
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


__all__ = ["VAE", "VAEConfig"]
