"""Annealed Langevin dynamics: random moves along the score, from the noisiest level down (Song and Ermon, 2019).

Each level starts from the one above it, where there are no gaps between modes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, to_sigma


@final
@dataclass(frozen=True)
class AnnealedLangevin(NamedSampler):
    """`moves` Langevin moves of size `size` sigma² at every level, from the noisiest down, and a last denoising."""

    name: ClassVar[str] = "langevin"
    moves: Annotated[int, Field(ge=1, description="moves at every level")] = 100
    size: Annotated[float, Field(gt=0, description="of a move, over the variance of the noise")] = 0.1

    @property
    def deterministic(self) -> bool:
        """Never."""
        return False

    def steps_within(self, evaluations: int) -> int:
        """One evaluation for each move, and one for the estimate."""
        return max(1, evaluations // (self.moves + 1))

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


__all__ = ["AnnealedLangevin", "langevin_moves"]
