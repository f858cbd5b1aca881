"""Denoising diffusion model: one denoiser, trained on all noise levels at once (Ho et al., 2020)."""

import math
from pathlib import Path
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic
from pydantic import Field

from chainrule.core.types import Array, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion import schedules
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.denoisers.learned_variance import WithVariance, divergence
from chainrule.models.diffusion.denoisers.selection import Name
from chainrule.models.diffusion.denoisers.settings import DenoiserConfig
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.process import noised
from chainrule.models.diffusion.targets import convert, error_ratio, truth
from chainrule.models.diffusion.weights import EVEN_IN_LAM, FOLLOWS, weights
from chainrule.models.protocol import Metrics
from chainrule.networks.conditioning import Inject

_LEVELS = 1000
"""Steps of the chain whose noise is learned."""


@final
class DiffusionConfig(DenoiserConfig):
    """Settings of the diffusion model."""

    target: Literal["v", "eps", "x0", "u"] = Field(
        "v",
        description="what the network predicts: velocity, noise, clean data, or u, the velocity of the straight path",
    )
    noise: Literal["cosine", "linear", "vp-linear", "logsnr-linear", "rectified"] = Field(
        "cosine", description="noise schedule; with target=u, rectified is rectified flow"
    )
    table: tuple[float, ...] | None = Field(
        None,
        description="a noise schedule of your own in place of `noise`: one number for each level, cleanest first, or "
        "the name of a file with them (CSV, text or NPY)",
    )
    table_of: Literal["alpha_bar", "beta", "sigma"] = Field(
        "alpha_bar",
        description="what the numbers of the table are: share of signal, variance a step adds, noise beside unit "
        "signal",
    )
    weight: Literal["auto", "velocity", "simple", "flow", "bound", "min-snr", "edm"] = Field(
        "auto",
        description="how much an error counts at each noise level; auto: simple for target=eps, flow for u, velocity "
        "for others",
    )
    variance: Literal["fixed", "learned"] = Field(
        "fixed",
        description="learned: a second network learns the noise of a step, for sampler=ddpm variance=learned",
    )
    inject: Inject = Field(
        "auto",
        description="how targets enter; auto: captions by attention (unet, dit), pictures beside the noisy one, all "
        "else by scale and shift",
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _follow_the_target(cls, given: Any) -> Any:
        """Settings say which weight they mean, so that they mean the same wherever they are read again."""
        if not isinstance(given, dict) or given.get("weight", "auto") != "auto":
            return given
        target = given.get("target", "v")
        return {**given, "weight": FOLLOWS[target]} if target in FOLLOWS else given

    @pydantic.field_validator("table", mode="before")
    @classmethod
    def _from_a_file(cls, given: Any) -> Any:
        """Numbers themselves, wherever they come from: a run does not need the file again."""
        match given:
            case [str() as name] | (str() as name) | (Path() as name):  # a single number would be no schedule
                return schedules.read_table(Path(name))
        return given

    def network_for(self, schema: Schema) -> Name:
        """As set."""
        del schema
        return self.denoiser


@final
class Diffusion(Generative):
    """Learns to undo noise of every strength; new examples come from noise alone, step by step."""

    denoiser: LearnedDenoiser
    config: DiffusionConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DiffusionConfig, schema: Schema, key: Key) -> None:
        def made(key: Key) -> LearnedDenoiser:
            return config.network_denoiser(schema, key, inject=config.inject, target=config.target)

        self.config, self.schema = config, schema
        _ = self.schedule  # a table that is no schedule is refused here
        self.denoiser = made(key)
        if config.variance == "learned":
            self.denoiser = WithVariance(self.denoiser, made(jax.random.fold_in(key, 1)))

    @property
    def schedule(self) -> schedules.Schedule:
        """The noise schedule."""
        if self.config.table is not None:
            return schedules.from_table(self.config.table, self.config.table_of)
        return schedules.schedule(self.config.noise)

    def loss_unit(self) -> str:
        """That of no likelihood: errors at all noise levels, as they are weighed."""
        return "weighted squared error"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Weighted squared error of the prediction, at noise levels spread evenly over the batch."""
        x0 = self.to_network_units(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        for_times, for_noise, for_dropping = jax.random.split(key, 3)
        evenly_in_lam = weights[self.config.weight] in EVEN_IN_LAM
        times, chance = schedules.drawn_times(
            self.schedule, len(x0), for_times, x0.dtype, evenly_in_lam=evenly_in_lam
        )
        level, rate = self.schedule.level(times), -self.schedule.rates(times).lam
        eps = jax.random.normal(for_noise, x0.shape, x0.dtype)
        condition = self.dropped(batch.y, for_dropping)
        x = noised(x0, eps, level)
        said = self.denoiser.predict(x, level, condition)
        target = self.config.target
        error = jnp.square(said - truth(target, x0, eps, level))
        weight = self._weight(level.lam, rate) / chance
        loss = (weight * error.reshape(len(x0), -1).mean(axis=1)).mean()
        if not isinstance(self.denoiser, WithVariance):
            return loss, {}
        # The step back to the neighbouring level; the estimate itself does not learn from it.
        there = self.schedule.process.level(level.lam + rate / _LEVELS)
        guess = convert(jax.lax.stop_gradient(said), target, "x0", x, level)
        share = self.denoiser.share(x, level, condition)
        step = _LEVELS * divergence(guess - x0, share, level, there).mean()
        return loss + 0.001 * step, {"step_divergence": step}

    def _weight(self, lam: Array, rate: Array) -> Array:
        """What the squared error of the prediction counts where `lam` falls at this rate.

        A level with more noise than samples start from counts no more than the one they start from: an error of eps
        that counts by 1/SNR would otherwise be learned at levels that nobody visits, and nowhere else.
        """
        target, weighting, process = self.config.target, weights[self.config.weight], self.schedule.process
        weight = weighting(lam, rate) * error_ratio(target, process.level(lam))
        start = self.starting_noise()
        if start is None:
            return weight
        first = jnp.full_like(lam, -2 * math.log(start))
        most = weighting(first, rate) * error_ratio(target, process.level(first))
        return jnp.where(lam < first, jnp.minimum(weight, most), weight)

    def lams(self) -> tuple[Any, Any]:
        """The clean and the noisy end of the bound."""
        return self.fixed_lams()


__all__ = ["Diffusion", "DiffusionConfig"]
