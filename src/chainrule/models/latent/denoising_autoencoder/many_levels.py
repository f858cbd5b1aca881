"""The denoising auto-encoder of several noise levels: the last step before diffusion models.

Every example is seen with noise of one of several sizes, and both networks are told which. The best answer in squared
error is the mean of clean data given noisy ones at each size, D(y, sigma) = E[x | y], and (D(y, sigma) - y)/sigma² is
the score of the data smoothed by that much noise: a field that is right far from the data at large sizes, and sharp at
small ones. Samples walk from large noise to small (Song and Ermon, 2019).

That is what a diffusion model learns whose target is x0: it sees a x + s eps, and divided by a that is x + sigma eps
with sigma = s/a. Only the weights of the levels differ, and the best answers do not depend on them. Here an error
counts by 1 + 1/sigma² (Karras et al., 2022), so that the little that is to be told at small noise is not drowned by the
large errors at much noise; the weights are one on average.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Annotated, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data.dataset import Data
from chainrule.models.latent.denoising_autoencoder.model import AutoEncoder
from chainrule.models.latent.denoising_field import denoising_field
from chainrule.models.protocol import CanSample, read_options
from chainrule.probability.monte_carlo.langevin import langevin

_Rows = Float[Array, "batch features"]
_FIELDS = 3
"""Levels whose fields are drawn."""


@final
class ManyLevels(AutoEncoder, CanSample):
    """D(E(x + sigma eps, sigma), sigma): the mean of clean data given noisy ones, at each of several noise levels."""

    @classmethod
    def condition_size(cls) -> int:
        """The size of the noise."""
        return 1

    @property
    def sigmas(self) -> Float[np.ndarray, " levels"]:
        """The sizes of the noise, by equal factors, the least first."""
        return np.geomspace(self.config.sigma, self.config.sigma_max, self.config.noise_levels)

    def code_of(self, rows: _Rows) -> Float[Array, "batch code"]:
        """As of rows with the least noise."""
        return self._coded(rows, self._least(len(rows), rows))

    def rows_of(self, z: Float[Array, "batch code"]) -> _Rows:
        """As of rows with the least noise."""
        return self.decoder(jnp.concatenate([z, self._size(self._least(len(z), z))], axis=1))

    def denoised(self, y: _Rows, sigma: Any) -> _Rows:
        """The mean of the clean rows given noisy ones; `sigma` is one for all or one for each."""
        each = jnp.broadcast_to(jnp.asarray(sigma, y.dtype), (len(y),))
        return self.decoder(jnp.concatenate([self._coded(y, each), self._size(each)], axis=1))

    def score(self, y: _Rows, sigma: Any) -> _Rows:
        """The gradient of the log-density of rows with this much noise, (D(y, sigma) - y)/sigma²."""
        each = jnp.broadcast_to(jnp.asarray(sigma, y.dtype), (len(y),))
        return (self.denoised(y, each) - y) / jnp.square(each)[:, None]

    def rebuilt(self, x: _Rows, key: Key) -> tuple[_Rows, Float[Array, " batch"]]:
        """Noisy rows denoised, the levels spread evenly over the batch, and what the loss counts of them beside 1."""
        y, sigma = self._noisy(x, key)
        back = self.denoised(y, sigma)
        weights = (1 + np.square(self.sigmas)) / np.square(self.sigmas)
        own = (1 + 1 / jnp.square(sigma)) / weights.mean()
        return back, (own - 1) * jnp.square(back - x).mean(axis=1)

    def seen(self, x: Float[Array, "batch ..."], key: Key) -> Float[Array, "batch ..."]:
        """With noise of several sizes."""
        return self.examples(self._noisy(self.rows(x), key)[0])

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        moves: Annotated[int, Field(ge=1, description="Langevin moves at every noise level")] = 50,
        size: Annotated[float, Field(gt=0, description="of a move, over the variance of the noise")] = 0.1,
    ) -> Array:
        """`n` examples by Langevin moves from the largest noise down to the least, and a last denoising."""
        read_options(self.sample_options(), {"moves": moves, "size": size})
        return self.examples(_drawn(self, key, n, moves, size))

    def fields(self, data: Data, key: Key) -> Sequence[Picture]:
        """At some of the levels: where it moves points of the plane, and where the exact score does."""
        chosen = np.unique(np.linspace(0, len(self.sigmas) - 1, _FIELDS).astype(int))
        denoise = eqx.filter_jit(self.denoised)
        found: list[Picture] = []
        for level in chosen:
            sigma = float(self.sigmas[level])
            field = denoising_field(functools.partial(denoise, sigma=sigma), data, sigma, key)
            for picture in (field.learned, field.exact):
                title = f"{picture.title}, sigma = {sigma:.2g}"
                found.append(dataclasses.replace(picture, name=f"{picture.name}-{level + 1}", title=title))
        return found

    def _coded(self, y: _Rows, sigma: Float[Array, " batch"]) -> Float[Array, "batch code"]:
        """The code of noisy rows, which the encoder sees at about unit size."""
        scaled = y / jnp.sqrt(1 + jnp.square(sigma))[:, None]
        return self.encoder(jnp.concatenate([scaled, self._size(sigma)], axis=1))

    def _size(self, sigma: Float[Array, " batch"]) -> Float[Array, "batch 1"]:
        """The size of the noise as networks are told it: -1 for the least, 1 for the largest."""
        low, high = math.log(self.config.sigma), math.log(self.config.sigma_max)
        return (2 * (jnp.log(sigma) - low) / (high - low) - 1)[:, None]

    def _least(self, count: int, like: Array) -> Float[Array, " batch"]:
        return jnp.full(count, self.config.sigma, like.dtype)

    def _noisy(self, x: _Rows, key: Key) -> tuple[_Rows, Float[Array, " batch"]]:
        for_levels, for_noise = jax.random.split(key)
        count = self.config.noise_levels
        first = jax.random.uniform(for_levels, (), x.dtype)
        even = (first + jnp.arange(len(x)) / len(x)) % 1
        level = jnp.minimum((even * count).astype(jnp.int32), count - 1)
        sigma = jnp.asarray(self.sigmas, x.dtype)[jax.random.permutation(for_levels, level)]
        return x + sigma[:, None] * jax.random.normal(for_noise, x.shape, x.dtype), sigma


@eqx.filter_jit
def _drawn(model: ManyLevels, key: Key, n: int, moves: int, size: float) -> _Rows:
    """Rows from the largest noise to the least, in units of each, so that one program serves them all."""
    begin, walk = jax.random.split(key)
    sigmas = jnp.asarray(model.sigmas[::-1], jnp.float32)
    start = jnp.sqrt(1 + sigmas[0] ** 2) * jax.random.normal(begin, (n, model.schema.dimensions))

    def at_level(y: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
        sigma, key = given
        moved = langevin(lambda u: sigma * model.score(sigma * u, sigma), y / sigma, size, moves, key)
        return sigma * moved, None

    y, _ = jax.lax.scan(at_level, start, (sigmas, jax.random.split(walk, len(sigmas))))
    return model.denoised(y, sigmas[-1])


__all__ = ["ManyLevels"]
