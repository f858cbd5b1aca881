"""Variational auto-encoders in general: an encoder q(z|x), a prior p(z), a decoder p(x|z), and what follows from them.

    log p(x) >= E_q log p(x|z) - KL(q(z|x) || p(z)) = -(distortion + rate)

A model of this kind says what it minimises; bound, importance weights, samples, codes and the use it makes of them are
the same for all (Kingma and Welling, 2014; Rezende, Mohamed and Wierstra, 2014).
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent import latent_pictures
from chainrule.models.latent.networks import Given, LatentNetworks
from chainrule.models.latent.posteriors import Gaussian, Posterior
from chainrule.models.latent.settings import LatentConfig
from chainrule.models.protocol import CanSample, HasLatents, HasPictures, LatentUse, read_options
from chainrule.probability.distributions.outputs import dequantized, log_cell_ratio

_SENSED = 64
"""Codes from the prior by which the sensitivity of the decoder is measured."""
_AT_ONCE = 2048
"""Examples drawn at a time."""

Temperature = Annotated[
    float, Field(ge=0, description="factor on the spread of the codes; below 1: tamer examples")
]
Entries = Annotated[
    Literal["auto", "mean", "drawn"],
    Field(
        description="what a code becomes: the mean of every entry, or a draw of each; auto: the mean of pixels, else "
        "draws"
    ),
]


class Variational(HasLatents, CanSample, HasPictures):
    """An encoder, a prior and a decoder, all of which may be given a condition."""

    networks: eqx.AbstractVar[LatentNetworks]
    config: eqx.AbstractVar[LatentConfig]
    schema: eqx.AbstractVar[Schema]

    # ------------------------------------------------------------------ the bound

    def target(self, x: Array, key: Key) -> Array:
        """Examples as the likelihood judges them: levels get uniform noise where it is a density."""
        x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        return dequantized(x, self.schema.levels, key) if self.likelihood_note else x

    @property
    def likelihood_note(self) -> str:
        """Uniform noise fills the gaps between levels where the likelihood is a density."""
        return (
            "uniform dequantisation"
            if self.schema.levels and not self.networks.output.probable_levels
            else ""
        )

    def log_likelihood(
        self, x: Array, z: Float[Array, "*draws batch size"], given: Given
    ) -> Float[Array, "*draws batch"]:
        """`log p(x|z)` in the units of the model, for examples as `target` gives them."""
        parameters = self.networks.entry_parameters(z, given)
        entries = self.networks.output.log_prob(parameters, jnp.broadcast_to(x, parameters.shape[:-1]))
        found = entries.reshape(*z.shape[:-1], -1).sum(axis=-1)
        if not self.likelihood_note:
            return found
        return found + self.schema.dimensions * log_cell_ratio(self.schema.levels)

    def nats(self, log_likelihood: Array) -> Array:
        """The cost that a log-likelihood in the units of the model is: of levels, that of their probability."""
        least = self.schema.dimensions * math.log(max(self.schema.levels - 1, 1))
        return least - log_likelihood

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
        rate = self.networks.posterior.divergence(parameters, given.prior, z).sum(axis=-1)
        return rate, -self.log_likelihood(x, z, given)

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """The lower bound of log p(x), without a condition, from one code of each example."""
        rate, distortion = self.rate_and_distortion(Batch(x), key)
        return -rate - distortion

    def log_weights(self, batch: Batch, key: Key, samples: int) -> Float[Array, "samples batch"]:
        """`log p(x|z) + log p(z) - log q(z|x)` for codes drawn from q(z|x)."""
        for_noise, for_codes = jax.random.split(key)
        given = self.networks.given(batch.y, len(batch.x))
        x = self.target(batch.x, for_noise)
        parameters = self.networks.posterior_parameters(x, given)
        z = self.draws(parameters, for_codes, samples)
        return self.weights_of(x, z, given, self.networks.posterior, parameters)

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
        prior = Gaussian(*(jnp.broadcast_to(part[None], z.shape) for part in given.prior))
        own = prior.log_prob(z).sum(axis=-1) - posterior.log_prob(several, z)
        return self.log_likelihood(x, z, given) + own

    # ------------------------------------------------------------------ codes

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
        return self.networks.output.mean(
            self.networks.entry_parameters(z, self.networks.given(condition, len(z)))
        )

    def reconstruct(self, x: Array, *, condition: Any = None, key: Key | None = None) -> Array:
        """Examples rebuilt from their codes; with a key, from codes that are drawn."""
        return self.decode(self.encode(x, condition=condition, key=key), condition=condition)

    def drawn(self, key: Key, n: int, given_y: Any, temperature: float, entries: str) -> Array:
        """`n` examples from codes of the prior, all at once."""
        for_codes, for_entries = jax.random.split(key)
        given = self.networks.given(given_y, n)
        spread = temperature * jnp.exp(given.prior.log_variance / 2)
        z = given.prior.mean + spread * jax.random.normal(for_codes, spread.shape, spread.dtype)
        parameters = self.networks.entry_parameters(z, given)
        mean = kinds.of(self.schema).spatial if entries == "auto" else entries == "mean"
        return (
            self.networks.output.mean(parameters)
            if mean
            else self.networks.output.sample(parameters, for_entries)
        )

    def sampled(self, key: Key, n: int, y: Any, options: dict[str, Any]) -> Array:
        """`n` examples, in parts that fit into memory; `y` are conditions, one for each, or none."""
        read_options(self.sample_options(), options)
        parts = [slice(first, min(first + _AT_ONCE, n)) for first in range(0, n, _AT_ONCE)]
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
            return joint, jax.nn.logsumexp(moments.log_prob(same), axis=0)

        joint, single = jax.lax.map(compared, z)
        log_joint, log_single = joint - math.log(count), (single - math.log(count)).sum(axis=-1)
        information = (self.networks.posterior.log_prob(parameters, z) - log_joint).mean()
        divergence = self.networks.posterior.divergence(parameters, given.prior, z).mean(axis=0)
        fresh = jax.random.normal(for_prior, (_SENSED, self.config.latent), z.dtype)
        conditioned = None if given.beside is None else jnp.repeat(given.beside[:1], _SENSED, axis=0)
        answers = self.networks.output.mean(
            self.networks.entry_parameters(fresh, Given(conditioned, given.prior))
        )
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
        return latent_pictures.pictures(self, data, key)


@eqx.filter_jit
def _drawn(model: Variational, key: Key, n: int, y: Any, temperature: float, entries: str) -> Array:
    return model.drawn(key, n, y, temperature, entries)


__all__ = ["Entries", "Temperature", "Variational"]
