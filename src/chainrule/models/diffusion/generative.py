"""Diffusion models in general: samples, bounds, likelihood and pictures from a denoiser and a schedule.

A model of this family says how it is trained; sampling, steering and judging it are the same for all.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import tree
from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.diffusion import bounds, pictures, samplers, schedules, steering, trajectories
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.denoisers.settings import DenoiserConfig
from chainrule.models.diffusion.likelihood import flow_likelihood
from chainrule.models.diffusion.process import Level, noised
from chainrule.models.diffusion.steering import Draw, Steering, views
from chainrule.models.diffusion.steering.guidance import Guidance, usual_weight
from chainrule.models.diffusion.tweedie import posterior_covariance
from chainrule.models.diffusion.walk_options import WalkOptions, walk_options
from chainrule.models.protocol import (
    BoundByLevel,
    Bounded,
    CanInvert,
    FlowLikelihood,
    HasBoundByLevel,
    HasFlowLikelihood,
    HasPictures,
    HasSampleCaption,
    HasSamplers,
    HasTokenAttention,
    HasViews,
    OptionGroup,
    SampleOptions,
    Trajectory,
    read_options,
)
from chainrule.networks import units
from chainrule.networks.condition_values import texts, values
from chainrule.networks.conditions import ClassEncoder, TextEncoder, class_numbers

_BATCH = 2048
"""Samples drawn at a time."""
_FOR_CLASSES = 2**31 - 1
"""What sets the key of the classes apart from those of the parts."""
_DRAWS = 16
"""Noise levels at which one example is looked at for one estimate of the bound.

They are spread evenly, so that their errors cancel: with a U-Net on the digits, 4 levels on four times as many images
would cost the same and give 1.3 times the standard error.
"""


class Generative(
    HasSampleCaption,
    HasSamplers,
    CanInvert,
    HasFlowLikelihood,
    HasTokenAttention,
    HasViews,
    HasBoundByLevel,
    HasPictures,
):
    """A denoiser, a schedule and the data they belong to."""

    denoiser: eqx.AbstractVar[LearnedDenoiser]
    config: eqx.AbstractVar[DenoiserConfig]
    schema: eqx.AbstractVar[Schema]
    default_sampler: ClassVar[str] = "ddim"
    default_steps: ClassVar[int] = 50
    default_spacing: ClassVar[str | None] = None
    """Of the noise levels when sampling; none: as suits the sampler."""
    equal_steps: ClassVar[bool] = False
    """Whether the last of steps that are even in time, the one to no noise, is as long as the others."""

    @property
    @abc.abstractmethod
    def schedule(self) -> schedules.Schedule:
        """The noise schedule."""

    @abc.abstractmethod
    def lams(self) -> tuple[Any, Any]:
        """lam at the clean and at the noisy end of the bound."""

    def fixed_lams(self) -> tuple[float, float]:
        """The ends of the schedule for the bound.

        Data with levels are reconstructed where noise is a quarter of their distance: below that the network would
        only be judged on noise finer than the data.
        """
        high, low = self.schedule.ends()
        return (min(high, 2 * math.log(2 * (self.schema.levels - 1))) if self.schema.levels else high), low

    # ------------------------------------------------------------------ data

    @property
    def unit(self) -> bool:
        """Whether the data lie in [0, 1], and are moved to [-1, 1] for the network."""
        return units.unit(self.schema)

    def to_network_units(self, x: Array) -> Array:
        """Examples as the network sees them."""
        return units.to_network(self.schema, x)

    def to_model_units(self, x: Array) -> Array:
        """The inverse of `to_network_units`."""
        return units.to_model(self.schema, x)

    def dropped(self, y: Any, key: Key) -> Any:
        """The conditions of a batch to train with, some replaced by nothing; none for a model without them."""
        encoder = self.denoiser.condition_encoder
        return None if encoder is None else encoder.dropped(y, self.config.condition_dropout, key)

    # ------------------------------------------------------------------ samples

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """How to walk, the options of every sampler, and those of every way of steering."""
        walk = walk_options(cls.default_sampler, cls.default_steps, tuple(samplers.samplers))
        return [
            OptionGroup("walk", "What is drawn, and how the walk from noise to data goes.", walk),
            *(OptionGroup(way.name, way.summary, way) for way in steering.ways()),
            *(
                OptionGroup(f"sampler {name}", make.summary(), samplers.options_of(make), ("sampler", name))
                for name, make in ((name, samplers.samplers[name]) for name in samplers.samplers)
            ),
        ]

    def starting_noise(self) -> float | None:
        """Default: with as much noise, s/a, as hides data of this size; none where the schedule ends before that."""
        enough = schedules.enough_noise(self.schema.dimensions)
        return enough if self.schedule.ends()[1] < -2 * math.log(enough) else None

    def levels(
        self,
        steps: int,
        spacing: str = "uniform-t",
        *,
        clean: bool = True,
        sigma_min: float | None = None,
        sigma_max: float | None = None,
    ) -> Level:
        """The noise levels of a walk of so many steps, noisiest first, as `schedules.grid` has them."""
        most = self.starting_noise() if sigma_max is None else sigma_max
        if self.equal_steps and clean and spacing == "uniform-t" and sigma_min is None and sigma_max is None:
            sigma_min = trajectories.least_noise(self, steps)
        return schedules.grid(self.schedule, steps, spacing, clean=clean, sigma_min=sigma_min, sigma_max=most)

    def sample(self, key: Key, n: int, *, callback: samplers.Callback | None = None, **options: Any) -> Array:
        """`n` new examples, of one class, caption or other condition or one each.

        Where no class is named, one is drawn for each example, as often as training had it; `guidance=0` asks the
        network for data of no class in particular instead, and so does what shows what is wanted: an example to vary,
        a known part, a view.

        The options are those of `sample_options`: `condition`, `sampler`, `steps` and more about the walk, those of the
        sampler, and those of the ways of steering (`guidance`, `view`, `start`, `inpaint`). One that is `None` counts
        as not given. `callback` is called after every step with a `samplers.SamplerStep` and may return examples to go
        on with; it is compiled with the loop (`samplers.on_host` for a function that is not to be), which draws at most
        2,048 examples at a time.
        """
        found = read_options(self.sample_options(), options)
        walk = found["walk"]
        assert isinstance(walk, WalkOptions)
        own = found.get(f"sampler {walk.sampler}", SampleOptions()).model_dump()
        sampler = samplers.sampler(walk.sampler, **own).for_process(self.schedule.process)
        self.check_sampler(sampler)
        levels = self.levels(
            walk.steps,
            walk.spacing or self.default_spacing or sampler.spacing,
            sigma_min=walk.sigma_min,
            sigma_max=walk.sigma_max,
        )
        model = self.computing_in(walk.precision)
        ways = [one for one in (found[way.name] for way in steering.ways()) if isinstance(one, Steering)]
        given = walk.condition
        if given is None and self.classes and not any(way.shows_what for way in ways):
            given = self.drawn_classes(jax.random.fold_in(key, _FOR_CLASSES), n)
        draw = Draw(model, n, given, model.denoiser, sampler, levels)
        for way in ways:
            draw = way.steer(draw)
        if callback is not None:
            draw = replace(draw, sampler=samplers.WatchedSampler(draw.sampler, callback))
        return self._drawn(draw, key, walk.clip or ("static" if self.unit else "none"))

    def check_sampler(self, sampler: samplers.NamedSampler) -> None:
        """Default: every sampler will do; raises where one would not draw what was learned."""

    def drawn_classes(self, key: Key, n: int) -> Int[Array, " n"]:
        """A class for each of `n` examples, each as often as training had it."""
        shares = jnp.asarray(self.config.shares(self.classes), jnp.float32)
        return jax.random.choice(key, self.classes, (n,), p=shares)

    @property
    def needs_condition(self) -> bool:
        """Whether it was never trained without its conditions, and these are no classes, which it could draw."""
        return self.conditional and not self.classes and not self.config.condition_dropout

    def sample_caption(self, **options: Any) -> str:
        """Sampler, steps and, towards a condition, the weight of guidance."""
        found = read_options(self.sample_options(), options)
        walk, guidance = found["walk"], found["guidance"]
        assert isinstance(walk, WalkOptions)
        assert isinstance(guidance, Guidance)
        said = f"{walk.sampler} in {walk.steps} steps"
        alone = any(way.shows_what for way in found.values() if isinstance(way, Steering))
        if walk.condition is None and (alone or not self.classes):
            return said
        usual = usual_weight(self) if guidance.classifier is None else 1.0
        return f"{said}, guidance {usual if guidance.guidance is None else guidance.guidance:g}"

    def _drawn(self, draw: Draw, key: Key, clip: str) -> Array:
        """The examples of a prepared draw, in parts that fit into memory."""
        parts = -(-draw.n // _BATCH)
        size = -(-draw.n // parts)
        found = []
        for part in range(parts):
            begin, walk = jax.random.split(jax.random.fold_in(key, part))
            x, mine = draw.begin(begin, part * size, size), draw.conditions(part * size, size)
            drawn = samplers.walk(
                draw.denoiser, x, draw.levels, draw.sampler, walk, condition=mine, clip=clip
            )
            found.append(self.to_model_units(drawn.samples))
        return jnp.concatenate(found)[: draw.n]

    def computing_in(self, precision: str) -> Self:
        """The same model with a network that computes in float32 or bfloat16."""
        if precision == "float32":
            return self
        return eqx.tree_at(lambda model: model.denoiser, self, tree.lowered(self.denoiser))

    def conditions(self, condition: Any, n: int) -> Array:
        """The conditions of `n` examples: one class, caption, vector or picture for all, or one for each."""
        encoder = self.denoiser.condition_encoder
        if encoder is None:
            raise CapabilityError(
                "the model draws from all of the data together: it was trained without classes or other conditions",
                remedy="leave class= (text=, y=) out",
            )
        if isinstance(encoder, ClassEncoder):
            return class_numbers(self.schema, condition, n)
        if isinstance(encoder, TextEncoder):
            return texts(self.schema, condition, n)
        return values(encoder, self.schema, condition, n)

    # ------------------------------------------------------------------ likelihood

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """A lower bound of log p(x) by the network without a class, from 16 noise levels for each example."""
        return units.log_density(self.schema, self.terms(x, key).total)

    def terms(self, x: Array, key: Key, condition: Any = None) -> bounds.Terms:
        """The three parts of the bound for each example, in nats."""
        return self._looked_at(x, key, condition)[0]

    def _looked_at(self, x: Array, key: Key, condition: Any = None) -> tuple[bounds.Terms, BoundByLevel]:
        """The parts of the bound, and the diffusion term level by level."""
        x0, process = self.to_network_units(x), self.schedule.process
        for_clean, for_levels, for_noise = jax.random.split(key, 3)
        high, low = (jnp.asarray(lam, x0.dtype) for lam in self.lams())
        even = jnp.arange(_DRAWS, dtype=x0.dtype)[:, None] / _DRAWS
        even = (even + jax.random.uniform(for_levels, (1, len(x0)), x0.dtype)) % 1
        eps = jax.random.normal(for_noise, (_DRAWS, *x0.shape), x0.dtype)
        lams, width = self.looks(even)
        diffusion = bounds.level_terms(self.denoiser, x0, eps, lams, process, width, condition)
        prior = bounds.prior_term(x0, process.level(low), process)
        terms = bounds.Terms(prior, diffusion.sum(axis=0), self.reconstruction(x0, high, for_clean))
        order = jnp.argsort(-lams, axis=0)
        lams, diffusion = (jnp.take_along_axis(part, order, axis=0).T for part in (lams, diffusion))
        return terms, BoundByLevel(lams, diffusion)

    def looks(self, even: Float[Array, "draws batch"]) -> tuple[Array, Array]:
        """Default: lam of levels that fill continuous time, and the width of lam for which each stands.

        Levels follow numbers that fill [0, 1] evenly; in continuous time they may be even in lam itself.
        """
        high, low = (jnp.asarray(lam, even.dtype) for lam in self.lams())
        return low + (high - low) * even, high - low

    def reconstruction(self, x0: Array, lam: Array, key: Key) -> Float[Array, " batch"]:
        """Cost of the data given their clean end, in nats: level by level, or that of a Gaussian."""
        clean = self.schedule.process.level(lam)
        if not self.schema.levels:
            return bounds.gaussian_reconstruction(x0, clean)
        z = noised(x0, jax.random.normal(key, x0.shape, x0.dtype), clean)
        index = jnp.rint((x0 + 1) / 2 * (self.schema.levels - 1)).astype(jnp.int32)
        values = jnp.linspace(-1, 1, self.schema.levels, dtype=x0.dtype)
        return bounds.level_reconstruction(z, index, values, clean)

    def bound(self, batch: Batch, key: Key) -> Bounded:
        """The bound and its parts and, with conditions, the bound given its own by the same noise.

        Examples with a class are drawn class first, and bounded so: log p(x) >= log p(class) + log p(x | class).
        """
        return self.bound_by_level(batch, key)[0]

    def bound_by_level(self, batch: Batch, key: Key) -> tuple[Bounded, BoundByLevel]:
        """The same, and what each of 16 noise levels adds to it."""
        nothing, by_level = self._looked_at(batch.x, key)
        parts, total = {"prior": nothing.prior, "diffusion": nothing.diffusion}, nothing.total
        given = {}
        if self.conditional and batch.y is not None:
            terms, by_level_given = self._looked_at(batch.x, key, batch.y)
            name = "class" if self.classes else "condition"
            given[name] = units.log_density(self.schema, terms.total)
            if self.classes:
                given["no_class"] = units.log_density(self.schema, total)
                cost = -jnp.log(jnp.asarray(self.config.shares(self.classes), total.dtype))[batch.y]
                parts = {"prior": terms.prior, "diffusion": terms.diffusion, "class": cost}
                total, by_level = terms.total + cost, by_level_given
        return Bounded(units.log_density(self.schema, total), parts, given), by_level

    def flow_likelihood(
        self, x: Array, key: Key, *, probes: int = 0, tolerance: float = 1e-4
    ) -> FlowLikelihood:
        """The likelihood by the probability flow; data with levels are noised to the cleanest one, and that counted."""
        return flow_likelihood(self, x, key, probes, tolerance)

    # ------------------------------------------------------------------ mechanisms

    @property
    def classes(self) -> int:
        """How many classes it can be conditioned on."""
        return self.denoiser.classes

    @property
    def conditional(self) -> bool:
        """Whether it takes conditions of any kind."""
        return self.denoiser.condition_encoder is not None

    def noised(self, x: Array, noise: Array, lam: Any) -> Array:
        """Examples in network units with this much noise."""
        return noised(x, noise, self.schedule.process.level(jnp.asarray(lam, x.dtype)))

    def denoised(self, noisy: Array, lam: Any, condition: Any = None) -> Array:
        """The estimate of the clean examples, in network units."""
        level = self.schedule.process.level(jnp.asarray(lam, noisy.dtype))
        return self.denoiser.value("x0", noisy, level, condition)

    def posterior_covariance(self, noisy: Array, lam: Any, condition: Any = None) -> Array:
        """The covariance of the clean examples given the noisy ones."""
        level = self.schedule.process.level(jnp.asarray(lam, noisy.dtype))
        return posterior_covariance(self.denoiser, noisy, level, condition)

    def token_attention(self, noisy: Array, lam: Any, condition: Array) -> Sequence[Array]:
        """How much every position takes from every token of its condition, for each layer that attends."""
        level = self.schedule.process.level(jnp.asarray(lam, noisy.dtype))
        return self.denoiser.attention_maps(noisy, level, condition)

    def in_view(self, x: Array, view: str) -> Array:
        """Images as they are seen in a view, which acts in network units: there the negative of black is white."""
        seen = views.view(view, self.schema.shape).apply(self.to_network_units(x))
        return self.to_model_units(seen)

    def trajectory(
        self, key: Key, n: int, *, condition: Any = None, steps: int = 50, guidance: float | None = None
    ) -> Trajectory:
        """`n` samples by DDIM with every step kept."""
        return trajectories.trajectory(self, key, n, condition, steps, guidance)

    def samplers(self) -> Mapping[str, bool]:
        """Default: all samplers that can start from the same noise, and whether each is deterministic."""
        return {name: sampler.deterministic for name, sampler in trajectories.compared().items()}

    def walk(self, noise: Array, sampler: str, evaluations: int, key: Key, condition: Any = None) -> Array:
        """The samples that a sampler makes of standard normal noise with so many evaluations, without guidance."""
        return trajectories.walk(self, noise, sampler, evaluations, key, condition)

    def invert(self, x: Array, steps: int, condition: Any = None) -> Array:
        """The standard normal noise behind examples in network units, by DDIM walked upwards."""
        return trajectories.invert(self, x, steps, condition)

    def regenerate(self, noise: Array, steps: int, condition: Any = None) -> Array:
        """The examples behind noise in network units, by DDIM."""
        return trajectories.regenerate(self, noise, steps, condition)

    # ------------------------------------------------------------------ pictures

    def own_pictures(self) -> Sequence[Picture]:
        """Default: nothing beyond what all models of the family show."""
        return ()

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Noise becoming data, the error at each noise level, the terms of the bound, and the score field of points."""
        return [*pictures.all_of(self, data, key), *self.own_pictures()]


__all__ = ["Generative"]
