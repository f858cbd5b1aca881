"""Denoising auto-encoder (Vincent et al., 2008), with noise on the data or on the code.

Without noise D(E(x)) only copies: that is the model `autoencoder`. With noise of a known size the same network says
more: on the code it makes a code one can draw from; on the data its reconstruction is the mean of clean data given
noisy ones, and with it, where the noise is Gaussian, the score of the noised density, (D(E(y)) - y)/sigma² (Vincent,
2011). Gaussian noise of either kind bounds the likelihood, with the noisy quantity as the latent variable, a standard
normal prior and a Gaussian decoder of deviation tau:

    -log p(x) <= ½(|m|² + k sigma² - k - k log sigma²) + E|x - D|²/(2 tau²) + d/2 log(2 pi tau²)

where m is what the noise is added to, in k dimensions. Noise on the data is a fixed encoder N(x, sigma²): the first
term has nothing to learn then. Noise of several sizes is in `many_levels`.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from pydantic import Field

from chainrule.core.pictures import Images, Picture, Scatter
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent.denoising_autoencoder.corruption import corruption
from chainrule.models.latent.denoising_field import denoising_field
from chainrule.models.protocol import (
    Bounded,
    CanDecode,
    CanEncode,
    CanSample,
    Config,
    HasBoundParts,
    HasPictures,
    HasScores,
    Metrics,
    Scored,
    read_options,
)
from chainrule.networks import units
from chainrule.nn import constructions
from chainrule.probability.gaussian import discretized_log_prob, kl_from_centred, log_density
from chainrule.probability.monte_carlo.langevin import langevin

_X = Float[Array, "batch ..."]
_Rows = Float[Array, "batch features"]
_SHOWN = 10


@final
class DAEConfig(Config):
    """Settings of the denoising auto-encoder."""

    noise: Literal["data", "code"] = Field(
        "data", description="where noise is added: to the data, or to their code"
    )
    corruption: Literal["gaussian", "masking", "salt-pepper"] = Field(
        "gaussian",
        description="noise=data: Gaussian noise on every entry, or some entries that become zero, or some that become "
        "black or white; only the first has a score, a bound and samples",
    )
    sigma: float = Field(
        0.3,
        gt=0,
        description="gaussian: standard deviation of the noise, beside data of about unit size; images, which run "
        "from -1 to 1 here: 0.6 on the data, 0.3 of the way from black to white",
    )
    noise_levels: int = Field(
        1,
        ge=1,
        le=1000,
        description="noise=data, gaussian: sizes of the noise, by equal factors from sigma to sigma_max; with several "
        "the network is told which it was, as in diffusion models",
    )
    sigma_max: float = Field(3.0, gt=0, description="noise_levels above 1: the largest standard deviation")
    share: float = Field(
        0.25, gt=0, le=1, description="masking, salt-pepper: share of the entries that are changed"
    )
    tau: float = Field(0.2, gt=0, description="standard deviation of the decoder, in the bound")
    code: int = Field(16, ge=1, description="entries of the code")
    width: int = Field(256, ge=1, description="units of each hidden layer")
    depth: int = Field(
        2, ge=0, le=20, description="hidden layers of the encoder and of the decoder; 0 is a linear model"
    )

    @pydantic.field_validator("noise", mode="before")
    @classmethod
    def _some(cls, given: Any) -> Any:
        if given == "none":
            raise ValueError("without noise it is the model autoencoder")
        return given


class AutoEncoder(CanEncode, CanDecode, HasScores, HasPictures):
    """An encoder and a decoder; a rung of the ladder says where the noise is."""

    encoder: constructions.Network
    decoder: constructions.Network
    config: DAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DAEConfig, schema: Schema, key: Key) -> None:
        one, two = jax.random.split(key)
        hidden, entries, extra = [config.width] * config.depth, schema.dimensions, self.condition_size()
        self.encoder = constructions.mlp([entries + extra, *hidden, config.code], "silu", key=one)
        self.decoder = constructions.mlp([config.code + extra, *hidden, entries], "silu", key=two)
        self.config, self.schema = config, schema

    @abc.abstractmethod
    def rebuilt(self, x: _Rows, key: Key) -> tuple[_Rows, Float[Array, " batch"]]:
        """Rows rebuilt under this rung's noise, and what else the loss counts, for each, in squares of an entry."""

    @classmethod
    def condition_size(cls) -> int:
        """Default: encoder and decoder are told nothing of the noise; otherwise in so many numbers."""
        return 0

    def code_of(self, rows: _Rows) -> Float[Array, "batch code"]:
        """Default: what the encoder makes of clean rows."""
        return self.encoder(rows)

    def rows_of(self, z: Float[Array, "batch code"]) -> _Rows:
        """Default: what the decoder makes of codes."""
        return self.decoder(z)

    def loss_unit(self) -> str:
        """That of what is rebuilt."""
        return "squared error per entry"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean squared error of an entry and, with noise on the code, what keeps codes near the prior."""
        x = self.rows(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        back, more = self.rebuilt(x, key)
        error = jnp.square(back - x).mean()
        return error + more.mean(), {"error": error}

    def rows(self, x: _X) -> _Rows:
        """Examples as the encoder reads them."""
        return units.to_network(self.schema, x).reshape(len(x), -1)

    def examples(self, rows: _Rows) -> _X:
        """The way back."""
        return units.to_model(self.schema, rows).reshape(len(rows), *self.schema.shape)

    def encode(self, x: Array) -> Float[Array, "batch code"]:
        """The code of each example, without noise."""
        return self.code_of(self.rows(x))

    def decode(self, z: Array) -> Array:
        """The example of each code."""
        return self.examples(self.rows_of(z))

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Squared error of an entry: of what is rebuilt without noise, and with it."""
        x = batch.x
        found = {
            "squared_error": self.decode(self.encode(x)),
            "noisy_squared_error": self.examples(self.rebuilt(self.rows(x), key)[0]),
        }
        unit = f"per entry, {units.described(self.schema)}"
        return {
            name: Scored(jnp.square(back - x).reshape(len(x), -1).mean(axis=1), unit)
            for name, back in found.items()
        }

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Held-out images and what becomes of them; of points, where each is moved to."""
        part = data.val if len(data.val) else data.train
        plane = kinds.of(self.schema).is_plane(self.schema)
        x = jnp.asarray(part.batch(np.arange(min(300 if plane else _SHOWN, len(part)))).x)
        seen, back = self.seen(x, key), self.examples(self.rebuilt(self.rows(x), key)[0])
        if plane:
            drawn = _arrows(np.asarray(x), np.asarray(seen), np.asarray(back))
            return [drawn, *self.fields(data, key)]
        if not kinds.of(self.schema).shows_pixels(self.schema):
            return []
        pixels = np.clip(np.concatenate([np.asarray(part) for part in (x, seen, back)]), 0, 1)
        labels = [row for row in ("held out", "seen", "rebuilt") for _ in range(len(x))]
        caption = "Rows: held-out images; as the encoder sees them; as they are rebuilt, with the noise of training."
        title = "What the auto-encoder rebuilds"
        return [Images("rebuilt", title, pixels, labels, len(x), caption, aligned=True)]

    def fields(self, data: Data, key: Key) -> Sequence[Picture]:
        """Default: no field of arrows in the plane beside one that is known."""
        del data, key
        return ()

    def seen(self, x: _X, key: Key) -> _X:
        """Default: the encoder sees examples as they are."""
        del key
        return x


class ReconstructionTerms(NamedTuple):
    """The two parts of the bound for each example, in nats; their sum bounds -log p(x) from above."""

    prior: Float[Array, " batch"]
    reconstruction: Float[Array, " batch"]

    @property
    def total(self) -> Float[Array, " batch"]:
        """The bound."""
        return self.prior + self.reconstruction


class Noisy(AutoEncoder, HasBoundParts, CanSample):
    """A rung with noise: the noisy quantity is a latent variable, which gives a bound and something to draw from."""

    @abc.abstractmethod
    def centre(self, x: _Rows) -> _Rows:
        """What the noise is added to."""

    def terms(self, x: _X, key: Key) -> ReconstructionTerms:
        """The parts of the bound for each example, in nats, from one draw of the noise."""
        rows, tau = self.rows(x), self.config.tau
        prior = kl_from_centred(self.centre(rows), self.config.sigma, 1.0)
        mean, _ = self.rebuilt(rows, key)
        if not self.schema.levels:
            return ReconstructionTerms(prior, -log_density(rows, mean, tau))
        index = jnp.rint((rows + 1) / 2 * (self.schema.levels - 1)).astype(jnp.int32)
        values = jnp.linspace(-1, 1, self.schema.levels, dtype=rows.dtype)
        return ReconstructionTerms(prior, -discretized_log_prob(mean, tau, index, values))

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """The lower bound of log p(x) in the units of the model."""
        return units.log_density(self.schema, self.terms(x, key).total)

    def bound(self, batch: Batch, key: Key) -> Bounded:
        """The bound of each example and its two parts."""
        terms = self.terms(batch.x, key)
        return Bounded(units.log_density(self.schema, terms.total), {"prior": terms.prior}, {})


@final
class CodeNoise(Noisy):
    """D(E(x) + noise): codes have to stay near zero and apart from each other, so that the prior can be decoded."""

    def centre(self, x: _Rows) -> _Rows:
        """The code."""
        return self.encoder(x)

    def rebuilt(self, x: _Rows, key: Key) -> tuple[_Rows, Float[Array, " batch"]]:
        """Rows from noisy codes, and the part of the bound that keeps codes small, in squares of an entry."""
        code = self.encoder(x)
        noise = self.config.sigma * jax.random.normal(key, code.shape, code.dtype)
        more = self.config.tau**2 * jnp.square(code).sum(axis=1) / x.shape[1]
        return self.decoder(code + noise), more

    def sample(self, key: Key, n: int) -> Array:  # type: ignore[override]  # nothing to choose
        """`n` examples from codes drawn from the prior."""
        return self.decode(jax.random.normal(key, (n, self.config.code)))


@final
class DataNoise(Noisy):
    """D(E(x + noise)): the mean of clean data given noisy ones, and thereby the score of the noised density."""

    def centre(self, x: _Rows) -> _Rows:
        """The data themselves."""
        return x

    def rebuilt(self, x: _Rows, key: Key) -> tuple[_Rows, Float[Array, " batch"]]:
        """Noisy rows denoised; the rest of the bound has nothing to learn."""
        return self.denoised(self._noisy(x, key)), jnp.zeros(len(x), x.dtype)

    def seen(self, x: _X, key: Key) -> _X:
        """With noise."""
        return self.examples(self._noisy(self.rows(x), key))

    def denoised(self, y: _Rows) -> _Rows:
        """D(E(y)): the mean of the clean rows given noisy ones."""
        return self.decoder(self.encoder(y))

    def score(self, y: _Rows) -> _Rows:
        """The gradient of the log-density of noised rows, (D(E(y)) - y)/sigma²."""
        return (self.denoised(y) - y) / self.config.sigma**2

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        moves: Annotated[int, Field(ge=1, description="Langevin moves before the last denoising")] = 1000,
        size: Annotated[float, Field(gt=0, description="of a move, over the variance of the noise")] = 0.1,
    ) -> Array:
        """`n` examples by `moves` Langevin moves of `size` sigma² at the one noise level, and a last denoising."""
        read_options(self.sample_options(), {"moves": moves, "size": size})
        begin, walk = jax.random.split(key)
        sigma = self.config.sigma
        start = math.sqrt(1 + sigma**2) * jax.random.normal(begin, (n, self.schema.dimensions))
        rows = langevin(self.score, start, size * sigma**2, moves, walk)
        return self.examples(self.denoised(rows))

    def fields(self, data: Data, key: Key) -> Sequence[Picture]:
        """Where it moves points of the plane, and where the exact score of the smoothed data does."""
        found = denoising_field(eqx.filter_jit(self.denoised), data, self.config.sigma, key)
        return found.learned, found.exact

    def _noisy(self, x: _Rows, key: Key) -> _Rows:
        return x + self.config.sigma * jax.random.normal(key, x.shape, x.dtype)


@final
class Corrupted(AutoEncoder):
    """D(E(corrupted x)): the mean of clean examples given corrupted ones, and no score, bound or samples."""

    def rebuilt(self, x: _Rows, key: Key) -> tuple[_Rows, Float[Array, " batch"]]:
        """Corrupted rows rebuilt."""
        seen = self.rows(self.seen(self.examples(x), key))
        return self.decoder(self.encoder(seen)), jnp.zeros(len(x), x.dtype)

    def seen(self, x: _X, key: Key) -> _X:
        """With some entries changed."""
        return corruption(self.config.corruption, self.config.share, self.schema)(x, key)


def _arrows(x: np.ndarray, seen: np.ndarray, back: np.ndarray) -> Picture:
    return Scatter(
        "moved",
        "Where points are moved to",
        "first coordinate",
        "second coordinate",
        {"held out": x, "rebuilt": back},
        arrows=(seen, back - seen),
        caption="From what the encoder sees to what is rebuilt from it.",
    )


__all__ = ["AutoEncoder", "CodeNoise", "Corrupted", "DAEConfig", "DataNoise", "Noisy"]
