"""What all diffusion models share once they have a denoiser and a schedule: samples, bounds, scores and pictures.

A model of this family says how it is trained; drawing from it, steering it and judging it are the same for all.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError, check_choice
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.diffusion import bounds, pictures, samplers, schedules, walks
from chainrule.models.diffusion.base import Denoiser
from chainrule.models.diffusion.guidance import guided
from chainrule.models.diffusion.likelihood import flow_likelihood
from chainrule.models.diffusion.networks.base import Network
from chainrule.models.diffusion.networks.conditions import ClassReader, TextReader
from chainrule.models.diffusion.process import noised
from chainrule.models.diffusion.steering import anagrams, asking, inpainting, variations, views
from chainrule.models.diffusion.steering.classifier import by_classifier
from chainrule.models.diffusion.tweedie import posterior_covariance
from chainrule.models.protocol import (
    Bounded,
    CanInvert,
    FlowLikelihood,
    HasBoundParts,
    HasFlowLikelihood,
    HasPictures,
    HasSamplers,
    HasTokenAttention,
    HasViews,
    Scored,
    Trajectory,
)
from chainrule.networks import units

_GUIDANCE = 2.0
"""For images, where looks count more than the law; points and rows are drawn from the law of their class."""
_BATCH = 2048
"""Samples drawn at a time."""
_SPACING = dict.fromkeys(("heun", "dpm-solver", "reverse-sde"), "uniform-lam")
"""Samplers that follow sigma closely need levels that are close in sigma; others take even times."""
_DRAWS = 16
"""Noise levels at which one example is looked at for one estimate of the bound.

They are spread evenly, so that their errors cancel: with a U-Net on the digits, 4 levels on four times as many images
would cost the same and give 1.3 times the standard error.
"""


class Generative(
    HasSamplers, CanInvert, HasFlowLikelihood, HasTokenAttention, HasViews, HasBoundParts, HasPictures
):
    """A denoiser, a schedule and the data they belong to."""

    denoiser: eqx.AbstractVar[Network]
    schema: eqx.AbstractVar[Schema]

    @property
    @abc.abstractmethod
    def schedule(self) -> schedules.Schedule:
        """The noise schedule."""

    @property
    @abc.abstractmethod
    def dropping(self) -> float:
        """Share of examples trained without their condition."""

    @property
    def usual(self) -> tuple[str, int]:
        """Default: DDIM in 50 steps, unless the user says otherwise."""
        return "ddim", 50

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
        return units.inside(self.schema, x)

    def to_model_units(self, x: Array) -> Array:
        """The inverse of `to_network_units`."""
        return units.outside(self.schema, x)

    def dropped(self, y: Any, key: Key) -> Any:
        """The conditions of a batch to train with, some replaced by nothing; none for a model without them."""
        reader = self.denoiser.reader
        return None if reader is None else reader.dropped(y, self.dropping, key)

    # ------------------------------------------------------------------ samples

    def sample(  # type: ignore[override]  # the options of this family, by name
        self,
        key: Key,
        n: int,
        *,
        condition: Any = None,
        sampler: str | None = None,
        steps: int | None = None,
        guidance: float | None = None,
        negative: Any = None,
        interval: Any = None,
        rescale: float = 0.0,
        classifier: Any = None,
        spacing: str | None = None,
        clip: str | None = None,
        eta: float | None = None,
        mu: float | None = None,
        g: Any = None,
        churn: float | None = None,
        variance: str | None = None,
        view: str | None = None,
        other: Any = None,
        inpaint: Any = None,
        method: str | None = None,
        start: Any = None,
        strength: float = 0.5,
        precision: str = "float32",
    ) -> Array:
        """`n` new examples, of one class, caption or other condition or one each; `guidance` heeds it more.

        `condition` is a class by name or number, a caption, or numbers in the units of the model. Guidance has a weight
        of 2 for images and 1 for everything else unless told; `negative` is a condition to lead away from,
        `interval=low,high` keeps guidance to noise levels between two values of lam, `rescale` (0 to 1) gives back the
        contrast it adds; a `classifier` of noisy data leads by its gradient instead. `sampler` is one of ddim,
        ddpm, sigma, gradient-estimation, heun, dpm-solver, langevin, reverse-sde; each model has its usual one. `eta`,
        `mu`, `g`, `churn` and `variance` (small, large, learned) are options of ddim, sigma, gradient-estimation, heun
        and ddpm; `spacing` of the levels is uniform-t, uniform-lam or karras. `clip` (none, static, dynamic) keeps
        estimates within the range of the data, static for images. `precision=bfloat16` is fast on GPUs.

        `view` (rotate(180), transpose, ...) and `other`, a class, make images that are `condition` as they stand and
        `other` in that view. `inpaint` fills in what is missing: a file with arrays `known` and `mask` (true where
        known), or that pair; `method` is replace, repaint or posterior. `start` makes variations of examples (a file
        with `samples`, or an array), noised to `strength` and denoised again. Files are in the units of the data, as
        `chainrule sample` writes them; arrays in those of the model.
        """
        options = {"eta": eta, "mu": mu, "g": g, "churn": churn, "variance": variance}
        options["process"] = None if churn is None else self.schedule.process
        own = self.computing_in(precision)
        name, count = self.usual
        name = sampler or name
        chosen = samplers.sampler(name, **{k: v for k, v in options.items() if v is not None})
        spacing = _SPACING.get(name, "uniform-t") if spacing is None else spacing
        levels = schedules.grid(self.schedule, count if steps is None else steps, spacing)
        if classifier is None:
            classes = None if condition is None else self.conditions(condition, n)
            denoiser = own.steered(guidance, classes is not None, negative, interval, rescale)
        else:
            denoiser, classes = own._led(classifier, guidance, condition, n)
        if view is not None or other is not None:
            second = None if other is None else self.conditions(other, n)
            denoiser, classes = anagrams.anagram(denoiser, self.schema, view, classes, second)
        plan = variations.plan(self, start, strength, levels, n)
        chosen, denoiser = inpainting.apply(self, chosen, denoiser, inpaint, method)
        clip = ("static" if self.unit else "none") if clip is None else clip
        parts = -(-n // _BATCH)
        size = -(-n // parts)
        found = []
        for part in range(parts):
            begin, walk = jax.random.split(jax.random.fold_in(key, part))
            x = plan.begin(begin, part * size, size)
            mine = (
                None if classes is None else _cycled(classes, part * size, size, axis=int(view is not None))
            )
            drawn = samplers.walk(denoiser, x, plan.levels, chosen, walk, condition=mine, clip=clip)
            found.append(self.to_model_units(drawn.samples))
        return jnp.concatenate(found)[:n]

    def computing_in(self, precision: str) -> Self:
        """The same model with a network that computes in float32 or bfloat16."""
        check_choice("sample", "precision", precision, ("float32", "bfloat16"))
        if precision == "float32":
            return self
        return eqx.tree_at(lambda model: model.denoiser, self, tree.lowered(self.denoiser))

    def steered(
        self, guidance: float | None, conditional: bool, negative: Any, interval: Any, rescale: float
    ) -> Denoiser:
        """The denoiser under guidance."""
        if not conditional:
            for name, value in (("guidance", guidance), ("negative", negative), ("interval", interval)):
                if value is not None:
                    raise CapabilityError(
                        f"{name}={value} leads towards a condition", remedy="name one: class=, text= or y="
                    )
            return self.denoiser
        if guidance not in (None, 1) and not self.dropping:
            raise CapabilityError(
                f"guidance={guidance}: the model was trained without dropping conditions",
                remedy="use guidance=1, or train with dropping=0.1",
            )
        if guidance is None:
            guidance = _GUIDANCE if self.dropping and kinds.of(self.schema).spatial else 1.0
        away = None if negative is None else self.conditions(negative, 1)[0]
        return guided(self.denoiser, guidance, interval=_pair(interval), negative=away, rescale=rescale)

    def _led(self, classifier: Any, guidance: float | None, condition: Any, n: int) -> tuple[Denoiser, Array]:
        """The denoiser under guidance by a classifier, and the classes it leads to."""
        if condition is None:
            raise CapabilityError("a classifier leads towards a class", remedy="name one: class=")
        weight = 1.0 if guidance is None else guidance
        return by_classifier(self.denoiser, classifier, weight, self.schema), asking.class_numbers(
            self.schema, condition, n
        )

    def conditions(self, condition: Any, n: int) -> Array:
        """The conditions of `n` examples: one class, caption, vector or picture for all, or one for each."""
        reader = self.denoiser.reader
        if reader is None:
            raise CapabilityError(
                "the model draws from all of the data together: it was trained without classes or other conditions",
                remedy="leave class= (text=, y=) out",
            )
        if isinstance(reader, ClassReader):
            return asking.class_numbers(self.schema, condition, n)
        if isinstance(reader, TextReader):
            return asking.texts(self.schema, condition, n)
        return asking.values(reader, self.schema, condition, n)

    # ------------------------------------------------------------------ likelihood

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """A lower bound of log p(x), whatever the class, from 16 noise levels for each example."""
        return units.log_density(self.schema, self.terms(x, key).total)

    def terms(self, x: Array, key: Key, condition: Any = None) -> bounds.Terms:
        """The three parts of the bound for each example, in nats."""
        x0, process = self.to_network_units(x), self.schedule.process
        for_clean, for_levels, for_noise = jax.random.split(key, 3)
        high, low = (jnp.asarray(lam, x0.dtype) for lam in self.lams())
        even = jnp.arange(_DRAWS, dtype=x0.dtype)[:, None] / _DRAWS
        even = (even + jax.random.uniform(for_levels, (1, len(x0)), x0.dtype)) % 1
        eps = jax.random.normal(for_noise, (_DRAWS, *x0.shape), x0.dtype)
        diffusion = bounds.continuous_term(
            self.denoiser, x0, eps, low + (high - low) * even, process, high - low, condition
        )
        prior = bounds.prior_term(x0, process.level(low), process)
        return bounds.Terms(prior, diffusion, self.reconstruction(x0, high, for_clean))

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
        """The bound and its parts and, with conditions, the bound given its own by the same noise."""
        scale = self.schema.dimensions * math.log(2) if self.schema.levels else 1.0
        unit = "bits/dim" if self.schema.levels else "nats"
        terms = self.terms(batch.x, key)
        found = {f"bound_{name}": Scored(term / scale, unit) for name, term in terms._asdict().items()}
        if self.denoiser.reader is not None:
            given = self.terms(batch.x, key, batch.y).total
            name = "bound_given_class" if self.denoiser.classes else "bound_given_condition"
            found[name] = Scored(given / scale, unit)
        return Bounded(units.log_density(self.schema, terms.total), found)

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
        return self.denoiser.reader is not None

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
        return self.denoiser.looks(noisy, level, condition)

    def in_view(self, x: Array, view: str) -> Array:
        """Images as they are seen in a view, which acts in network units: there the negative of black is white."""
        seen = views.view(view, self.schema.shape).apply(self.to_network_units(x))
        return self.to_model_units(seen)

    def trajectory(
        self, key: Key, n: int, *, condition: Any = None, steps: int = 50, guidance: float | None = None
    ) -> Trajectory:
        """`n` samples by DDIM with every step kept."""
        return walks.trajectory(self, key, n, condition, steps, guidance)

    def samplers(self) -> Mapping[str, bool]:
        """Samplers that can start from the same noise, and whether each is deterministic."""
        return {name: sampler.deterministic for name, sampler in walks.SAMPLERS.items()}

    def walk(self, noise: Array, sampler: str, evaluations: int, key: Key, condition: Any = None) -> Array:
        """The samples that a sampler makes of standard normal noise with so many evaluations, without guidance."""
        return walks.walk(self, noise, sampler, evaluations, key, condition)

    def invert(self, x: Array, steps: int, condition: Any = None) -> Array:
        """The standard normal noise behind examples in network units, by DDIM walked upwards."""
        return walks.invert(self, x, steps, condition)

    def regenerate(self, noise: Array, steps: int, condition: Any = None) -> Array:
        """The examples behind noise in network units, by DDIM."""
        return walks.regenerate(self, noise, steps, condition)

    # ------------------------------------------------------------------ pictures

    def own_pictures(self) -> Sequence[Picture]:
        """Default: nothing beyond what all models of the family show."""
        return ()

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Noise becoming data, the error at each noise level, the terms of the bound, and the score field of points."""
        return [*pictures.all_of(self, data, key), *self.own_pictures()]


def _cycled(values: Array, first: int, count: int, axis: int) -> Array:
    """`count` conditions from the `first` on, along the axis of the examples; past the end, from the start again."""
    return jnp.take(values, jnp.arange(first, first + count), axis=axis, mode="wrap")


def _pair(interval: Any) -> tuple[float, float] | None:
    if interval is None:
        return None
    given = np.asarray(interval)
    if given.shape != (2,) or given.dtype.kind not in "iuf" or not given[0] < given[1]:
        raise ArgumentError(f"interval={interval}: two values of lam, the lower one first")
    return float(given[0]), float(given[1])


__all__ = ["Generative"]
