"""The importance-weighted auto-encoder (Burda, Grosse and Salakhutdinov, 2016).

    L_k = E log mean_j p(x, z_j) / q(z_j|x) <= log p(x), and never falls as k grows

With k = 1 it is the bound of the variational auto-encoder.
"""

from typing import Literal, final

import equinox as eqx
import jax
from pydantic import Field

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.latent.coded import Entries, Temperature
from chainrule.models.latent.networks import LatentNetworks
from chainrule.models.latent.priors import PriorSettings
from chainrule.models.latent.settings import LatentConfig
from chainrule.models.latent.variational import Variational
from chainrule.models.protocol import Metrics
from chainrule.probability.variational import doubly_reparametrized_bound, importance_bound


@final
class IWAEConfig(LatentConfig, PriorSettings):
    """Settings of the importance-weighted auto-encoder."""

    k: int = Field(5, ge=1, le=10_000, description="codes drawn for each example, whose weights are averaged")
    gradient: Literal["doubly-reparametrized", "plain"] = Field(
        "doubly-reparametrized",
        description="of the encoder: the plain one drowns in noise as k grows, the other does not",
    )


@final
class IWAE(Variational):
    """Maximises the logarithm of the mean importance weight of k codes."""

    networks: LatentNetworks
    config: IWAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: IWAEConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        self.networks = LatentNetworks(config, schema, key, priors=config)

    def loss_unit(self) -> str:
        """That of a log-likelihood, or of a bound of one."""
        return "nats per example"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """`-L_k` in nats of an example."""
        for_noise, for_codes = jax.random.split(key)
        given = self.networks.given(None, len(batch.x))
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, self.config.k)
        rate = given.prior.divergence(self.networks.posterior, parameters, z[0]).sum(axis=-1).mean()
        if self.config.gradient == "plain":
            bound = importance_bound(self.weights_of(x, z, given, self.networks.posterior, parameters))
        else:
            still = jax.lax.stop_gradient(eqx.filter(self.networks.posterior, eqx.is_array))
            posterior = eqx.combine(still, eqx.filter(self.networks.posterior, eqx.is_array, inverse=True))

            def log_weight(z: Float[Array, "draws batch size"]) -> Array:
                return self.weights_of(x, z, given, posterior, jax.lax.stop_gradient(parameters))

            bound = doubly_reparametrized_bound(log_weight, z)
        return self.nats(bound).mean(), {"rate": rate}

    def sample(  # type: ignore[override]  # the options of this model, by name
        self, key: Key, n: int, *, temperature: Temperature = 1.0, entries: Entries = "auto"
    ) -> Array:
        """`n` examples from codes drawn from the prior."""
        return self.sampled(key, n, None, {"temperature": temperature, "entries": entries})


__all__ = ["IWAE", "IWAEConfig"]
