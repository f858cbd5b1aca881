"""Variational auto-encoders in general: an encoder q(z|x), a prior p(z), a decoder p(x|z), and what follows from them.

    log p(x) >= E_q log p(x|z) - KL(q(z|x) || p(z)) = -(distortion + rate)

A model of this kind says what it minimises; bound, importance weights, samples, codes and the use it makes of them are
the same for all (Kingma and Welling, 2014; Rezende, Mohamed and Wierstra, 2014).
"""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.bits_back import LatentCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.latent import latent_pictures
from chainrule.models.latent.bodies import map_of
from chainrule.models.latent.coded import AT_ONCE, Coded
from chainrule.models.latent.coding import variational_code
from chainrule.models.latent.hyperspherical import HypersphericalPosterior
from chainrule.models.latent.networks import Given, LatentNetworks
from chainrule.models.latent.posteriors import FlowPosterior, Posterior
from chainrule.models.latent.settings import LatentConfig
from chainrule.models.protocol import CodeDraw, HasPosterior, LatentUse, read_options
from chainrule.networks import units
from chainrule.probability.distributions.outputs import OutputDistribution

_SENSED = 64
"""Codes from the prior by which the sensitivity of the decoder is measured."""


class Variational(Coded, HasPosterior, HasCode):
    """An encoder, a prior and a decoder, all of which may be given a condition."""

    networks: eqx.AbstractVar[LatentNetworks]
    config: eqx.AbstractVar[LatentConfig]
    schema: eqx.AbstractVar[Schema]

    @property
    def output(self) -> OutputDistribution:
        """That of the networks."""
        return self.networks.output

    # ------------------------------------------------------------------ the bound

    def log_likelihood(
        self, x: Array, z: Float[Array, "*draws batch size"], given: Given, key: Key | None = None
    ) -> Float[Array, "*draws batch"]:
        """`log p(x|z)` in the units of the model, for examples as `target` gives them; with a key, as in training."""
        return self.entry_log_likelihood(x, self.networks.entry_parameters(z, given, x, key))

    def draws(self, parameters: Array, key: Key, count: int) -> Float[Array, "draws batch size"]:
        """So many codes of each example."""
        shape = (count, len(parameters), self.config.latent)
        several = jnp.broadcast_to(parameters[None], (count, *parameters.shape))
        return self.networks.posterior.draw(several, jax.random.normal(key, shape, parameters.dtype))

    def rate_and_distortion(
        self, batch: Batch, key: Key
    ) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """Both parts of the bound for each example, from one code."""
        for_noise, for_codes = jax.random.split(key)
        given = self.networks.given(batch.y, len(batch.x))
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, 1)[0]
        rate = given.prior.divergence(self.networks.posterior, parameters, z).sum(axis=-1)
        return rate, -self.log_likelihood(x, z, given)

    def log_weights(self, batch: Batch, key: Key, samples: int) -> Float[Array, "samples batch"]:
        """`log p(x|z) + log p(z) - log q(z|x)` for codes drawn from q(z|x)."""
        for_noise, for_codes = jax.random.split(key)
        given = self.networks.given(batch.y, len(batch.x))
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, samples)
        return self.weights_of(x, z, given, self.networks.posterior, parameters)

    def draw_code(self, batch: Batch, key: Key) -> CodeDraw | None:
        """A code of each example, and both densities; none of directions, which have no density in space."""
        posterior = self.networks.posterior
        if isinstance(posterior, HypersphericalPosterior):
            return None
        for_noise, for_codes = jax.random.split(key)
        given = self.networks.given(batch.y, len(batch.x))
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, 1)[0]
        return CodeDraw(z, posterior.log_prob(parameters, z), self.log_likelihood(x, z, given))

    def weights_of(
        self,
        x: Array,
        z: Float[Array, "draws batch size"],
        given: Given,
        posterior: Posterior,
        parameters: Float[Array, "batch parameters"],
    ) -> Float[Array, "draws batch"]:
        """`log p(x, z) - log q(z|x)` of these codes, for examples as `target` gives them."""
        several = jnp.broadcast_to(parameters[None], (len(z), *parameters.shape))
        own = given.prior.log_prob(z) - posterior.log_prob(several, z)
        return self.log_likelihood(x, z, given) + own

    @property
    def rate_note(self) -> str:
        """That the rate is estimated, where prior or posterior have no closed form of their divergence."""
        exact = self.networks.mixture is None and not isinstance(self.networks.posterior, FlowPosterior)
        return "" if exact else "log q - log p of codes"

    def context_nats(self, batch: Batch, key: Key) -> Float[Array, " batch"] | None:
        """What hiding all entries before an entry would cost, where the decoder is told them."""
        if self.networks.context is None:
            return None
        for_noise, for_codes = jax.random.split(key)
        given = self.networks.given(batch.y, len(batch.x))
        x = self.target(batch.x, for_noise)
        z = self.draws(self.networks.posterior_parameters(x, given), for_codes, 1)[0]
        blank = units.to_model(self.schema, jnp.zeros_like(x))
        known, hidden = (self.networks.entry_parameters(z, given, seen) for seen in (x, blank))
        return self.entry_log_likelihood(x, known) - self.entry_log_likelihood(x, hidden)

    def code(self) -> LatentCode:
        """Bits come back: what choosing a code takes off, the example and its code are paid with."""
        return variational_code(self)

    # ------------------------------------------------------------------ codes

    @property
    def code_map(self) -> tuple[int, int, int] | None:
        """That of the encoder."""
        return map_of(self.networks.encoder)

    def encode(
        self, x: Array, *, condition: Any = None, key: Key | None = None
    ) -> Float[Array, "batch size"]:
        """The code of each example: the centre of q(z|x), or a draw from it with a key."""
        parameters = self.networks.posterior_parameters(x, self.networks.given(condition, len(x)))
        return (
            self.networks.posterior.centre(parameters) if key is None else self.draws(parameters, key, 1)[0]
        )

    def decode(self, z: Array, *, condition: Any = None) -> Array:
        """The example of each code, the mean of every entry."""
        return self.networks.examples(z, self.networks.given(condition, len(z)))

    def reconstruct(self, x: Array, *, condition: Any = None, key: Key | None = None) -> Array:
        """Examples rebuilt from their codes; with a key, from codes that are drawn."""
        return self.decode(self.encode(x, condition=condition, key=key), condition=condition)

    def drawn(self, key: Key, n: int, given_y: Any, temperature: float, entries: str) -> Array:
        """`n` examples from codes of the prior, all at once."""
        for_codes, for_entries = jax.random.split(key)
        given = self.networks.given(given_y, n)
        z = given.prior.draw(for_codes, n, temperature)
        return self.networks.examples(z, given, None if self.shows_means(entries) else for_entries)

    def sampled(self, key: Key, n: int, y: Any, options: dict[str, Any]) -> Array:
        """`n` examples, in parts that fit into memory; `y` are conditions, one for each, or none."""
        read_options(self.sample_options(), options)
        if options["temperature"] != 1 and isinstance(self.networks.posterior, HypersphericalPosterior):
            raise ArgumentError(
                f"temperature={options['temperature']:g}: directions have no spread that it could change",
                remedy="leave temperature out",
            )
        parts = [slice(first, min(first + AT_ONCE, n)) for first in range(0, n, AT_ONCE)]
        temperature, entries = options["temperature"], options["entries"]
        found = [
            _drawn(
                self,
                jax.random.fold_in(key, number),
                part.stop - part.start,
                None if y is None else y[part],
                temperature,
                entries,
            )
            for number, part in enumerate(parts)
        ]
        return jnp.concatenate(found)

    def latent_use(self, batch: Batch, key: Key) -> LatentUse:
        """What the codes of these examples say about them, each code compared with the posteriors of all."""
        for_noise, for_codes, for_moments, for_prior = jax.random.split(key, 4)
        count = len(batch.x)
        given = self.networks.given(batch.y, count)
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, 1)[0]
        moments = self.networks.posterior.moments(parameters, for_moments)

        def compared(own: Array) -> tuple[Array, Array]:
            same = jnp.broadcast_to(own[None], z.shape)
            joint = jax.nn.logsumexp(self.networks.posterior.log_prob(parameters, same))
            return joint, jax.nn.logsumexp(
                moments.log_prob(self.networks.posterior.standardised(same)), axis=0
            )

        joint, single = jax.lax.map(compared, z)
        log_joint, log_single = joint - math.log(count), (single - math.log(count)).sum(axis=-1)
        information = (self.networks.posterior.log_prob(parameters, z) - log_joint).mean()
        divergence = given.prior.divergence(self.networks.posterior, parameters, z).mean(axis=0)
        sensed = given.prior.like_first(_SENSED)
        fresh = sensed.draw(for_prior, _SENSED).astype(z.dtype)
        conditioned = None if given.beside is None else jnp.repeat(given.beside[:1], _SENSED, axis=0)
        answers = self.networks.examples(fresh, Given(conditioned, sensed))
        return LatentUse(
            divergence=divergence,
            spread=moments.mean.var(axis=0),
            information=information,
            marginal_divergence=divergence.sum() - information,
            total_correlation=(log_joint - log_single).mean(),
            sensitivity=answers.var(axis=0).mean() / x.var(axis=0).mean(),
        )

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Default: reconstructions, what the code is used for, codes in the plane, and a walk through them."""
        return latent_pictures.pictures(self, data, key, circles=self.around_zero)

    @property
    def around_zero(self) -> bool:
        """Whether the prior is a Gaussian, and not a mixture or on the sphere."""
        sphere = isinstance(self.networks.posterior, HypersphericalPosterior)
        return self.networks.mixture is None and not sphere


@eqx.filter_jit
def _drawn(model: Variational, key: Key, n: int, y: Any, temperature: float, entries: str) -> Array:
    return model.drawn(key, n, y, temperature, entries)


__all__ = ["Variational"]
