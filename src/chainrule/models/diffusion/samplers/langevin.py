"""Langevin dynamics: a random walk that follows the score, at one level or down a ladder of levels.

At one level it needs a score that is right everywhere and crosses gaps between modes only by luck; on a ladder each
level starts from the one above it, where there are no gaps (Song and Ermon, 2019).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.models.diffusion.samplers.base import Estimator, Sampler, Span, to_sigma

_X = Float[Array, "batch ..."]


def langevin(score: Callable[[Array], Array], x: _X, size: float, steps: int, key: Key) -> _X:
    """`steps` moves x <- x + size score(x) + sqrt(2 size) noise of every chain in `x`.

    The size of a step is an error of its own: for a standard normal law the variance comes out as 1/(1 - size/2).
    """
    if not size > 0 or steps < 1:
        raise ArgumentError(f"langevin(size={size}, steps={steps}): both have to be positive")

    def move(x: Array, key: Key) -> tuple[Array, None]:
        noise = jax.random.normal(key, x.shape, x.dtype)
        return x + size * score(x) + (2 * size) ** 0.5 * noise, None

    return jax.lax.scan(move, x, jax.random.split(key, steps))[0]


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


__all__ = ["AnnealedLangevin", "langevin", "langevin_moves"]
