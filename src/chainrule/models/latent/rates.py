"""The weight of the rate in a loss of distortion + beta rate: beta, warm-up and free bits."""

import abc
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Scalar
from chainrule.data.schema import Schema
from chainrule.models.protocol import HasAnnealedLoss, HasRateWeight


class RateSettings(Config, abc.ABC):
    """How the rate is weighed against the distortion."""

    beta: float = Field(
        1.0, ge=0, description="weight of the rate; above 1: fewer nats of code, looser rebuilding"
    )
    warmup: float = Field(
        0.1, ge=0, le=1, description="share of the steps in which the weight of the rate rises from 0"
    )
    free_bits: float = Field(
        0.0,
        ge=0,
        description="nats that each entry of the code may cost for nothing; 0.25 keeps entries in use",
    )


class WeighsRate(HasRateWeight, HasAnnealedLoss):
    """Minimises distortion + beta rate, with a beta that rises over the first steps."""

    config: eqx.AbstractVar[RateSettings]
    schema: eqx.AbstractVar[Schema]

    def charged(self, each: Float[Array, "batch size"], progress: Scalar | float) -> Scalar:
        """What the shares of every entry in the rate of every example add to the loss."""
        config = self.config
        paid = each.mean(axis=0)  # the floor is one of the mean over the batch (Kingma et al., 2016)
        paid = jnp.maximum(paid, config.free_bits).sum() if config.free_bits else paid.sum()
        weight = config.beta * jnp.clip(progress / config.warmup, 0, 1) if config.warmup else config.beta
        return weight * paid

    def with_beta(self, beta: float) -> Self:
        """The same model with another weight of the rate."""
        if not beta >= 0:
            raise ArgumentError(f"beta={beta}: a weight of the rate is at least 0")
        config = self.config.model_copy(update={"beta": float(beta)})
        blank = eqx.filter_eval_shape(type(self), config, self.schema, jax.random.key(0))
        model: Self = jax.tree.unflatten(jax.tree.structure(blank), jax.tree.leaves(self))
        return model


__all__ = ["RateSettings", "WeighsRate"]
