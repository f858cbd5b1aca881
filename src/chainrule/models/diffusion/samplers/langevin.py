"""Langevin dynamics: a random walk that follows the score, at one level or down a ladder of levels.

At one level it needs a score that is right everywhere and crosses gaps between modes only by luck; on a ladder each
level starts from the one above it, where there are no gaps (Song and Ermon, 2019).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.models.diffusion.process import per_example
from chainrule.models.diffusion.samplers.base import Estimator, Sampler, Span, to_sigma

_X = Float[Array, "batch ..."]


class Chains(NamedTuple):
    """States kept of every chain, and the share of proposed moves that were made."""

    states: Float[Array, "kept batch ..."]
    accepted: Float[Array, ""]


def langevin(score: Callable[[Array], Array], x: _X, size: float, steps: int, key: Key) -> _X:
    """`steps` moves x <- x + size score(x) + sqrt(2 size) noise of every chain in `x`.

    The size of a step is an error of its own: for a standard normal law the variance comes out as 1/(1 - size/2).
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
    otherwise not at all; the chains then have the law itself, whatever the size (Roberts and Tweedie, 1996).
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
    return jnp.where(per_example(made, x), new, x), made.mean(dtype=x.dtype)


@final
@dataclass(frozen=True)
class AnnealedLangevin(Sampler):
    """`moves` Langevin moves of size `size` sigma² at every level, from the noisiest down, and a last denoising."""

    moves: int = 100
    size: float = 0.1

    def __post_init__(self) -> None:
        if self.moves < 1 or not self.size > 0:
            raise ArgumentError(f"AnnealedLangevin(moves={self.moves}, size={self.size}): both are positive")

    @property
    def deterministic(self) -> bool:
        """Never."""
        return False

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """The moves at one level; in front of no noise, the estimate of x0 after them."""
        here, there = span.here, span.there
        y, sigma = to_sigma(x, here)
        y = langevin_moves(lambda y: estimate(here.a * y, here).eps, y, sigma, self.size, self.moves, key)
        guess = estimate(here.a * y, here).x0
        return jnp.where(there.s == 0, guess, there.a * y), memory, guess


def langevin_moves(
    eps: Callable[[Array], Array], y: Array, sigma: Array, size: float, moves: int, key: Key
) -> Array:
    """Langevin moves beside unit signal, where the score is -eps/sigma and a move has size `size` sigma²."""

    def move(y: Array, key: Key) -> tuple[Array, None]:
        noise = jax.random.normal(key, y.shape, y.dtype)
        return y + sigma * ((2 * size) ** 0.5 * noise - size * eps(y)), None

    return jax.lax.scan(move, y, jax.random.split(key, moves))[0]


__all__ = ["AnnealedLangevin", "Chains", "langevin", "langevin_chains", "langevin_moves"]
