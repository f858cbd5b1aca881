"""The networks of a latent-variable model: encoder q(z|x), prior p(z) and decoder p(x|z), perhaps given a condition."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.latent.bodies import (
    Decoder,
    Encoder,
    check_pixels,
    coarsened,
    make_decoder,
    make_encoder,
)
from chainrule.models.latent.contexts import Context, ContextSettings, check_context
from chainrule.models.latent.families import posterior
from chainrule.models.latent.hyperspherical import HypersphericalPosterior
from chainrule.models.latent.likelihoods import output_of
from chainrule.models.latent.posteriors import DiagonalPosterior, Gaussian, Posterior
from chainrule.models.latent.priors import (
    GaussianPrior,
    LearnedMixture,
    MixturePrior,
    Prior,
    PriorSettings,
    PseudoInputs,
    SpherePrior,
)
from chainrule.models.latent.settings import LatentConfig
from chainrule.networks import units
from chainrule.networks.conditions import ConditionEncoder, MakeConditionEncoder
from chainrule.nn import constructions
from chainrule.probability.distributions.outputs import OutputDistribution

_CONDITION = 32
"""Length of the vector that stands for a condition."""
_CONTEXT = 256
"""Units of the hidden layer by which entries are told those before them, beside convolutions."""


class Given(NamedTuple):
    """What the networks are told beside the example, and the prior that goes with it."""

    beside: Float[Array, "batch _"] | None
    prior: Prior


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
    mixture: LearnedMixture | PseudoInputs | None
    """What a prior that is a mixture is made of."""
    context: Context | None
    """What entries tell of those after them; none: entries are independent given the code."""
    schema: Schema = eqx.field(static=True)
    coarse: int = eqx.field(static=True)

    def __init__(
        self,
        config: LatentConfig,
        schema: Schema,
        key: Key,
        read: MakeConditionEncoder | None = None,
        learned_prior: bool = False,
        *,
        contexts: ContextSettings | None = None,
        priors: PriorSettings | None = None,
    ) -> None:
        keys = jax.random.split(key, 5)
        size = config.latent
        self.schema, self.coarse = schema, config.coarse
        if config.coarse > 1:
            check_pixels(f"coarse={config.coarse}", schema, "leave coarse out")
        self.output = output_of(config, schema)
        self.posterior = posterior(config.posterior, size, keys[0])
        self.condition = None if read is None else read(_CONDITION, keys[1])
        beside = 0 if read is None else _CONDITION
        numbers = self.posterior.parameter_count
        linear = config.body == "mlp" and config.depth == 0
        self.encoder = make_encoder(config, schema, beside, size if linear else numbers, keys[2], latent=size)
        self.spread = jnp.zeros(numbers - size) if linear else None
        self.decoder = make_decoder(config, size + beside, schema, self.output, keys[3])
        self.prior = self.mixture = self.context = None
        sphere = isinstance(self.posterior, HypersphericalPosterior)
        if contexts is not None:
            check_context(contexts)
            if contexts.decoder == "autoregressive":
                widths = [config.width] * config.depth if config.body == "mlp" else [_CONTEXT]
                self.context = Context(
                    contexts,
                    schema.dimensions,
                    self.output.parameter_count,
                    size + beside,
                    widths,
                    config.activation,
                    jax.random.fold_in(key, 1),
                )
        if priors is not None and priors.prior != "standard":
            if sphere:
                raise ArgumentError(
                    f"prior={priors.prior}: the prior of directions has all of them alike",
                    remedy="leave prior out, or use posterior=diagonal",
                )
            self.mixture = (
                LearnedMixture(priors.prior_components, size, keys[4])
                if priors.prior == "mixture"
                else PseudoInputs(priors.prior_components, schema.shape, units.unit(schema), keys[4])
            )
        if learned_prior:
            if sphere:
                raise ArgumentError(
                    "posterior=hyperspherical: the prior of directions has all of them alike",
                    remedy="add prior=standard, or use posterior=diagonal",
                )
            network = constructions.mlp([_CONDITION, 64, 2 * size], "silu", key=keys[4])
            still = jnp.zeros_like(network.layers[-1].weight)  # training begins with the standard normal
            self.prior = eqx.tree_at(lambda n: n.layers[-1].weight, network, still)

    def given(self, y: Any, count: int) -> Given:
        """What `count` examples with these targets are conditioned on; no targets: on nothing."""
        if self.condition is None:
            return Given(None, self._unconditional(count))
        beside = self.condition(self.condition.null(count) if y is None else jnp.asarray(y)).summary
        if self.prior is None:
            return Given(beside, self._unconditional(count))
        return Given(beside, GaussianPrior(Gaussian(*jnp.split(_wide(self.prior(beside)), 2, axis=-1))))

    def _unconditional(self, count: int) -> Prior:
        size = self.posterior.size
        if isinstance(self.posterior, HypersphericalPosterior):
            return SpherePrior(size)
        if isinstance(self.mixture, LearnedMixture):
            return MixturePrior(
                DiagonalPosterior(size), _wide(self.mixture.parameters), _wide(self.mixture.logits)
            )
        standard = GaussianPrior.standard(count, size)
        if self.mixture is None:
            return standard
        examples = self.mixture.examples
        parameters = self.posterior_parameters(examples, Given(None, standard))
        return MixturePrior(self.posterior, parameters, jnp.zeros(len(examples), parameters.dtype))

    def posterior_parameters(self, x: Array, given: Given) -> Float[Array, "batch parameters"]:
        """The parameters of q(z|x)."""
        seen = units.to_network(self.schema, x)
        seen = coarsened(seen, self.coarse) if self.coarse > 1 else seen
        found = _wide(self.encoder(seen, given.beside))
        if self.spread is None:
            return found
        same = jnp.broadcast_to(self.spread.astype(found.dtype)[None], (len(x), len(self.spread)))
        return jnp.concatenate([found, same], axis=-1)

    def entry_parameters(
        self,
        z: Float[Array, "*draws batch size"],
        given: Given,
        x: Float[Array, "batch ..."] | None = None,
        key: Key | None = None,
    ) -> Array:
        """The parameters of every entry given codes, several draws for each example if there is a leading axis.

        Where entries are told those before them, these are the ones of `x`; a key hides some of them, as in training.
        """
        flat, found = self._decoded(z, given)
        if self.context is not None:
            assert x is not None, "entries are told those before them"
            seen = units.to_network(self.schema, x).reshape(len(x), -1)
            seen = jnp.broadcast_to(seen, (*z.shape[:-1], seen.shape[-1])).reshape(len(flat), -1)
            found = found + _wide(self.context(seen, flat, key)).reshape(found.shape)
        return found.reshape(*z.shape[:-1], *found.shape[1:])

    def examples(
        self, z: Float[Array, "batch size"], given: Given, key: Key | None = None
    ) -> Float[Array, "batch ..."]:
        """An example for each code: the mean of every entry, or with a key a draw of each.

        Entries that are told those before them come one after another: means given the means before them.
        """
        flat, found = self._decoded(z, given)
        if self.context is None:
            return self.output.mean(found) if key is None else self.output.sample(found, key)
        context, rounds = self.context, self.context.rounds
        own = found.reshape(len(z), context.entries, -1)
        turn = jnp.arange(context.entries) % rounds

        def step(t: Array, x: Float[Array, "batch entries"]) -> Array:
            parameters = own + _wide(context(units.to_network(self.schema, x), flat))
            drawn = (
                self.output.mean(parameters)
                if key is None
                else self.output.sample(parameters, jax.random.fold_in(key, t))
            )
            return jnp.where(turn[None, :] == t, drawn.astype(x.dtype), x)

        x = jax.lax.fori_loop(0, rounds, step, jnp.zeros((len(z), context.entries), own.dtype))
        return x.reshape(len(z), *self.schema.shape)

    def _decoded(self, z: Float[Array, "*draws batch size"], given: Given) -> tuple[Array, Array]:
        """Codes with what is given beside them, in one row each, and what the decoder makes of them."""
        if given.beside is not None:
            beside = given.beside.astype(z.dtype)
            z = jnp.concatenate([z, jnp.broadcast_to(beside, (*z.shape[:-1], beside.shape[-1]))], axis=-1)
        flat = z.reshape(-1, z.shape[-1])
        return flat, _wide(self.decoder(flat))


def _wide(numbers: Array) -> Array:
    """Parameters of distributions in single precision at least, whatever the layers compute in."""
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))


__all__ = ["Given", "LatentNetworks"]
