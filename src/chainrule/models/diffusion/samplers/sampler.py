"""The loop all samplers share: compiled, over noise levels, from any start, by any denoiser.

A sampler is only its step from one level to the next. The engine estimates (with clipping), walks, keeps the trajectory
on request, and stops with an explanation when a value is not finite. The number of steps is data: one program serves
walks of every length.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeAlias, get_origin, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic

from chainrule.core.errors import DivergedError, check_choice
from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.models.diffusion.denoiser import Denoiser, DenoiserEstimate
from chainrule.models.diffusion.process import Level, Process, per_example
from chainrule.models.protocol import SampleOptions, check_options

CLIPS = ("none", "static", "dynamic")
_ROOM = 1024
"""Levels that a program has room for; the ones a walk does not need are never looked at. More come in multiples."""
_X = Float[Array, "batch ..."]
Estimator: TypeAlias = Callable[[Array, Level], DenoiserEstimate]


class Span(NamedTuple):
    """One step of a sampler: from the level it stands at to the next."""

    here: Level
    there: Level
    number: Int[Array, ""]
    total: Int[Array, ""]
    """Number of steps of the whole walk."""


class Drawn(NamedTuple):
    """Samples and, on request, what happened on the way: x after each step and the estimate of x0 before it."""

    samples: Array
    path: Array | None = None
    guesses: Array | None = None


class Sampler(abc.ABC):
    """A way of stepping from one noise level to the next."""

    @property
    @abc.abstractmethod
    def deterministic(self) -> bool:
        """Whether a step adds no noise, so that it can be walked backwards."""

    @abc.abstractmethod
    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """x at the next level, what the sampler wants to remember, and the estimate of x0 it used."""

    def start(self, x: Array) -> Tree:
        """Default: nothing to remember before the first step."""
        del x
        return ()

    def check(self, levels: Level) -> None:
        """Default: every grid of levels will do."""
        del levels


class NamedSampler(Sampler):
    """A sampler that users choose by its name: a frozen dataclass in a file of its own.

    Its fields are its options: `eta: Annotated[float, Field(ge=0, description="...")] = 0.0`. They are checked when it
    is made, and the command line and `sample` read them from here. Fields without `Annotated` are no options.
    """

    name: ClassVar[str]
    spacing: ClassVar[str] = "uniform-t"
    """Of the levels, unless the user says otherwise; samplers that follow sigma closely need levels close in sigma."""

    @classmethod
    def summary(cls) -> str:
        """The first sentence of its docstring."""
        return (cls.__doc__ or "").partition("\n")[0].replace("`", "")

    def __post_init__(self) -> None:
        """Raise unless the options are within their ranges."""
        given = {name: getattr(self, name) for name in options_of(type(self)).model_fields}
        for name, value in check_options(options_of(type(self)), given).model_dump().items():
            object.__setattr__(self, name, value)

    def steps_within(self, evaluations: int) -> int:
        """Default: as many steps as evaluations of the network, one for each."""
        return evaluations

    def for_process(self, process: Process) -> Self:
        """Default: the same sampler, whatever the process."""
        del process
        return self


@functools.cache
def options_of(sampler: type[NamedSampler]) -> type[SampleOptions]:
    """The options of a sampler as a schema.

    >>> from chainrule.models.diffusion.samplers import DDIM
    >>> list(options_of(DDIM).model_fields)
    ['eta']
    """
    hints = get_type_hints(sampler, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], field.default)
        for field in dataclasses.fields(sampler)  # type: ignore[arg-type]  # every named sampler is a dataclass
        if get_origin(hints[field.name]) is Annotated
    }
    return pydantic.create_model(sampler.__name__, __base__=SampleOptions, **fields)


class Transition(NamedSampler):
    """A sampler whose step is a Gaussian with a mean and a standard deviation in closed form."""

    @abc.abstractmethod
    def moments(self, x: Array, guess: DenoiserEstimate, here: Level, there: Level) -> tuple[Array, Array]:
        """Mean and standard deviation of x at the next level."""

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """The mean plus standard deviation times noise; no noise is drawn where there is none."""
        guess = estimate(x, span.here)
        mean, std = self.moments(x, guess, span.here, span.there)
        if not self.deterministic:
            mean = mean + std * jax.random.normal(key, x.shape, x.dtype)
        return mean, memory, guess.x0


def walk(
    denoiser: Denoiser,
    x: _X,
    levels: Level,
    sampler: Sampler,
    key: Key,
    *,
    condition: Any = None,
    clip: str = "none",
    trajectory: bool = False,
) -> Drawn:
    """Walk from `x`, at the first of `levels`, to the last, with one sampler.

    `clip="static"` keeps estimates of x0 within [-1, 1]; `"dynamic"` within the 99.5 % quantile of each example, scaled
    back to [-1, 1] (Saharia et al., 2022). The same key gives the same bits. Gradients in reverse mode need
    `trajectory=True`, whose loop has a length that is known beforehand.
    """
    check_choice("walk", "clip", clip, CLIPS)
    sampler.check(levels)
    total = len(levels.a) - 1
    spare = 0 if trajectory else -len(levels.a) % _ROOM
    given = Level(*(jnp.pad(jnp.asarray(part, x.dtype), (0, spare), mode="edge") for part in levels))
    drawn, step, sample = _compiled(
        denoiser, x, given, jnp.asarray(total), sampler, key, condition, clip, trajectory
    )
    if not isinstance(step, jax.core.Tracer) and int(step) >= 0:
        lam = float(Level(*levels).at(int(step)).lam)
        raise DivergedError(
            f"sampling met a value that is not finite at step {int(step) + 1} (lam={lam:.3g}), "
            f"sample {int(sample)} first",
            remedy='use more steps, less guidance, or clip="static"',
        )
    return drawn


@eqx.filter_jit
def _compiled(
    denoiser: Denoiser,
    x: Array,
    levels: Level,
    total: Int[Array, ""],
    sampler: Sampler,
    key: Key,
    condition: Any,
    clip: str,
    trajectory: bool,
) -> tuple[Drawn, Array, Array]:

    def estimate(x: Array, level: Level) -> DenoiserEstimate:
        return _clipped(denoiser.estimate(x, level, condition), x, level, clip)

    def body(carry: tuple[Array, Tree, Array, Array], index: Array) -> tuple[Any, Any]:
        x, memory, bad_step, bad_sample = carry
        span = Span(levels.at(index), levels.at(index + 1), index, total)
        moved, memory, guess = sampler.step(estimate, x, memory, span, jax.random.fold_in(key, index))
        broken = ~jnp.isfinite(moved).all(axis=tuple(range(1, x.ndim)))
        new = broken.any() & (bad_step < 0)
        bad_step = jnp.where(new, index, bad_step)
        bad_sample = jnp.where(new, jnp.argmax(broken), bad_sample)
        kept = (moved, guess) if trajectory else None
        return (moved.astype(x.dtype), memory, bad_step, bad_sample), kept

    nowhere = jnp.full((), -1)
    start = (x, sampler.start(x), nowhere, nowhere)
    if trajectory:  # as long as the levels that were given
        (x, _, step, sample), kept = jax.lax.scan(body, start, jnp.arange(len(levels.a) - 1))
        return Drawn(x, *kept), step, sample
    x, _, step, sample = jax.lax.fori_loop(0, total, lambda index, carry: body(carry, index)[0], start)
    return Drawn(x), step, sample


def _clipped(guess: DenoiserEstimate, x: Array, level: Level, clip: str) -> DenoiserEstimate:
    if clip == "none":
        return guess
    x0 = guess.x0
    if clip == "dynamic":
        size = jnp.quantile(jnp.abs(x0).reshape(len(x0), -1), 0.995, axis=1)
        limit = per_example(jnp.maximum(size, 1.0), x0)
        x0 = x0 / limit
    x0 = jnp.clip(x0, -1, 1)
    return guess._replace(x0=x0, eps=(x - per_example(level.a, x) * x0) / per_example(level.s, x))


def half_lam(level: Level) -> Array:
    """log(a/s): the time in which estimates of x0 change smoothly, half of lam."""
    return jnp.log(level.a) - jnp.log(level.s)


def to_sigma(x: Array, level: Level) -> tuple[Array, Array]:
    """x beside unit signal, and its noise: where the flow is dy/dsigma = eps, whatever the process."""
    return x / level.a, jnp.asarray(level.s) / level.a


__all__ = [
    "CLIPS",
    "Drawn",
    "Estimator",
    "NamedSampler",
    "Sampler",
    "Span",
    "Transition",
    "half_lam",
    "options_of",
    "to_sigma",
    "walk",
]
