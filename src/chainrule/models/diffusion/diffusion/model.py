"""The diffusion model: one denoiser, trained on all noise levels at once; samplers and bounds do the rest."""

from collections.abc import Sequence
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.base import Batch, Data, Schema
from chainrule.models.base import CanSample, Config, HasBound, HasPictures, Metrics
from chainrule.models.diffusion import bounds, samplers, schedules
from chainrule.models.diffusion.base import Denoiser
from chainrule.models.diffusion.diffusion import pictures
from chainrule.models.diffusion.guidance import guided
from chainrule.models.diffusion.networks.base import Network
from chainrule.models.diffusion.networks.choice import Name, network
from chainrule.models.diffusion.process import Level, noised
from chainrule.models.diffusion.targets import error_ratio, truth
from chainrule.models.diffusion.weights import weights

_GUIDANCE = 2.0
"""For images, where looks count more than the law; points and rows are drawn from the law of their class."""
_BATCH = 2048
"""Samples drawn at a time."""
_DRAWS = 16
"""Noise levels at which one example is looked at for one estimate of the bound."""


@final
class DiffusionConfig(Config):
    """Settings of the diffusion model."""

    denoiser: Name = Field(
        "auto", description="network; auto takes dense layers except for images of more than 256 entries"
    )
    width: int | None = Field(
        None, ge=1, description="units or channels of a layer; none: 256 (mlp), 32 or 64 (unet), 192 (dit)"
    )
    depth: int | None = Field(
        None, ge=1, le=100, description="blocks, of each resolution in a unet; none: 3 (mlp), 1 or 2, 6 (dit)"
    )
    pad: bool = Field(False, description="unet: pad images whose sides cannot be halved often enough")
    target: Literal["v", "eps", "x0"] = Field(
        "v", description="what the network predicts: velocity, noise or clean data"
    )
    noise: Literal["cosine", "linear", "vp-linear", "logsnr-linear"] = Field(
        "cosine", description="noise schedule"
    )
    weight: Literal["velocity", "simple", "bound", "min-snr", "edm"] = Field(
        "velocity", description="how much an error counts at each noise level"
    )
    conditional: bool = Field(True, description="learn the classes, where the data have them")
    dropping: float = Field(
        0.1, ge=0, lt=1, description="share of examples trained without their class, as guidance needs it"
    )


@final
class Diffusion(CanSample, HasBound, HasPictures):
    """Learns to undo noise of every strength; new examples come from noise alone, step by step."""

    denoiser: Network
    config: DiffusionConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DiffusionConfig, schema: Schema, key: Key) -> None:
        classes = len(schema.classes) if config.conditional and schema.target == "class" else 0
        self.denoiser = network(
            config.denoiser,
            schema,
            key,
            classes=classes,
            target=config.target,
            width=config.width,
            depth=config.depth,
            pad=config.pad,
        )
        self.config = config
        self.schema = schema

    @property
    def schedule(self) -> schedules.Schedule:
        """The noise schedule."""
        return schedules.schedule(self.config.noise)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Weighted squared error of the prediction, at noise levels spread evenly over the batch."""
        x0 = self.inside(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        for_times, for_noise, for_dropping = jax.random.split(key, 3)
        level, rate = self._levels(len(x0), for_times, x0)
        eps = jax.random.normal(for_noise, x0.shape, x0.dtype)
        condition = None
        if self.denoiser.classes:
            dropped = jax.random.bernoulli(for_dropping, self.config.dropping, (len(x0),))
            condition = jnp.where(dropped, self.denoiser.classes, batch.y)
        said = self.denoiser.predict(noised(x0, eps, level), level, condition)
        error = jnp.square(said - truth(self.config.target, x0, eps, level))
        weight = weights[self.config.weight](level.lam, rate) * error_ratio(self.config.target, level)
        return (weight * error.reshape(len(x0), -1).mean(axis=1)).mean(), {}

    def _levels(self, count: int, key: Key, like: Array) -> tuple[Level, Array]:
        """Noise levels at times that fill the schedule evenly, and how fast lam falls there."""
        schedule = self.schedule
        even = (jax.random.uniform(key, (), like.dtype) + jnp.arange(count, dtype=like.dtype) / count) % 1
        times = schedule.first + (1 - schedule.first) * even
        return schedule.level(times), -schedule.rates(times).lam

    def sample(  # type: ignore[override]  # the options of this model, by name
        self,
        key: Key,
        n: int,
        *,
        condition: Any = None,
        sampler: str = "ddim",
        steps: int = 50,
        guidance: float | None = None,
        spacing: str = "uniform-t",
        clip: str | None = None,
        eta: float | None = None,
        mu: float | None = None,
    ) -> Array:
        """`n` new examples, of one class or one class each; `guidance` makes classes more distinct.

        The weight of guidance is 2 for images and 1 for everything else unless told.
        `sampler` is one of ddim, ddpm, sigma, gradient-estimation, heun, dpm-solver, langevin, reverse-sde; `eta` and
        `mu` are the noise of ddim and sigma. `clip` keeps estimates within the range of the data (static for images).
        """
        own = {name: value for name, value in (("eta", eta), ("mu", mu)) if value is not None}
        chosen = samplers.sampler(sampler, **own)
        levels = schedules.grid(self.schedule, steps, spacing)
        classes = None if condition is None else self.class_numbers(condition, n)
        denoiser = self._guided(guidance, conditional=classes is not None)
        clip = ("static" if self.unit else "none") if clip is None else clip
        parts = -(-n // _BATCH)
        size = -(-n // parts)
        found = []
        for part in range(parts):
            start, walk = jax.random.split(jax.random.fold_in(key, part))
            z = jax.random.normal(start, (size, *self.schema.shape))
            mine = None if classes is None else jnp.resize(classes[part * size :], (size,))
            drawn = samplers.walk(denoiser, z, levels, chosen, walk, condition=mine, clip=clip)
            found.append(self.outside(drawn.samples))
        return jnp.concatenate(found)[:n]

    def _guided(self, guidance: float | None, *, conditional: bool) -> Denoiser:
        if not conditional:
            if guidance is not None:
                raise CapabilityError(f"guidance={guidance} leads towards a class", remedy="name one: class=")
            return self.denoiser
        if guidance not in (None, 1) and not self.config.dropping:
            raise CapabilityError(
                f"guidance={guidance}: the model was trained without dropping classes",
                remedy="use guidance=1, or train with dropping=0.1",
            )
        if guidance is None:
            guidance = _GUIDANCE if self.config.dropping and self.schema.kind == "image" else 1.0
        return guided(self.denoiser, guidance)

    def class_numbers(self, condition: Any, n: int) -> Int[Array, " batch"]:
        """The class of each of `n` examples from one number or name, or one for each."""
        if not self.denoiser.classes:
            raise CapabilityError(
                "the model draws from all of the data together: it was trained without classes",
                remedy="leave class= out",
            )
        names = self.schema.classes
        given = np.asarray(condition)
        if given.dtype.kind == "U":
            for name in given.ravel():
                if name not in names:
                    raise ArgumentError(f"unknown class {str(name)!r}{suggest(str(name), names)}")
            given = np.vectorize(names.index)(given)
        if given.dtype.kind not in "iu" or given.shape not in ((), (n,)):
            raise ArgumentError(f"condition: one class for all, or one for each of {n} examples")
        bad = given[(given < 0) | (given >= len(names))]
        if bad.size:
            raise ArgumentError(f"class {int(bad.ravel()[0])}: classes are numbered 0 to {len(names) - 1}")
        return jnp.broadcast_to(jnp.asarray(given, jnp.int32), (n,))

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """A lower bound of log p(x), whatever the class, from 16 noise levels for each example."""
        nats = self.terms(x, key).total
        if (
            self.schema.levels
        ):  # a probability of levels; a density is it divided by the distance between them
            return -nats + self.schema.dimensions * float(np.log(self.schema.levels - 1))
        return -nats + (self.schema.dimensions * float(np.log(2.0)) if self.unit else 0.0)

    def terms(self, x: Array, key: Key, condition: Any = None) -> bounds.Terms:
        """The three parts of the bound for each example, in nats."""
        x0 = self.inside(x)
        schedule, process = self.schedule, self.schedule.process
        for_clean, for_levels, for_noise = jax.random.split(key, 3)
        high, low = self._ends()
        clean, noisy = (process.level(jnp.asarray(lam, x0.dtype)) for lam in (high, low))
        even = jnp.arange(_DRAWS, dtype=x0.dtype)[:, None] / _DRAWS
        even = (even + jax.random.uniform(for_levels, (1, len(x0)), x0.dtype)) % 1
        eps = jax.random.normal(for_noise, (_DRAWS, *x0.shape), x0.dtype)
        diffusion = bounds.continuous_term(
            self.denoiser, x0, eps, low + (high - low) * even, schedule.process, high - low, condition
        )
        if not self.schema.levels:
            last = bounds.gaussian_reconstruction(x0, clean)
        else:
            z = noised(x0, jax.random.normal(for_clean, x0.shape, x0.dtype), clean)
            index = jnp.rint((x0 + 1) / 2 * (self.schema.levels - 1)).astype(jnp.int32)
            values = jnp.linspace(-1, 1, self.schema.levels, dtype=x0.dtype)
            last = bounds.level_reconstruction(z, index, values, clean)
        return bounds.Terms(bounds.prior_term(x0, noisy, process), diffusion, last)

    def _ends(self) -> tuple[float, float]:
        """The clean and the noisy end of the bound.

        Data with levels are reconstructed where noise is a quarter of their distance: below that the network would
        only be judged on noise finer than the data.
        """
        high, low = self.schedule.ends()
        if self.schema.levels:
            high = min(high, 2 * float(np.log(2 * (self.schema.levels - 1))))
        return high, low

    @property
    def unit(self) -> bool:
        """Whether the data lie in [0, 1], and are moved to [-1, 1] for the network."""
        return self.schema.kind == "image" or self.schema.levels > 0

    def inside(self, x: Array) -> Array:
        """Examples as the network sees them."""
        return 2 * x - 1 if self.unit else x

    def outside(self, x: Array) -> Array:
        """The way back."""
        return (x + 1) / 2 if self.unit else x

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Noise becoming data, the error at each noise level, the terms of the bound, and the score field of points."""
        return pictures.all_of(self, data, key)


__all__ = ["Diffusion", "DiffusionConfig"]
