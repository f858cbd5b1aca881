"""Langevin dynamics: random moves along the score of a distribution.

It needs a score that is right everywhere, and crosses gaps between modes only by luck.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key

_X = Float[Array, "batch ..."]


class Chains(NamedTuple):
    """States kept of every chain, and the share of proposed moves that were made."""

    states: Float[Array, "kept batch ..."]
    accepted: Float[Array, ""]


def langevin(score: Callable[[Array], Array], x: _X, size: float, steps: int, key: Key) -> _X:
    """`steps` moves x <- x + size score(x) + sqrt(2 size) noise of every chain in `x`.

    The size of a step is an error of its own: the variance of a standard normal variable comes out as 1/(1 - size/2).
    """
    return langevin_chains(score, x, size, key, kept=1, thin=steps).states[-1]


def langevin_chains(
    score: Callable[[Array], Array],
    x: _X,
    size: float,
    key: Key,
    *,
    kept: int,
    burn_in: int = 0,
    thin: int = 1,
    log_density: Callable[[Array], Array] | None = None,
) -> Chains:
    """`kept` states of every chain in `x`, `thin` moves apart, after `burn_in` moves that are forgotten.

    With `log_density`, whose gradient is the score, a move is made with the probability of Metropolis and Hastings and
    otherwise not at all; the chains then have the distribution itself, whatever the size (Roberts and Tweedie, 1996).
    """
    if not size > 0 or kept < 1 or burn_in < 0 or thin < 1:
        raise ArgumentError(
            f"langevin(size={size}, kept={kept}, burn_in={burn_in}, steps={thin}): "
            "all have to be positive, burn_in may be 0"
        )
    begin, walk = jax.random.split(key) if burn_in else (key, key)

    def several(x: Array, key: Key, count: int) -> tuple[Array, Array]:
        def move(x: Array, key: Key) -> tuple[Array, Array]:
            return _moved(score, log_density, x, size, key)

        x, made = jax.lax.scan(move, x, jax.random.split(key, count))
        return x, made.mean()

    if burn_in:
        x, _ = several(x, begin, burn_in)
    if kept == 1:
        x, made = several(x, walk, thin)
        return Chains(x[None], made)

    def keep(x: Array, key: Key) -> tuple[Array, tuple[Array, Array]]:
        x, made = several(x, key, thin)
        return x, (x, made)

    _, (states, made) = jax.lax.scan(keep, x, jax.random.split(walk, kept))
    return Chains(states, made.mean())


def _moved(
    score: Callable[[Array], Array],
    log_density: Callable[[Array], Array] | None,
    x: Array,
    size: float,
    key: Key,
) -> tuple[Array, Array]:
    """Every chain after one move, and the share of moves that were made."""
    draw, choose = jax.random.split(key) if log_density is not None else (key, key)
    noise = jax.random.normal(draw, x.shape, x.dtype)
    drift = x + size * score(x)
    new = drift + (2 * size) ** 0.5 * noise
    if log_density is None:
        return new, jnp.ones((), x.dtype)
    back = new + size * score(new)
    axes = tuple(range(1, x.ndim))
    ratio = log_density(new) - log_density(x)
    ratio = ratio + (jnp.square(new - drift) - jnp.square(x - back)).sum(axis=axes) / (4 * size)
    made = jnp.log(jax.random.uniform(choose, ratio.shape, x.dtype)) < ratio
    return jnp.where(made.reshape(-1, *(1,) * (x.ndim - 1)), new, x), made.mean(dtype=x.dtype)


__all__ = ["Chains", "langevin", "langevin_chains"]
