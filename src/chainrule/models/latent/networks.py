"""The networks of a latent-variable model: encoder q(z|x), prior p(z) and decoder p(x|z), perhaps given a condition."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.latent.bodies import Decoder, Encoder, coarsened, make_decoder, make_encoder
from chainrule.models.latent.likelihoods import output_of
from chainrule.models.latent.posteriors import Gaussian, Posterior, posterior
from chainrule.models.latent.settings import LatentConfig
from chainrule.networks import units
from chainrule.networks.conditions import ConditionEncoder, MakeConditionEncoder
from chainrule.nn import constructions
from chainrule.probability.distributions.outputs import OutputDistribution

_CONDITION = 32
"""Length of the vector that stands for a condition."""


class Given(NamedTuple):
    """What the networks are told beside the example, and the prior that goes with it."""

    beside: Float[Array, "batch _"] | None
    prior: Gaussian


@final
class LatentNetworks(eqx.Module):
    """Encoder, prior and decoder, and the families of distributions whose parameters they give."""

    encoder: Encoder
    decoder: Decoder
    posterior: Posterior
    output: OutputDistribution
    spread: Float[Array, " numbers"] | None
    """Linear encoders: the parameters of the posterior after its location, the same for all examples."""
    condition: ConditionEncoder | None
    prior: constructions.Network | None
    """Mean and log-variance of the code given the condition; none: standard normal."""
    schema: Schema = eqx.field(static=True)
    coarse: int = eqx.field(static=True)

    def __init__(
        self,
        config: LatentConfig,
        schema: Schema,
        key: Key,
        read: MakeConditionEncoder | None = None,
        learned_prior: bool = False,
    ) -> None:
        keys = jax.random.split(key, 5)
        size = config.latent
        self.schema, self.coarse = schema, config.coarse
        self.output = output_of(config, schema)
        self.posterior = posterior(config.posterior, size, keys[0])
        self.condition = None if read is None else read(_CONDITION, keys[1])
        beside = 0 if read is None else _CONDITION
        numbers = self.posterior.parameter_count
        linear = config.body == "mlp" and config.depth == 0
        self.encoder = make_encoder(config, schema, beside, size if linear else numbers, keys[2])
        self.spread = jnp.zeros(numbers - size) if linear else None
        self.decoder = make_decoder(config, size + beside, schema, self.output, keys[3])
        self.prior = None
        if learned_prior:
            network = constructions.mlp([_CONDITION, 64, 2 * size], "silu", key=keys[4])
            still = jnp.zeros_like(network.layers[-1].weight)  # training begins with the standard normal
            self.prior = eqx.tree_at(lambda n: n.layers[-1].weight, network, still)

    def given(self, y: Any, count: int) -> Given:
        """What `count` examples with these targets are conditioned on; no targets: on nothing."""
        standard = jnp.zeros((count, self.posterior.size))
        if self.condition is None:
            return Given(None, Gaussian(standard, standard))
        beside = self.condition(self.condition.null(count) if y is None else jnp.asarray(y)).summary
        if self.prior is None:
            return Given(beside, Gaussian(standard, standard))
        return Given(beside, Gaussian(*jnp.split(_wide(self.prior(beside)), 2, axis=-1)))

    def posterior_parameters(self, x: Array, given: Given) -> Float[Array, "batch parameters"]:
        """The parameters of q(z|x)."""
        seen = units.to_network(self.schema, x)
        seen = coarsened(seen, self.coarse) if self.coarse > 1 else seen
        found = _wide(self.encoder(seen, given.beside))
        if self.spread is None:
            return found
        same = jnp.broadcast_to(self.spread.astype(found.dtype)[None], (len(x), len(self.spread)))
        return jnp.concatenate([found, same], axis=-1)

    def entry_parameters(self, z: Float[Array, "*draws batch size"], given: Given) -> Array:
        """The parameters of every entry given codes, several draws for each example if there is a leading axis."""
        if given.beside is not None:
            beside = given.beside.astype(z.dtype)
            z = jnp.concatenate([z, jnp.broadcast_to(beside, (*z.shape[:-1], beside.shape[-1]))], axis=-1)
        found = _wide(self.decoder(z.reshape(-1, z.shape[-1])))
        return found.reshape(*z.shape[:-1], *found.shape[1:])


def _wide(numbers: Array) -> Array:
    """Parameters of distributions in single precision at least, whatever the layers compute in."""
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))


__all__ = ["Given", "LatentNetworks"]
