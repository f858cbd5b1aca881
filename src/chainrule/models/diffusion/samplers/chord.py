"""The velocity of the probability flow along the straight line between two noise levels.

With x = a x0 + s eps, the flow moves x by dx = x0 da + eps ds, x0 and eps being what is estimated on the way: any curve
from one pair (a, s) to the next may be followed. On a straight one the velocity is smooth down to no noise and, for
straight paths, as learned; levels off the process that a network knows are scaled to it.
"""

from collections.abc import Callable

import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.models.diffusion.denoiser import DenoiserEstimate
from chainrule.models.diffusion.process import Level, Process, bridge
from chainrule.models.diffusion.samplers.sampler import Estimator, Span

_LEAST = 1e-3
"""Noise at which the velocity at no noise is read, as little as schedules have."""


def velocity(span: Span, guess: DenoiserEstimate) -> Array:
    """dx over the whole step, from what is estimated at one of its points."""
    here, there = span.here, span.there
    return (there.a - here.a) * guess.x0 + (there.s - here.s) * guess.eps


def flow(estimate: Estimator, span: Span, process: Process) -> Callable[[Array, Array], Array]:
    """The velocity as a function of the share of the step that is done, from 0 to 1, and of x there."""
    here, there = span.here, span.there

    def slope(share: Array, x: Array) -> Array:
        a, s = (begin + share * (end - begin) for begin, end in zip(here, there, strict=True))
        return velocity(span, estimate(*bridge(x, Level(a, jnp.maximum(s, _LEAST)), process)))

    return slope


__all__ = ["flow", "velocity"]
