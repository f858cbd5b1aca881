"""Variational auto-encoders whose code has levels z_1 ... z_T: bound, weights, samples and the use of every level.

    log p(x) >= E_q [ log p(x|z) - sum_t log q(z_t|...)/p(z_t|z_{t+1..T}) ]

Which levels know of which, and in what order they are inferred, is for the hierarchy to say.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.bits_back import LatentCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.latent import hierarchical_pictures
from chainrule.models.latent.bodies import coarsened
from chainrule.models.latent.coded import AT_ONCE, Coded, Entries, Temperature
from chainrule.models.latent.coding import hierarchical_code
from chainrule.models.latent.hierarchy import Hierarchy, Path
from chainrule.models.latent.rates import RateSettings, WeighsRate
from chainrule.models.latent.settings import BodyConfig, EntryConfig
from chainrule.models.protocol import HasLevels, LatentUse, Metrics, read_options
from chainrule.networks import units

_SENSED = 64
"""Codes from the prior by which the sensitivity of the decoder is measured."""
_ROWS = 4096
"""Codes that go through the networks together when importance weights are computed, about."""

LevelsFixed = Annotated[
    int,
    Field(
        ge=0, description="top levels that are drawn once and shared by all examples; the rest are drawn anew"
    ),
]


class HierarchicalConfig(EntryConfig, BodyConfig, RateSettings, abc.ABC):
    """Settings of all models whose code has levels."""

    body: Literal["mlp", "conv"] = Field(
        "mlp", description="encoder and decoder: dense layers, or residual convolutions for images"
    )


class Hierarchical(Coded, WeighsRate, HasLevels, HasCode):
    """A hierarchy of codes between examples and a standard normal top level."""

    hierarchy: eqx.AbstractVar[Hierarchy]
    config: eqx.AbstractVar[HierarchicalConfig]
    schema: eqx.AbstractVar[Schema]

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """Those of the hierarchy."""
        return self.hierarchy.sizes

    # ------------------------------------------------------------------ the bound

    def seen(self, x: Array) -> Array:
        """Examples as the hierarchy sees them."""
        found = units.to_network(self.schema, x)
        return coarsened(found, self.config.coarse) if self.config.coarse > 1 else found

    def inferred(self, x: Array, key: Key) -> Path:
        """A code of each example, drawn from q(z|x)."""
        noise = jax.random.normal(key, (len(x), self.hierarchy.size), x.dtype)
        return self.hierarchy.inferred(self.seen(x), noise)

    def shares(self, path: Path) -> Float[Array, "batch size"]:
        """The share of every entry in the rate: a divergence where it has a closed form, else `log q - log p`."""
        return path.posterior.divergence(path.prior) if self.hierarchy.exact else path.log_ratio()

    def loss_unit(self) -> str:
        """That of a bound."""
        return "nats per example"

    def loss_at(self, batch: Batch, key: Key, progress: Scalar | float) -> tuple[Scalar, Metrics]:
        """Distortion + beta rate in nats of an example, and the rate level by level."""
        for_noise, for_codes = jax.random.split(key)
        x = self.target(batch.x, for_noise)
        path = self.inferred(x, for_codes)
        each = self.shares(path)
        distortion = self.nats(self.entry_log_likelihood(x, path.parameters)).mean()
        rates = {f"rate_{name}": rate.mean() for name, rate in self.named_rates(each).items()}
        metrics = {"distortion": distortion, "rate": each.sum(axis=-1).mean(), **rates}
        return distortion + self.charged(each, progress), metrics

    def rate_and_distortion(
        self, batch: Batch, key: Key
    ) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """Both parts of the bound for each example, from one code."""
        each, distortion = self._parts(batch, key)
        return each.sum(axis=-1), distortion

    def level_rates(self, batch: Batch, key: Key) -> Mapping[str, Float[Array, " batch"]]:
        """What each level adds to the rate of each example, from the same code."""
        return self.named_rates(self._parts(batch, key)[0])

    def _parts(self, batch: Batch, key: Key) -> tuple[Float[Array, "batch size"], Float[Array, " batch"]]:
        for_noise, for_codes = jax.random.split(key)
        x = self.target(batch.x, for_noise)
        path = self.inferred(x, for_codes)
        return self.shares(path), -self.entry_log_likelihood(x, path.parameters)

    def named_rates(self, each: Float[Array, "batch size"]) -> Mapping[str, Float[Array, " batch"]]:
        """Default: the rate of each level, z1 the lowest."""
        found = self.hierarchy.by_level(each)
        digits = len(str(found.shape[1]))
        return {f"z{level + 1:0{digits}d}": found[:, level] for level in range(found.shape[1])}

    def log_weights(self, batch: Batch, key: Key, samples: int) -> Float[Array, "samples batch"]:
        """`log p(x|z) + log p(z) - log q(z|x)` for codes drawn from q(z|x), a few of them in memory at a time."""
        for_noise, for_codes = jax.random.split(key)
        x = self.target(batch.x, for_noise)

        def one(key: Key) -> Array:
            path = self.inferred(x, key)
            return self.entry_log_likelihood(x, path.parameters) - path.log_ratio().sum(axis=-1)

        together = min(samples, max(1, _ROWS // len(x)))
        return jax.lax.map(one, jax.random.split(for_codes, samples), batch_size=together)

    def code(self) -> LatentCode:
        """Bits come back level by level."""
        return hierarchical_code(self)

    # ------------------------------------------------------------------ codes

    def encode(self, x: Array, *, top: bool = False, key: Key | None = None) -> Float[Array, "batch size"]:
        """The code of each example, all levels or the top one: centres of q, level by level, or a draw with a key."""
        noise = jnp.zeros((len(x), self.hierarchy.size), jnp.promote_types(x.dtype, jnp.float32))
        noise = noise if key is None else jax.random.normal(key, noise.shape, noise.dtype)
        codes = self.hierarchy.inferred(self.seen(x.astype(noise.dtype)), noise).codes
        return codes[:, self.hierarchy.part(-1)] if top else codes

    def decode(self, z: Array, *, top: bool = False) -> Array:
        """The example of each code, the mean of every entry; of codes of the top level the others follow as means."""
        if top:
            known = jnp.zeros((len(z), self.hierarchy.size), z.dtype).at[:, self.hierarchy.part(-1)].set(z)
            z = self.hierarchy.generated(jnp.zeros_like(known), 1.0, known, 1)
        return self.output.mean(self.hierarchy.entry_parameters(z))

    def reconstruct(self, x: Array, *, key: Key | None = None) -> Array:
        """Examples rebuilt from their codes; with a key, from codes that are drawn."""
        return self.decode(self.encode(x, key=key))

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        temperature: Temperature = 1.0,
        entries: Entries = "auto",
        levels_fixed: LevelsFixed = 0,
    ) -> Array:
        """`n` examples from codes drawn level by level, in parts that fit into memory."""
        options = {"temperature": temperature, "entries": entries, "levels_fixed": levels_fixed}
        read_options(self.sample_options(), options)
        if levels_fixed > len(self.hierarchy.sizes):
            raise ArgumentError(
                f"levels_fixed={levels_fixed}: all there are is {len(self.hierarchy.sizes)}",
                remedy=f"use levels_fixed={len(self.hierarchy.sizes)} or less",
            )
        for_top, for_rest = jax.random.split(key)
        found = [
            _drawn(
                *(self, for_top, jax.random.fold_in(for_rest, number), min(AT_ONCE, n - first)),
                *(temperature, entries, levels_fixed),
            )
            for number, first in enumerate(range(0, n, AT_ONCE))
        ]
        return jnp.concatenate(found)

    def latent_use(self, batch: Batch, key: Key) -> LatentUse:
        """What the codes of these examples say about them, level by level in the order of a code.

        An entry of a level is in use where x moves it from where the other levels put it.
        """
        for_noise, for_codes, for_prior = jax.random.split(key, 3)
        x = self.target(batch.x, for_noise)
        path = self.inferred(x, for_codes)
        divergence = self.shares(path).mean(axis=0)
        shift = (path.posterior.mean - path.prior.mean) * jnp.exp(-path.prior.log_variance / 2)
        count = min(len(x), self.hierarchy.compared)
        few = jax.tree.map(lambda a: a[:count], path)
        pairs = self.hierarchy.pairs(self.seen(x[:count]), few.codes)
        log_joint = jax.nn.logsumexp(pairs, axis=1) - math.log(count)
        information = (jnp.diagonal(pairs) - log_joint).mean()

        def single(own: Array) -> Array:
            return jax.nn.logsumexp(
                few.posterior.log_prob(jnp.broadcast_to(own[None], few.codes.shape)), axis=0
            )

        log_single = (jax.lax.map(single, few.codes) - math.log(count)).sum(axis=-1)
        noise = jax.random.normal(for_prior, (_SENSED, self.hierarchy.size), x.dtype)
        answers = self.decode(self.hierarchy.generated(noise, 1.0, noise, 0))
        return LatentUse(
            divergence=divergence,
            spread=shift.var(axis=0),
            information=information,
            marginal_divergence=divergence.sum() - information,
            total_correlation=(log_joint - log_single).mean(),
            sensitivity=answers.var(axis=0).mean() / x.var(axis=0).mean(),
            compared=jnp.asarray(count),
        )

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """What every level costs, examples with the top levels fixed, and the pictures of all latent variables."""
        return hierarchical_pictures.pictures(self, data, key)


@eqx.filter_jit
def _drawn(
    model: Hierarchical, for_top: Key, key: Key, n: int, temperature: float, entries: str, fixed: int
) -> Array:
    for_codes, for_entries = jax.random.split(key)
    size = model.hierarchy.size
    once = jax.random.normal(for_top, (1, size))
    known = jnp.broadcast_to(model.hierarchy.generated(once, temperature, once, 0), (n, size))
    codes = model.hierarchy.generated(jax.random.normal(for_codes, (n, size)), temperature, known, fixed)
    return model.shown(model.hierarchy.entry_parameters(codes), for_entries, entries)


__all__ = ["Hierarchical", "HierarchicalConfig", "LevelsFixed"]
