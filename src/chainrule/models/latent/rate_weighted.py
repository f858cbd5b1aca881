"""Training on distortion + beta rate with a code that is one vector, and the maximum-mean-discrepancy of InfoVAEs."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.models.latent.networks import Given
from chainrule.models.latent.rates import RateSettings, WeighsRate
from chainrule.models.latent.settings import LatentConfig
from chainrule.models.latent.variational import Variational
from chainrule.models.protocol import Metrics
from chainrule.probability.distances import squared_distances


class RateConfig(LatentConfig, RateSettings, abc.ABC):
    """What is minimised: distortion and rate, and how they are weighed."""

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


class RateWeighted(Variational, WeighsRate):
    """Minimises distortion + beta rate, with a beta that rises over the first steps."""

    config: eqx.AbstractVar[RateConfig]

    def loss_unit(self) -> str:
        """That of a bound."""
        return "nats per example"

    def loss_at(self, batch: Batch, key: Key, progress: Scalar | float) -> tuple[Scalar, Metrics]:
        """Distortion + beta rate in nats of an example, with what free bits and InfoVAE make of the rate."""
        config = self.config
        for_noise, for_codes, for_prior, for_rest = jax.random.split(key, 4)
        for_context = jax.random.fold_in(key, 4)
        given = self.trained_given(batch, for_rest)
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, config.draws)
        each = given.prior.divergence(self.networks.posterior, parameters, z[0])
        distortion = self.nats(self.log_likelihood(x, z, given, for_context)).mean()
        loss = distortion + (1 - config.info_alpha) * self.charged(each, progress)
        metrics = {"distortion": distortion, "rate": each.sum(axis=-1).mean()}
        if config.discrepancy_weight:
            gap = discrepancy(z[0], self.prior_codes(given, len(x), for_prior))
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

    def prior_codes(self, given: Given, count: int, key: Key) -> Float[Array, "batch size"]:
        """A code from the prior for each example."""
        return given.prior.draw(key, count)


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
