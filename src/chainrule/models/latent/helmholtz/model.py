"""The Helmholtz machine, trained by the wake-sleep algorithm (Hinton, Dayan, Frey and Neal, 1995) or reweighted.

Awake, codes are recognised in the data and the generative network learns to produce both: `-log p(x, z)` with z from
q(z|x). Asleep, the generative network dreams examples with their codes and the recognition network learns to find them:
`-log q(z|x)` with (z, x) from p. Sleep lowers KL(p(z|x) || q(z|x)) on dreams and not the gap of the bound, which is
KL(q(z|x) || p(z|x)) on data, so the two phases together descend on no one function. Reweighted (Bornschein and Bengio,
2015), both networks learn from k codes of the data by their importance weights: with many codes that is the gradient of
the likelihood, and of KL(p(z|x) || q(z|x)) on the data.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.bits_back import LatentCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.latent.coded import Entries
from chainrule.models.latent.helmholtz import pictures
from chainrule.models.latent.helmholtz.coding import layered_code
from chainrule.models.latent.helmholtz.networks import (
    Code,
    GenerativeNetwork,
    RecognitionNetwork,
    bernoulli,
    drawn,
)
from chainrule.models.protocol import (
    CanSample,
    Config,
    HasLatents,
    HasLogProb,
    HasParts,
    HasPictures,
    LatentUse,
    Metrics,
    Part,
    read_options,
    require_binary,
)
from chainrule.probability.boltzmann import log_sum_over_states
from chainrule.probability.variational import importance_bound

_COUNTED = 16
"""Hidden units whose states are all visited."""
_SENSED = 256
"""Codes from the prior by which the sensitivity of the decoder is measured."""


@final
class HelmholtzConfig(Config):
    """Settings of the Helmholtz machine."""

    layers: tuple[Annotated[int, Field(ge=1, le=100_000)], ...] = Field(
        (64, 16),
        min_length=1,
        max_length=8,
        description="units of each hidden layer, from the data up: layers=64,16",
    )
    method: Literal["wake-sleep", "reweighted"] = Field(
        "reweighted",
        description="recognition learns from dreams alone, or from the data by the importance weights of k codes",
    )
    k: int = Field(10, ge=1, le=10_000, description="reweighted: codes drawn for each example")


class Helmholtz(HasParts, HasLatents, CanSample, HasPictures, HasCode):
    """Binary hidden layers with a generative and a recognition network."""

    generative: GenerativeNetwork
    recognition: RecognitionNetwork
    config: HelmholtzConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: HelmholtzConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        down, up = jax.random.split(key)
        sizes = (schema.dimensions, *config.layers)
        self.generative, self.recognition = GenerativeNetwork(sizes, down), RecognitionNetwork(sizes, up)

    # ------------------------------------------------------------------ training

    def parts(self) -> Sequence[Part[Self]]:
        """The generative network, whose loss is the bound and counts as that of a step, and the recognition network."""
        weighted = self.config.method == "reweighted"
        first = type(self).weighted_wake if weighted else type(self).wake
        second = type(self).weighted_recognition if weighted else type(self).sleep
        return [
            Part("generative", lambda model: model.generative, first),
            Part("recognition", lambda model: model.recognition, second, counted=False),
        ]

    def wake(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The bound `-log p(x, z) + log q(z|x)` with the code from the recognition network, as which it stays."""
        x = self.rows(batch.x)
        z = jax.lax.stop_gradient(self.recognition.draw(key, x))
        known = jax.lax.stop_gradient(self.recognition.log_prob(x, z))
        return (known - self.generative.log_joint(x, z)).mean(), {}, self

    def sleep(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """`-log q(z|x)` of dreams and their codes, as many as there are examples; these play no part."""
        for_codes, for_entries = jax.random.split(key)
        logits, z = self.generative.dream(for_codes, len(batch.x))
        x, z = jax.lax.stop_gradient((drawn(for_entries, logits), z))
        return -self.recognition.log_prob(x, z).mean(), {}, self

    def weighted_wake(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The importance-weighted bound: its gradient weighs that of every code by its importance."""
        weights, _, _ = self._weighed(batch, key, self.config.k)
        return -importance_bound(weights).mean(), {}, self

    def weighted_recognition(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """`-log q(z|x)` of the codes by their importance: the cross-entropy of the posterior as they know it."""
        weights, x, z = self._weighed(batch, key, self.config.k)
        share = jax.lax.stop_gradient(jax.nn.softmax(weights, axis=0))
        return -(share * self.recognition.log_prob(x, z)).sum(axis=0).mean(), {}, self

    def loss_unit(self) -> str:
        """That of a log-likelihood, or of a bound of one."""
        return "nats per example"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The bound that the method means, in nats of an example: by one code, or by k."""
        if self.config.method == "reweighted":
            weights, _, _ = self._weighed(batch, key, self.config.k)
            return -importance_bound(weights).mean(), {}
        rate, distortion = self.rate_and_distortion(batch, key)
        return (rate + distortion).mean(), {"rate": rate.mean(), "distortion": distortion.mean()}

    def _weighed(
        self, batch: Batch, key: Key, samples: int
    ) -> tuple[Float[Array, "samples batch"], Float[Array, "samples batch entries"], Code]:
        """`log p(x, z) - log q(z|x)` of codes drawn from q(z|x), with the examples and codes themselves."""
        x = self.rows(batch.x)
        x = jnp.broadcast_to(x[None], (samples, *x.shape))
        z = jax.lax.stop_gradient(self.recognition.draw(key, x))
        return self.generative.log_joint(x, z) - self.recognition.log_prob(x, z), x, z

    # ------------------------------------------------------------------ bounds

    @property
    @abc.abstractmethod
    def countable(self) -> bool:
        """Whether all codes can be visited."""

    def log_weights(self, batch: Batch, key: Key, samples: int) -> Float[Array, "samples batch"]:
        """`log p(x, z) - log q(z|x)` of codes drawn from q(z|x)."""
        return self._weighed(batch, key, samples)[0]

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """The lower bound of log p(x), from one code of each example."""
        rate, distortion = self.rate_and_distortion(Batch(x), key)
        return -rate - distortion

    def rate_and_distortion(
        self, batch: Batch, key: Key
    ) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """Both parts of the bound for each example, from one code of all layers."""
        x = self.rows(batch.x)
        z = self.recognition.draw(key, x)
        entries = self.generative.logits(z)[0]
        return self._costs(x, z).sum(axis=-1), -bernoulli(entries, x).sum(axis=-1)

    def _costs(self, x: Float[Array, "batch entries"], z: Code) -> Float[Array, "batch units"]:
        """The share of each hidden unit in the rate; the mean over its own states in the top layer, a draw below it."""
        ours = self.recognition.logits(x, z)
        theirs = self.generative.logits(z)[1:]
        costs = [
            bernoulli(own, bits) - bernoulli(other, bits)
            for own, other, bits in zip(ours[:-1], theirs[:-1], z[:-1], strict=True)
        ]
        on = jax.nn.sigmoid(ours[-1])
        softplus = jax.nn.softplus
        costs.append(on * (ours[-1] - theirs[-1]) - softplus(ours[-1]) + softplus(theirs[-1]))
        return jnp.concatenate(costs, axis=-1)

    @property
    def likelihood_note(self) -> str:
        """Zeros and ones have probabilities."""
        return ""

    def latent_use(self, batch: Batch, key: Key) -> LatentUse:
        """What the codes of these examples say about them, each code compared with the posteriors of all."""
        for_codes, for_dreams = jax.random.split(key)
        x = self.rows(batch.x)
        z = self.recognition.draw(for_codes, x)
        logits = self.recognition.logits(x, z)
        # Given its first layer a code says nothing more of the example.
        every = z[0] @ logits[0].T - jax.nn.softplus(logits[0]).sum(axis=-1)[None, :]
        log_marginal = jax.nn.logsumexp(every, axis=1) - math.log(len(x))
        information = (bernoulli(logits[0], z[0]).sum(axis=-1) - log_marginal).mean()
        bits = jnp.concatenate(z, axis=-1)
        means = jnp.concatenate([jax.nn.sigmoid(one) for one in logits], axis=-1)
        above = sum(
            (bernoulli(one, own).sum(axis=-1) for one, own in zip(logits[1:], z[1:], strict=True)),
            start=jnp.zeros(len(x), x.dtype),
        )
        often = jnp.clip(means.mean(axis=0), 1e-6, 1 - 1e-6)[None, :]
        apart = (bits * jnp.log(often) + (1 - bits) * jnp.log1p(-often)).sum(axis=-1)
        costs = self._costs(x, z).mean(axis=0)
        answers = jax.nn.sigmoid(self.generative.dream(for_dreams, _SENSED)[0])
        return LatentUse(
            divergence=costs,
            spread=jnp.concatenate(self.recognition.means(x), axis=-1).var(axis=0),
            information=information,
            marginal_divergence=costs.sum() - information,
            total_correlation=(log_marginal + above - apart).mean(),
            sensitivity=answers.var(axis=0).mean() / x.var(axis=0).mean(),
        )

    # ------------------------------------------------------------------ examples and codes

    def rows(self, x: Array) -> Float[Array, "batch entries"]:
        """Examples as vectors of zeros and ones."""
        return x.astype(jnp.promote_types(x.dtype, jnp.float32)).reshape(len(x), -1)

    def encode(self, x: Array) -> Float[Array, "batch units"]:
        """Probabilities of the units of all hidden layers, from the data up."""
        return jnp.concatenate(self.recognition.means(self.rows(x)), axis=-1)

    def decode(self, z: Array) -> Array:
        """The mean of every entry given the first hidden layer; layers above it say nothing more."""
        mean = jax.nn.sigmoid(self.generative.layers[0](z[:, : self.config.layers[0]]))
        return mean.reshape(len(z), *self.schema.shape)

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        temperature: Annotated[
            float, Field(gt=0, le=100, description="divides the logits of the codes; below 1: likelier ones")
        ] = 1.0,
        entries: Entries = "auto",
    ) -> Array:
        """`n` dreams: codes from the top layer down, and the mean of every entry, or a draw of each."""
        read_options(self.sample_options(), {"temperature": temperature, "entries": entries})
        mean = kinds.of(self.schema).spatial if entries == "auto" else entries == "mean"
        x = _dreamt(self.generative, key, n, jnp.asarray(temperature), mean)
        return x.reshape(n, *self.schema.shape)

    def code(self) -> LatentCode:
        """Bits of all layers come back as far as they are recognised well."""
        return layered_code(self)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Reconstructions, what every unit costs, generative fields, and units awake and asleep."""
        return pictures.all_of(self, data, key)


@eqx.filter_jit
def _dreamt(generative: GenerativeNetwork, key: Key, n: int, temperature: Array, mean: bool) -> Array:
    for_codes, for_entries = jax.random.split(key)
    logits, _ = generative.dream(for_codes, n, temperature)
    return jax.nn.sigmoid(logits) if mean else drawn(for_entries, logits)


@final
class CountedHelmholtz(Helmholtz, HasLogProb):
    """One with so few hidden units that all codes are visited: its likelihood is exact."""

    @property
    def countable(self) -> bool:
        """All codes can be visited."""
        return True

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """`log sum_z p(x, z)` of each example."""
        rows, sizes = self.rows(x), self.config.layers
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]

        def log_joint(states: Float[Array, "states units"]) -> Float[Array, "states batch"]:
            z = tuple(states[:, end - size : end] for size, end in zip(sizes, ends, strict=True))
            logits = self.generative.logits(z)
            own = zip(logits[1:], z, strict=True)
            prior = sum((bernoulli(one, bits).sum(axis=-1) for one, bits in own), start=jnp.zeros(()))
            entries = logits[0]
            return entries @ rows.T + (prior - jax.nn.softplus(entries).sum(axis=-1))[:, None]

        return log_sum_over_states(log_joint, sum(sizes), self.generative.top.dtype)


@final
class SampledHelmholtz(Helmholtz):
    """One with many hidden units: its likelihood has a bound, and an estimate from many codes."""

    @property
    def countable(self) -> bool:
        """There are too many codes."""
        return False


def build(config: HelmholtzConfig, schema: Schema, key: Key) -> CountedHelmholtz | SampledHelmholtz:
    """A machine for zeros and ones, by what can be computed of it."""
    require_binary("helmholtz", schema, "chainrule train vae")
    made: dict[bool, Callable[..., CountedHelmholtz | SampledHelmholtz]]
    made = {True: CountedHelmholtz, False: SampledHelmholtz}
    return made[sum(config.layers) <= _COUNTED](config, schema, key)


__all__ = ["CountedHelmholtz", "Helmholtz", "HelmholtzConfig", "SampledHelmholtz", "build"]
