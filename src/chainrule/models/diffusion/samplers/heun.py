"""Heun's method for the flow in sigma: two estimates a step, second order (Karras et al., 2022)."""

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.samplers.base import Estimator, Sampler, Span, to_sigma


@final
@dataclass(frozen=True)
class Heun(Sampler):
    """The mean of the slopes at both ends of the step; a step to no noise is one of DDIM."""

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """A step by Euler's rule, and its correction."""
        del key
        there = span.there
        guess = estimate(x, span.here)
        y, sigma = to_sigma(x, span.here)
        length = jnp.asarray(there.s) / there.a - sigma
        plain = y + length * guess.eps

        def corrected(plain: Array) -> Array:
            return y + length * (guess.eps + estimate(there.a * plain, there).eps) / 2

        y = jax.lax.cond(there.s == 0, lambda _: guess.x0, corrected, plain)
        return there.a * y, memory, guess.x0


__all__ = ["Heun"]
