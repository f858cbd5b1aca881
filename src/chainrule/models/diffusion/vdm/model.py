"""The variational diffusion model: the bound is the loss, and the noise schedule is learned with the network."""

import math
from collections.abc import Sequence
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Picture
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion import bounds
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.denoisers.selection import Name
from chainrule.models.diffusion.denoisers.settings import DenoiserConfig
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.process import noised
from chainrule.models.diffusion.schedules.learned import LearnedSNR, by_variance
from chainrule.models.diffusion.schedules.schedule import Schedule
from chainrule.models.protocol import Metrics


@final
class VDMConfig(DenoiserConfig):
    """Settings of the variational diffusion model."""

    denoiser: Name = Field(
        "auto", description="network; auto takes a unet for images and dense layers otherwise"
    )
    fourier: bool = Field(
        True, description="unet: give sines of the input at the scale of its levels beside it"
    )
    target: Literal["v", "eps", "x0"] = Field(
        "v", description="what the network predicts: velocity, noise or clean data"
    )
    timesteps: int | None = Field(
        None,
        ge=1,
        description="steps T of a chain whose bound is trained, all of the schedule with it; none: continuous time, "
        "the limit of many steps and the better bound",
    )

    def network_for(self, schema: Schema) -> Name:
        """As set; auto takes a U-Net for images of every size."""
        return "unet" if self.denoiser == "auto" and kinds.of(schema).spatial else self.denoiser


@final
class VDM(Generative):
    """Minimises the variational bound of -log p(x), in continuous time or of a chain, and learns the schedule too."""

    denoiser: LearnedDenoiser
    noise: LearnedSNR
    config: VDMConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: VDMConfig, schema: Schema, key: Key) -> None:
        for_network, for_noise = jax.random.split(key)
        self.denoiser = config.network_denoiser(
            schema,
            for_network,
            target=config.target,
            fourier=powers(schema.levels) if config.fourier else (),
        )
        # A density of continuous data has no clean end of its own: its ends stay where they are.
        low, high = start_of(schema.levels)
        self.noise = LearnedSNR(
            low, high, for_noise, learn_ends=schema.levels > 0, timesteps=config.timesteps
        )
        self.config = config
        self.schema = schema

    @property
    def schedule(self) -> Schedule:
        """The learned schedule."""
        return self.noise

    def lams(self) -> tuple[Any, Any]:
        """The ends of the schedule, for gradients to pass."""
        low, high = -self.noise.bounds()
        return low, high

    def own_pictures(self) -> Sequence[Picture]:
        """The learned schedule beside a straight one."""
        times = np.linspace(0, 1, 101)
        low, high = (float(g) for g in self.noise.gammas)
        learned = -np.asarray(self.noise.lam(jnp.asarray(times, jnp.float32)))
        return [
            Lines(
                "schedule",
                "The learned noise schedule",
                "time",
                "gamma = log noise-to-signal ratio",
                {"learned": (times, learned), "straight": (times, low + (high - low) * times)},
                caption=f"From {low:.2f} to {high:.2f}. {self._learned()}",
            )
        ]

    def _learned(self) -> str:
        """What the schedule follows, in a sentence."""
        if self.config.timesteps is not None:
            return f"All of the curve is learned by the bound of its {self.config.timesteps:,} steps."
        return "The ends are learned by the bound; between them the schedule makes its estimate less noisy."

    def looks(self, even: Float[Array, "draws batch"]) -> tuple[Array, Array]:
        """In continuous time as all models; of a chain, levels of its steps and what each weighs."""
        return super().looks(even) if self.config.timesteps is None else self._steps(even)

    def _steps(self, even: Float[Array, "*some"]) -> tuple[Array, Array]:
        """For numbers that fill [0, 1] evenly: lam after a step of the chain, and T expm1 of what lam lost in it."""
        assert self.config.timesteps is not None
        total = self.config.timesteps
        number = jnp.minimum(jnp.floor(even * total), total - 1)
        cleaner, here = self.noise.lam(number / total), self.noise.lam((number + 1) / total)
        return here, total * jnp.expm1(cleaner - here)

    def loss_unit(self) -> str:
        """That of a bound."""
        return "bits per dimension" if self.schema.levels else "nats per dimension"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """The bound, in bits per dimension (nats for continuous data), at one noise level for each example."""
        x0 = self.to_network_units(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        for_times, for_noise, for_dropping, for_clean = jax.random.split(key, 4)
        eps = jax.random.normal(for_noise, x0.shape, x0.dtype)
        condition = self.dropped(batch.y, for_dropping)
        even = (
            jax.random.uniform(for_times, (), x0.dtype) + jnp.arange(len(x0), dtype=x0.dtype) / len(x0)
        ) % 1
        scale = self.schema.dimensions * (math.log(2) if self.schema.levels else 1.0)
        clean, noisy = self.lams()
        terms = {
            "prior": bounds.prior_term(x0, self.noise.process.level(noisy), self.noise.process) / scale,
            "diffusion": self._diffusion(x0, eps, even, condition, scale),
            "reconstruction": self.reconstruction(x0, clean, for_clean) / scale,
        }
        means = {name: term.mean() for name, term in terms.items()}
        return means["prior"] + means["diffusion"] + means["reconstruction"], means

    def _diffusion(
        self, x0: Array, eps: Array, even: Array, condition: Any, scale: float
    ) -> Float[Array, " batch"]:
        """The diffusion term at one noise level for each example, with the gradients that train the schedule."""
        if self.config.timesteps is not None:
            lams, widths = self._steps(even[None])
            process = self.noise.process
            return bounds.continuous_term(
                self.denoiser, x0, eps[None], lams, process, widths / scale, condition
            )
        everything = (self.denoiser, self.noise.bounds(), x0, eps, condition)
        arrays, rest = eqx.partition(everything, eqx.is_array)

        def diffusion(arrays: Tree, interior: tuple[Array, Array]) -> Array:
            denoiser, (low, high), x0, eps, condition = eqx.combine(arrays, rest)
            share, rate = interior
            level = self.noise.process.level(-(low + (high - low) * share))
            error = denoiser.value("eps", noised(x0, eps, level), level, condition) - eps
            squares = jnp.square(error).reshape(len(x0), -1).sum(axis=1)
            return 0.5 * (high - low) * rate * squares / scale

        return by_variance(diffusion, arrays, self.noise.share_and_rate(even))


def powers(levels: int) -> tuple[int, ...]:
    """The powers k of sin and cos(2^k pi x) that tell neighbouring levels apart: 2 and 3 for 17, 6 and 7 for 256.

    >>> powers(17), powers(256), powers(0)
    ((2, 3), (6, 7), ())
    """
    finest = round(math.log2(max(levels - 1, 1)))
    return (finest - 2, finest - 1) if levels > 4 else ()


def start_of(levels: int) -> tuple[float, float]:
    """gamma at both ends before training: -7 and 6 for 17 levels, -13.3 and 5 for 256, more noise for less data."""
    if not levels:
        return -10.0, 6.0
    return (-13.3, 5.0) if levels > 64 else (-7.0, 6.0)


__all__ = ["VDM", "VDMConfig", "powers", "start_of"]
