"""Advantages: how much better an action turned out than the value of the state it was taken in.

All functions take time as the first axis, and any further axes (worlds side by side). Two flags end an episode and stay
apart: after `terminated` nothing follows, so that nothing is bootstrapped; where it was `truncated` the value of the
last observation stands for the rest. `next_values` are therefore values of what followed each step, also where the next
row belongs to another episode.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, ArrayLike, Float

_UNROLLED = 16
"""Steps of a backward recursion in one turn of its loop: a turn costs more than the arithmetic of a step."""


def temporal_differences(
    rewards: Float[Array, "time *worlds"],
    values: Float[Array, "time *worlds"],
    next_values: Float[Array, "time *worlds"],
    terminated: Bool[Array, "time *worlds"],
    gamma: ArrayLike,
) -> Float[Array, "time *worlds"]:
    """`r + gamma v(s') - v(s)`, without `v(s')` where the episode is over for good."""
    return rewards + gamma * jnp.where(terminated, 0, next_values) - values


def generalised_advantages(
    differences: Float[Array, "time *worlds"],
    over: Bool[Array, "time *worlds"],
    gamma: ArrayLike,
    decay: ArrayLike,
) -> Float[Array, "time *worlds"]:
    """`A_t = sum_l (gamma decay)^l delta_{t+l}` within each episode (Schulman et al., 2016); `over` ends one.

    A `decay` of 0 gives the differences themselves, one of 1 returns less values.

    >>> delta = jnp.array([0.86, -0.13, 1.88])
    >>> print(*(f"{a:.4f}" for a in generalised_advantages(delta, jnp.zeros(3, bool), 0.9, 0.8)))
    1.7410 1.2236 1.8800
    """
    return discounted_sums(differences, over, gamma * decay)


def discounted_sums(
    terms: Float[Array, "time *worlds"], over: Bool[Array, "time *worlds"], factor: ArrayLike
) -> Float[Array, "time *worlds"]:
    """`S_t = x_t + factor S_{t+1}`, begun anew after every end: returns where the terms are rewards.

    >>> discounted_sums(jnp.ones(3), jnp.array([False, True, False]), 0.5).tolist()
    [1.5, 1.0, 1.0]
    """
    kept = jnp.where(over, 0, jnp.asarray(factor, terms.dtype))

    def backward(after: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        term, keep = step
        total = term + keep * after
        return total, total

    start = jnp.zeros_like(terms[0])
    return jax.lax.scan(backward, start, (terms, kept), reverse=True, unroll=_UNROLLED)[1]


def explained_variance(
    values: Float[Array, "..."], targets: Float[Array, "..."], among: Bool[Array, "..."] | None = None
) -> Float[Array, ""]:
    """The share of the targets' variance that the values explain: 1 for all, 0 for none, below 0 for harm.

    Only entries that are `among` those that count, where it is given.
    """
    spread = jnp.var(targets, where=among)
    left = jnp.var(targets - values, where=among)
    return jnp.where(spread > 0, 1 - left / jnp.where(spread > 0, spread, 1), jnp.nan)


def normalised(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """Mean zero and standard deviation one, over all entries."""
    return (x - x.mean()) / (x.std() + 1e-8)


__all__ = [
    "discounted_sums",
    "explained_variance",
    "generalised_advantages",
    "normalised",
    "temporal_differences",
]
