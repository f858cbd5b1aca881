"""EDM (Karras et al., 2022): noise of a log-normal size in training, a network of unit variance, Heun's method to draw.

With y = x0 + sigma eps, the estimate of the clean data is c_skip y + c_out F(c_in y), so that input and output of the
network F have unit variance whatever the noise, and the error of the estimate counts by 1/c_out², so that all levels
begin with the same loss. Effort goes where it changes the picture: log sigma is normal, around exp(-1.2).
"""

from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion import schedules
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.denoisers.preconditioned import Preconditioned
from chainrule.models.diffusion.denoisers.selection import Name
from chainrule.models.diffusion.denoisers.settings import DenoiserConfig
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.process import Level, noised
from chainrule.models.protocol import Metrics

_EDGE = 1e-6
"""Quantiles of the normal distribution stay this far from 0 and 1, where they are infinite."""


@final
class EDMConfig(DenoiserConfig):
    """Settings of EDM; the names of the paper in brackets."""

    std: float | None = Field(
        None,
        gt=0,
        description="standard deviation of the data as the network sees them (sigma_data); none: measured on the "
        "training examples",
    )
    log_mean: float = Field(-1.2, description="mean of log sigma in training (P_mean)")
    log_std: float = Field(1.2, gt=0, description="standard deviation of log sigma in training (P_std)")
    low: float = Field(0.002, gt=0, description="least noise when sampling (sigma_min)")
    high: float = Field(80.0, gt=0, description="most noise when sampling (sigma_max)")
    rho: float = Field(
        7.0, ge=1, description="steps are even in sigma^(1/rho): larger is finer near the data"
    )

    def network_for(self, schema: Schema) -> Name:
        """As set."""
        del schema
        return self.denoiser


@final
class EDM(Generative):
    """Learns to denoise with inputs and outputs of unit variance; draws with Heun's method."""

    default_sampler: ClassVar[str] = "heun"
    default_steps: ClassVar[int] = 18
    default_spacing: ClassVar[str | None] = "uniform-t"
    denoiser: LearnedDenoiser
    config: EDMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: EDMConfig, schema: Schema, key: Key) -> None:
        if config.low >= config.high:
            raise ArgumentError(f"low={config.low:g}, high={config.high:g}: noise runs from little to much")
        self.config, self.schema = config, schema
        self.denoiser = Preconditioned(config.network_denoiser(schema, key), self.std)

    @property
    def std(self) -> float:
        """That of the data; where nobody measured it, that of images between -1 and 1 or of standardised numbers."""
        return self.config.std or (0.5 if kinds.of(self.schema).spatial else 1.0)

    @property
    def schedule(self) -> schedules.Schedule:
        """Even in sigma^(1/rho)."""
        return schedules.Karras(self.config.low, self.config.high, self.config.rho)

    def lams(self) -> tuple[Any, Any]:
        """The clean and the noisy end of the bound."""
        return self.fixed_lams()

    def starting_noise(self) -> None:
        """At `high`, whatever that was set to."""

    def loss_unit(self) -> str:
        """That of no likelihood: errors at all noise levels, as they are weighed."""
        return "weighted squared error"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Squared error of the network inside, at noise whose quantiles are spread evenly over the batch."""
        x0 = self.to_network_units(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        for_levels, for_noise, for_dropping = jax.random.split(key, 3)
        sigma = self.drawn_noise(len(x0), for_levels, x0)
        level = Level(jnp.ones_like(sigma), sigma)
        eps = jax.random.normal(for_noise, x0.shape, x0.dtype)
        said = self.denoiser.predict(noised(x0, eps, level), level, self.dropped(batch.y, for_dropping))
        weight = (jnp.square(sigma) + self.std**2) / jnp.square(sigma * self.std)
        error = jnp.square(said - x0).reshape(len(x0), -1).mean(axis=1)
        return (weight * error).mean(), {}

    def drawn_noise(self, count: int, key: Key, like: Array) -> Float[Array, " count"]:
        """Log-normal noise, its quantiles spread evenly."""
        even = (jax.random.uniform(key, (), like.dtype) + jnp.arange(count, dtype=like.dtype) / count) % 1
        normal = jax.scipy.special.ndtri(jnp.clip(even, _EDGE, 1 - _EDGE))
        return jnp.exp(self.config.log_mean + self.config.log_std * normal)


__all__ = ["EDM", "EDMConfig"]
