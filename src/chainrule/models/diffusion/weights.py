"""Weights of the loss over noise levels.

Weights are functions of `lam` and of the rate `-dlam/dt` and multiply the squared error of eps; `targets.error_ratio`
turns them into weights on any other error.
"""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core.registry import Registry
from chainrule.core.types import Array
from chainrule.models.diffusion.targets import Target

Weight: TypeAlias = Callable[[Array, Array], Array]
"""From (lam, -dlam/dt) to the weight of the squared error of eps."""

weights: Registry[Weight] = Registry("weight")

FOLLOWS: dict[Target, str] = {
    "x0": "velocity",
    "eps": "simple",
    "score": "score",
    "v": "velocity",
    "u": "flow",
}
"""The weight that suits each target. 1 + 1/SNR is 1 on the error of v; on the error of eps it has no bound, and the few
noisiest levels would drown all others."""


@weights.register("simple")
def simple(lam: Array, rate: Array) -> Array:
    """1 on the error of eps (Ho et al., 2020)."""
    del rate
    return jnp.ones_like(lam)


@weights.register("score")
def score(lam: Array, rate: Array) -> Array:
    """s² on the error of the score, which is the same as `simple`."""
    return simple(lam, rate)


@weights.register("bound")
def bound(lam: Array, rate: Array) -> Array:
    """Half of -dlam/dt: with uniform times, the variational bound."""
    del lam
    return rate / 2


@weights.register("velocity")
def velocity(lam: Array, rate: Array) -> Array:
    """1 on the error of v in the variance preserving process: 1 + 1/SNR."""
    del rate
    return 1 + jnp.exp(-lam)


@weights.register("flow")
def flow(lam: Array, rate: Array) -> Array:
    """1 on the error of u, the velocity of the straight path (Liu et al., 2023): (1 + sigma)²."""
    del rate
    return jnp.square(1 + jnp.exp(-lam / 2))


@weights.register("min-snr")
def min_snr(lam: Array, rate: Array) -> Array:
    """min(SNR, 5)/SNR: clean levels, which are easy, count less (Hang et al., 2023)."""
    del rate
    return jnp.minimum(1.0, 5 * jnp.exp(-lam))


@weights.register("edm")
def edm(lam: Array, rate: Array) -> Array:
    """1 + sigma²/sd² with sd = 0.5, by log-normal noise levels (Karras et al., 2022), as a weight over `lam`.

    The original draws log sigma from N(-1.2, 1.2²); with other times, that density becomes part of the weight.
    """
    log_sigma = -lam / 2
    density = jax.scipy.stats.norm.pdf(log_sigma, -1.2, 1.2) / 2
    return density * rate * (1 + jnp.exp(-lam) / 0.25)


EVEN_IN_LAM: frozenset[Weight] = frozenset({bound})
"""Weights by the rate alone count every level alike, and training draws its levels so, evenly in lam: with even times,
levels that pass quickly would count a thousand times as much as others, and one example of a batch decide a step."""


__all__ = [
    "EVEN_IN_LAM",
    "FOLLOWS",
    "Weight",
    "bound",
    "edm",
    "flow",
    "min_snr",
    "score",
    "simple",
    "velocity",
    "weights",
]
