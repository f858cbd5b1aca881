"""Trajectories between noise and data: every step kept, all samplers, DDIM inversion."""

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion import inversion, samplers
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.steering.guidance import Guidance
from chainrule.models.protocol import Trajectory

if TYPE_CHECKING:
    from chainrule.models.diffusion.generative import Generative

_FEW = 10
"""Evaluations for which a sampler has to get by with more than one step to be compared at equal cost."""


def compared() -> dict[str, samplers.NamedSampler]:
    """Samplers that can be compared at equal numbers of evaluations: not those that spend hundreds at each level."""
    usual = {name: samplers.samplers[name]() for name in samplers.samplers}
    found = {name: sampler for name, sampler in usual.items() if sampler.steps_within(_FEW) > 1}
    return {**found, "ddim-eta-1": samplers.DDIM(1.0)}


def least_noise(model: "Generative", steps: int) -> float | None:
    """The noise s/a of the last level before none, in steps of equal time; nothing where it is the first as well."""
    if steps == 1:
        return None
    schedule, most = model.schedule, model.starting_noise()
    last = 1.0 if most is None else float(schedule.time(-2 * math.log(most)))
    time = last - (last - float(schedule.first)) * (steps - 1) / steps
    with jax.ensure_compile_time_eval():
        return math.exp(-float(np.asarray(schedule.lam(np.asarray(time)))) / 2)


def equal_steps(model: "Generative", steps: int) -> Level:
    """The levels of so many steps of equal time, noisiest first, none last."""
    return model.levels(steps, "uniform-t", sigma_min=least_noise(model, steps))


def trajectory(
    model: "Generative", key: Key, n: int, condition: Any, steps: int, guidance: float | None
) -> Trajectory:
    """`n` samples by DDIM, of one condition or, with classes and none named, of each class in turn."""
    if condition is None and model.classes:
        condition = np.arange(n, dtype=np.int32) % model.classes
    conditions = None if condition is None else model.conditions(condition, n)
    denoiser = Guidance(guidance=guidance).guided(model, conditions is not None)
    levels = model.levels(steps)
    start = _deviation(model, levels) * jax.random.normal(key, (n, *model.schema.shape))
    drawn = samplers.walk(
        denoiser, start, levels, samplers.DDIM(), key, condition=conditions, clip="static", trajectory=True
    )
    assert drawn.path is not None
    assert drawn.guesses is not None
    lams = np.asarray(levels.at(np.arange(steps)).lam)
    return Trajectory(jnp.concatenate([start[None], drawn.path]), drawn.guesses, lams)


def walk(
    model: "Generative",
    noise: Float[Array, "n ..."],
    sampler: str,
    evaluations: int,
    key: Key,
    condition: Any,
) -> Float[Array, "n ..."]:
    """Samples from standard normal noise, along the levels that `sample` takes with this sampler."""
    known = compared()
    check_choice("walk", "sampler", sampler, tuple(known))
    if evaluations < 1:
        raise ArgumentError(f"evaluations={evaluations}: a walk evaluates the network at least once")
    chosen = known[sampler].for_process(model.schedule.process)
    levels = model.levels(chosen.steps_within(evaluations), model.default_spacing or chosen.spacing)
    clip = "static" if model.unit else "none"
    start = jnp.asarray(model.schedule.process.prior_std(levels.at(0)), noise.dtype) * noise
    drawn = samplers.walk(model.denoiser, start, levels, chosen, key, condition=condition, clip=clip)
    return model.to_model_units(drawn.samples)


def invert(
    model: "Generative", x: Float[Array, "n ..."], steps: int, condition: Any
) -> Float[Array, "n ..."]:
    """The noise behind examples, by DDIM walked upwards."""
    levels = _noisy_levels(model, steps)
    noise = inversion.encode(model.denoiser, x, levels, samplers.DDIM(), condition)
    return noise / _deviation(model, levels)


def regenerate(
    model: "Generative", noise: Float[Array, "n ..."], steps: int, condition: Any
) -> Float[Array, "n ..."]:
    """The examples behind noise, by DDIM."""
    levels = _noisy_levels(model, steps)
    start = noise * _deviation(model, levels)
    return inversion.decode(model.denoiser, start, levels, samplers.DDIM(), condition)


def _noisy_levels(model: "Generative", steps: int) -> Level:
    return model.levels(steps, "uniform-lam", clean=False)


def _deviation(model: "Generative", levels: Level) -> Float[Array, ""]:
    """Standard deviation of the noise that a walk along these levels starts from."""
    return jnp.asarray(model.schedule.process.prior_std(levels.at(0)), jnp.float32)


__all__ = ["compared", "equal_steps", "invert", "least_noise", "regenerate", "trajectory", "walk"]
