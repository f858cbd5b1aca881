"""Reverse-time SDE by Euler-Maruyama, with Langevin correctors (Song et al., 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.samplers.langevin import langevin_moves
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, to_sigma


@final
@dataclass(frozen=True)
class ReverseSDE(NamedSampler):
    """dy = (1 + noise²)/2 dsigma² score + noise dw, beside unit signal, from noise to data.

    `noise=1` is the reverse of the forward process, `noise=0` its probability flow. After each step, `corrections`
    Langevin moves. Their size, 2 (ratio sigma)², is what a ratio between the lengths of noise and score comes to where
    the score is that of the noise; measured lengths would make it depend on the noise it multiplies.
    """

    name: ClassVar[str] = "reverse-sde"
    spacing: ClassVar[str] = "uniform-lam"
    noise: Annotated[
        float, Field(ge=0, description="1: the reverse of the forward process, 0: its probability flow")
    ] = 1.0
    corrections: Annotated[int, Field(ge=0, description="Langevin moves after each step")] = 0
    ratio: Annotated[
        float, Field(gt=0, lt=1, description="of signal to noise in these moves: larger ones go farther")
    ] = 0.16

    @property
    def deterministic(self) -> bool:
        """Without noise and corrections."""
        return self.noise == 0 and self.corrections == 0

    def steps_within(self, evaluations: int) -> int:
        """One evaluation in every step, and one for each correction in all but the last."""
        return (evaluations + self.corrections) // (1 + self.corrections)

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
            if not self.corrections:
                return y
            noise = jnp.asarray(there.s) / there.a
            return langevin_moves(
                lambda y: estimate(there.a * y, there).eps,
                y,
                noise,
                2 * self.ratio**2,
                self.corrections,
                correct,
            )

        y = jax.lax.cond(there.s == 0, lambda y: guess.x0, go_on, y)
        return there.a * y, memory, guess.x0


__all__ = ["ReverseSDE"]
