"""Flow matching (Lipman et al., 2023): the velocity of straight paths from noise to data, learned by regression.

With noise x_0, data x_1 and time t from 0 to 1,

    x_t = (1 - (1 - path_noise) t) x_0 + t x_1,    v = x_1 - (1 - path_noise) x_0,

and the network learns v, or rather its mean given x_t, by which samples flow. It is the rectified path of diffusion
with time turned around: a = t, s = 1 - (1 - path_noise) t and, without noise at the end, v = -u. Samplers, guidance,
bounds and the exact likelihood are therefore those of the family.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.denoisers.selection import Name
from chainrule.models.diffusion.denoisers.settings import DenoiserConfig
from chainrule.models.diffusion.flow_matching import path_pictures
from chainrule.models.diffusion.flow_matching.coupling import shorter_pairs
from chainrule.models.diffusion.flow_matching.curvature import bending
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.process import Level, Rectified, noised
from chainrule.models.diffusion.targets import convert
from chainrule.models.protocol import HasScores, Metrics, Scored

_STEPS = 32
"""Steps in which paths are followed to measure how they bend."""


@final
class FlowMatchingConfig(DenoiserConfig):
    """Settings of flow matching."""

    coupling: Literal["independent", "transport"] = Field(
        "independent",
        description="which noise a path leads from: any, or, within a batch, such that paths are short (minibatch "
        "optimal transport), of the same class where classes are learned",
    )
    path_noise: float = Field(
        0.0, ge=0, lt=1, description="noise left at the end of a path (sigma_min); 0: it ends at the example"
    )

    def network_for(self, schema: Schema) -> Name:
        """As set."""
        del schema
        return self.denoiser


@final
class FlowMatching(Generative, HasScores):
    """Learns the velocity of straight paths from noise to data; new examples flow along it."""

    default_sampler: ClassVar[str] = "runge-kutta"
    default_steps: ClassVar[int] = 10
    equal_steps: ClassVar[bool] = True
    denoiser: LearnedDenoiser
    config: FlowMatchingConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: FlowMatchingConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        self.denoiser = config.network_denoiser(schema, key, target="u")
        if config.coupling == "transport" and self.conditional and not self.classes:
            raise CapabilityError(
                f"coupling=transport: noise chosen by the example tells of its {schema.target}, and samples start from "
                "noise that does not",
                remedy="use coupling=independent, or conditional=false; classes are paired each by itself",
            )

    @property
    def schedule(self) -> schedules.Schedule:
        """The rectified path."""
        return schedules.RectifiedSchedule(Rectified(self.config.path_noise))

    def lams(self) -> tuple[Any, Any]:
        """The clean and the noisy end of the bound."""
        return self.fixed_lams()

    # ------------------------------------------------------------------ training

    def loss_unit(self) -> str:
        """That of no likelihood: errors of the velocity at all times."""
        return "squared error of the velocity"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean squared error of the velocity, at times spread evenly over the batch."""
        data = self.to_network_units(batch.x.astype(jnp.promote_types(batch.x.dtype, jnp.float32)))
        for_times, for_noise, for_dropping = jax.random.split(key, 3)
        times, _ = schedules.drawn_times(self.schedule, len(data), for_times, data.dtype)
        level = self.schedule.level(times)
        noise = jax.random.normal(for_noise, data.shape, data.dtype)
        if self.config.coupling == "transport":
            noise = noise[shorter_pairs(noise, data, batch.y if self.classes else None)]
        x = noised(data, noise, level)
        said = self._velocity(x, level, self.dropped(batch.y, for_dropping))
        return jnp.square(said - (data - (1 - self.config.path_noise) * noise)).mean(), {}

    def velocity(
        self, x: Float[Array, "batch ..."], t: Any, condition: Any = None
    ) -> Float[Array, "batch ..."]:
        """How samples move at time t, from 0 (noise) to 1 (data), one for all or one for each, in network units."""
        return self._velocity(x, self.schedule.level(1 - jnp.asarray(t, x.dtype)), condition)

    def _velocity(self, x: Array, level: Level, condition: Any) -> Array:
        u, rest = self.denoiser.predict(x, level, condition), self.config.path_noise
        return rest * convert(u, "u", "eps", x, level) - u if rest else -u

    # ------------------------------------------------------------------ what follows from noise that was chosen

    @property
    def likelihood_note(self) -> str:
        """That the bound is no bound of the flow, where noise was chosen by the example."""
        return "" if self.config.coupling == "independent" else "of the noisy chain, not of the flow"

    def check_sampler(self, sampler: samplers.NamedSampler) -> None:
        """Raise where a sampler adds noise, and the network knows none that is independent of the data."""
        if self.config.coupling == "transport" and not sampler.deterministic:
            raise CapabilityError(
                f"sampler={sampler.name} adds noise on the way, and coupling=transport learned a flow without any",
                remedy="use sampler=runge-kutta, ddim or dormand-prince, or train with coupling=independent",
            )

    def samplers(self) -> Mapping[str, bool]:
        """Samplers that can start from the same noise; those that add some only where training drew it freely."""
        free = self.config.coupling == "independent"
        return {name: still for name, still in super().samplers().items() if still or free}

    # ------------------------------------------------------------------ paths

    def paths(
        self, key: Key, n: int, condition: Any = None, steps: int = _STEPS
    ) -> Float[Array, "moments n ..."]:
        """`n` samples at every one of equal steps from noise to data, by Euler's rule, in network units."""
        with jax.ensure_compile_time_eval():
            levels = self.levels(steps)
        start = jax.random.normal(key, (n, *self.schema.shape)) * jnp.asarray(levels.s[0], jnp.float32)
        drawn = samplers.walk(
            self.denoiser, start, levels, samplers.DDIM(), key, condition=condition, trajectory=True
        )
        assert drawn.path is not None
        return jnp.concatenate([start[None], drawn.path])

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """How far from straight the paths of samples are, drawn under the conditions of these examples."""
        condition = batch.y if self.conditional else None
        bent = bending(self.paths(key, len(batch.x), condition)).mean(axis=0)
        return {"path_curvature": Scored(bent, "of the mean squared length; 0: straight")}

    def own_pictures(self) -> Sequence[Picture]:
        """How paths bend over time and, of points, the velocity and the paths themselves."""
        return path_pictures.pictures(self)


__all__ = ["FlowMatching", "FlowMatchingConfig"]
