"""Training on distortion + beta rate: beta-VAEs, free bits, warm-up, and the maximum-mean-discrepancy of InfoVAEs."""

import abc
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.models.latent.networks import Given
from chainrule.models.latent.settings import LatentConfig
from chainrule.models.latent.variational import Variational
from chainrule.models.protocol import HasAnnealedLoss, HasRateWeight, Metrics
from chainrule.probability.distances import squared_distances


class RateConfig(LatentConfig, abc.ABC):
    """What is minimised: distortion and rate, and how they are weighed."""

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
    draws: int = Field(1, ge=1, le=1000, description="codes drawn for each example of a batch")
    info_alpha: float = Field(
        0.0,
        ge=0,
        le=1,
        description="InfoVAE: share of the rate that is dropped; 1: only the codes of all count",
    )
    info_lambda: float = Field(
        1.0,
        ge=0,
        description="InfoVAE: the discrepancy (MMD) of all codes together from the prior weighs info_alpha + "
        "info_lambda - 1",
    )

    @property
    def discrepancy_weight(self) -> float:
        """Weight of the discrepancy between the codes of a batch and the prior."""
        return self.info_alpha + self.info_lambda - 1


class RateWeighted(Variational, HasRateWeight, HasAnnealedLoss):
    """Minimises distortion + beta rate, with a beta that rises over the first steps."""

    config: eqx.AbstractVar[RateConfig]

    def loss_at(self, batch: Batch, key: Key, progress: Scalar | float) -> tuple[Scalar, Metrics]:
        """Distortion + beta rate in nats of an example, with what free bits and InfoVAE make of the rate."""
        config = self.config
        for_noise, for_codes, for_prior, for_rest = jax.random.split(key, 4)
        given = self.trained_given(batch, for_rest)
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, config.draws)
        each = self.networks.posterior.divergence(parameters, given.prior, z[0])
        distortion = self.nats(self.log_likelihood(x, z, given)).mean()
        paid = each.mean(axis=0)  # the floor is one of the mean over the batch (Kingma et al., 2016)
        paid = jnp.maximum(paid, config.free_bits).sum() if config.free_bits else paid.sum()
        weight = config.beta * jnp.clip(progress / config.warmup, 0, 1) if config.warmup else config.beta
        loss = distortion + weight * (1 - config.info_alpha) * paid
        metrics = {"distortion": distortion, "rate": each.sum(axis=-1).mean()}
        if config.discrepancy_weight:
            gap = discrepancy(z[0], self.prior_codes(given, for_prior))
            loss, metrics["discrepancy"] = loss + config.discrepancy_weight * gap, gap
        more, own = self.further_loss(batch, z[0])
        return loss + more, {**metrics, **own}

    def trained_given(self, batch: Batch, key: Key) -> Given:
        """Default: what a batch is conditioned on while training is what it is conditioned on anyway."""
        del key
        return self.networks.given(batch.y, len(batch.x))

    def further_loss(self, batch: Batch, z: Float[Array, "batch size"]) -> tuple[Scalar | float, Metrics]:
        """Default: nothing else is learned from the codes of a batch."""
        del batch, z
        return 0.0, {}

    def prior_codes(self, given: Given, key: Key) -> Float[Array, "batch size"]:
        """A code from the prior for each example."""
        mean, spread = given.prior
        return mean + jnp.exp(spread / 2) * jax.random.normal(key, mean.shape, mean.dtype)

    def with_beta(self, beta: float) -> Self:
        """The same model with another weight of the rate."""
        if not beta >= 0:
            raise ArgumentError(f"beta={beta}: a weight of the rate is at least 0")
        config = self.config.model_copy(update={"beta": float(beta)})
        blank = eqx.filter_eval_shape(type(self), config, self.schema, jax.random.key(0))
        model: Self = jax.tree.unflatten(jax.tree.structure(blank), jax.tree.leaves(self))
        return model


def discrepancy(a: Float[Array, "batch size"], b: Float[Array, "batch size"]) -> Scalar:
    """The squared maximum mean discrepancy of two sets of codes under a Gaussian kernel, without bias.

    The variance of the kernel is half the size of a code, as Zhao et al. (2019) have it.

    >>> same = jax.random.normal(jax.random.key(0), (200, 2))
    >>> bool(discrepancy(same, jax.random.normal(jax.random.key(1), (200, 2))) < 0.01 < discrepancy(same, same + 1))
    True
    """
    count, size = a.shape

    def similar(x: Array, y: Array) -> Array:
        return jnp.exp(-squared_distances(x, y) / size)

    within = (similar(a, a).sum() + similar(b, b).sum() - 2 * count) / (count * max(count - 1, 1))
    return within - 2 * similar(a, b).mean()


__all__ = ["RateConfig", "RateWeighted", "discrepancy"]
