"""Score model: denoising score matching under noise of every size added to the data (Song and Ermon, 2019)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture, Scatter
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion import schedules
from chainrule.models.diffusion.denoisers.conservative import Conservative
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.denoisers.preconditioned import Preconditioned
from chainrule.models.diffusion.denoisers.selection import Name
from chainrule.models.diffusion.denoisers.settings import DenoiserConfig
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.process import Level, noised, per_example
from chainrule.models.diffusion.targets import error_ratio
from chainrule.models.diffusion.weights import weights
from chainrule.models.protocol import Metrics

_ENOUGH = 2.0
"""Noise at which data of unit size are 1/8 nat per dimension from a normal distribution."""
_LITTLE = 0.1
"""Noise at which an energy is shown."""


@final
class ScoreConfig(DenoiserConfig):
    """Settings of the score model."""

    form: Literal["direct", "energy"] = Field(
        "direct",
        description="the network gives the score, or an energy of which the score is minus the gradient",
    )
    low: float = Field(0.02, gt=0, description="least noise, beside data of about unit size")
    high: float = Field(
        10.0, gt=0, description="most noise; at least the distance between the farthest examples"
    )
    weight: Literal["simple", "edm"] = Field(
        "simple",
        description="how much an error counts at each noise level; simple is s² on the error of the score",
    )

    def network_for(self, schema: Schema) -> Name:
        """As set."""
        del schema
        return self.denoiser


@final
class ScoreModel(Generative):
    """Learns the score of data with noise of every size; annealed Langevin dynamics draws from it."""

    default_sampler: ClassVar[str] = "langevin"
    default_steps: ClassVar[int] = 20
    denoiser: LearnedDenoiser
    config: ScoreConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: ScoreConfig, schema: Schema, key: Key) -> None:
        if config.low >= config.high:
            raise ArgumentError(f"low={config.low}, high={config.high}: noise runs from little to much")
        if config.high < _ENOUGH:
            raise ArgumentError(
                f"high={config.high}: data of about unit size show through so little noise, and samples, which start "
                "from noise alone, would know nothing of them",
                remedy="use high=10",
            )
        inner: LearnedDenoiser = config.network_denoiser(schema, key)
        if config.form == "energy":
            inner = Conservative(inner)
        # Images lie in [-1, 1] for the network; points and tables come standardised.
        self.denoiser = Preconditioned(inner, 0.5 if kinds.of(schema).spatial else 1.0)
        self.config = config
        self.schema = schema

    @property
    def schedule(self) -> schedules.Schedule:
        """Noise on a geometric ladder."""
        return schedules.LogLinear(self.config.low, self.config.high)

    def starting_noise(self) -> None:
        """At `high`, whatever that was set to."""

    def loss_unit(self) -> str:
        """That of no likelihood: errors at all noise levels, as they are weighed."""
        return "weighted squared error"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Denoising score matching, at noise levels spread evenly over the batch on a logarithmic scale."""
        x0 = self.to_network_units(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        for_times, for_noise, for_dropping = jax.random.split(key, 3)
        even = (
            jax.random.uniform(for_times, (), x0.dtype) + jnp.arange(len(x0), dtype=x0.dtype) / len(x0)
        ) % 1
        level, rate = self.schedule.level(even), -self.schedule.rates(even).lam
        eps = jax.random.normal(for_noise, x0.shape, x0.dtype)
        said = self.denoiser.predict(noised(x0, eps, level), level, self.dropped(batch.y, for_dropping))
        weight = weights[self.config.weight](level.lam, rate) * error_ratio("x0", level)
        error = jnp.square(said - x0).reshape(len(x0), -1).mean(axis=1)
        return (weight * error).mean(), {}

    def lams(self) -> tuple[Any, Any]:
        """The clean and the noisy end of the bound."""
        return self.fixed_lams()

    def score(
        self, x: Float[Array, "batch ..."], sigma: Any, condition: Any = None
    ) -> Float[Array, "batch ..."]:
        """The gradient of the log-density of the data with noise `sigma`, at `x`, both as the network sees them."""
        level = self._level(x, sigma)
        return (self.denoiser.predict(x, level, condition) - x) / jnp.square(per_example(level.s, x))

    def energy(
        self, x: Float[Array, "batch ..."], sigma: Any, condition: Any = None
    ) -> Float[Array, " batch"]:
        """Minus the log-density of the data with noise `sigma`, at `x`, up to a number that depends on sigma alone."""
        denoiser = self.denoiser
        assert isinstance(denoiser, Preconditioned)
        if not isinstance(denoiser.inner, Conservative):
            raise CapabilityError(
                "form=direct: the score of this model is a field of vectors, not the gradient of an energy",
                remedy="train with form=energy",
            )
        level, std = self._level(x, sigma), denoiser.std
        scale = 1 / jnp.sqrt(jnp.square(level.s) + std**2)
        unit = per_example(scale, x) * x
        squares = jnp.square(unit).reshape(len(x), -1).sum(axis=1)
        return squares / 2 - std / level.s * denoiser.inner.potential(unit, level, condition)

    def _level(self, x: Array, sigma: Any) -> Level:
        return self.schedule.process.level(-2 * jnp.log(jnp.asarray(sigma, x.dtype)))

    def own_pictures(self) -> Sequence[Picture]:
        """Of points, the density that an energy gives."""
        plane = kinds.of(self.schema).is_plane(self.schema)
        return [self._density()] if plane and self.config.form == "energy" else []

    def _density(self) -> Picture:
        side = np.linspace(-3, 3, 81)
        grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
        energy = np.asarray(self.energy(jnp.asarray(grid, jnp.float32), _LITTLE), np.float64)
        logs = -energy.reshape(81, 81)
        density = np.exp(logs - logs.max())
        density /= density.sum() * (side[1] - side[0]) ** 2
        return Scatter(
            "density",
            "The density its energy gives",
            "first coordinate",
            "second coordinate",
            {},
            field=density,
            extent=(-3.0, 3.0, -3.0, 3.0),
            contours=[(share * float(density.max()), f"{share:.0%}") for share in (0.05, 0.2, 0.5)],
            caption=f"exp(-energy) with noise {_LITTLE:g}; lines are shares of the highest density, "
            f"{density.max():.2g} where all of the square together is one.",
        )


__all__ = ["ScoreConfig", "ScoreModel"]
