"""Posterior of a step of the forward process: x at a cleaner level, given x here and the clean data.

q(x'|x, x0) is Gaussian for any two levels, neighbours or not. The reverse model puts an estimate in place of x0; its
mean has three equal forms, by x0, eps and score.
"""

import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.process import Level, gap, per_example

_X = Float[Array, "batch ..."]


def posterior(x: _X, x0: _X, here: Level, there: Level) -> tuple[_X, Array]:
    """Mean and variance of x at level `there`, given x at the noisier level `here` and the clean data."""
    k = jnp.asarray(here.a) / there.a
    added, noise, less = gap(here, there), jnp.square(here.s), jnp.square(there.s)
    mean = per_example(k * less / noise, x) * x + per_example(there.a * added / noise, x) * x0
    return mean, added * less / noise


def mean_from_eps(x: _X, eps: _X, here: Level, there: Level) -> _X:
    """The same mean from the estimated noise: (x - (gap/s) eps)/k."""
    k = jnp.asarray(here.a) / there.a
    return (x - per_example(gap(here, there) / here.s, x) * eps) / per_example(k, x)


def mean_from_score(x: _X, score: _X, here: Level, there: Level) -> _X:
    """The same mean from the estimated score: (x + gap score)/k."""
    k = jnp.asarray(here.a) / there.a
    return (x + per_example(gap(here, there), x) * score) / per_example(k, x)


__all__ = ["mean_from_eps", "mean_from_score", "posterior"]
