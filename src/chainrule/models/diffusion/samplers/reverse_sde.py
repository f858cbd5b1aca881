"""The reverse stochastic differential equation by Euler and Maruyama, with Langevin correctors (Song et al., 2021)."""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.process import Level, per_example
from chainrule.models.diffusion.samplers.base import Estimator, Sampler, Span, to_sigma


@final
@dataclass(frozen=True)
class ReverseSDE(Sampler):
    """dy = (1 + noise²)/2 dsigma² score + noise dw, beside unit signal, from noise to data.

    `noise=1` is the reverse of the forward process, `noise=0` its probability flow. After each step, `corrections`
    Langevin moves whose size follows from the ratio 0.16 between the lengths of noise and score.
    """

    noise: float = 1.0
    corrections: int = 0

    def __post_init__(self) -> None:
        if not self.noise >= 0 or self.corrections < 0:
            raise ArgumentError(
                f"ReverseSDE(noise={self.noise}, corrections={self.corrections}): neither can be negative"
            )

    @property
    def deterministic(self) -> bool:
        """Without noise and corrections."""
        return self.noise == 0 and self.corrections == 0

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """A predictor step, and its corrections; a step to no noise is the estimate itself."""
        here, there = span.here, span.there
        guess = estimate(x, here)
        y, sigma = to_sigma(x, here)
        lost = jnp.square(sigma) - jnp.square(jnp.asarray(there.s) / there.a)
        draw, correct = jax.random.split(key)
        spread = self.noise * jnp.sqrt(jnp.maximum(lost, 0))
        y = y - (1 + self.noise**2) / 2 * lost / sigma * guess.eps
        y = y + spread * jax.random.normal(draw, x.shape, x.dtype)

        def go_on(y: Array) -> Array:
            return _correct(estimate, y, there, self.corrections, correct)

        y = jax.lax.cond(there.s == 0, lambda y: guess.x0, go_on, y)
        return there.a * y, memory, guess.x0


def _correct(estimate: Estimator, y: Array, level: Level, count: int, key: Key) -> Array:
    sigma = jnp.asarray(level.s) / level.a
    axes = tuple(range(1, y.ndim))
    for index in range(count):
        z = jax.random.normal(jax.random.fold_in(key, index), y.shape, y.dtype)
        score = -estimate(level.a * y, level).eps / sigma
        ratio = jnp.square(z).sum(axis=axes) / jnp.square(score).sum(axis=axes)
        size = per_example(2 * 0.16**2 * ratio, y)
        y = y + size * score + jnp.sqrt(2 * size) * z
    return y


__all__ = ["ReverseSDE"]
