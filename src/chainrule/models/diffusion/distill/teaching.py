"""What a student of half the steps is taught: the clean data by which one step of it ends where two of the teacher do.

(Salimans and Ho, 2022, arXiv:2202.00512.) Levels are steps of equal time down to no noise, so that half as many steps
visit every second of them.
"""

import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level, per_example
from chainrule.models.diffusion.trajectories import equal_steps, least_noise

_X = Float[Array, "batch ..."]


def step(denoiser: Denoiser, x: _X, here: Level, there: Level, condition: Array | None = None) -> _X:
    """One step of DDIM, with one pair of levels for each example."""
    guess = denoiser.estimate(x, here, condition)
    return per_example(there.a, x) * guess.x0 + per_example(there.s, x) * guess.eps


def lesson(
    teacher: Denoiser, x: _X, levels: tuple[Level, Level, Level], condition: Array | None = None
) -> _X:
    """The clean data x' with which a single step from the first level ends where two steps by the second do.

    That step is `a'' x' + s'' (x - a x') / s`, which is solved for x'.
    """
    here, between, there = levels
    middle = step(teacher, x, here, between, condition)
    end = step(teacher, middle, between, there, condition)
    kept = jnp.asarray(there.s) / here.s
    return (end - per_example(kept, x) * x) / per_example(there.a - kept * here.a, x)


def weight(level: Level) -> Array:
    """What a squared error of the clean data counts: the signal-to-noise ratio, but at least one."""
    return jnp.maximum(level.snr, 1.0)


__all__ = ["equal_steps", "least_noise", "lesson", "step", "weight"]
