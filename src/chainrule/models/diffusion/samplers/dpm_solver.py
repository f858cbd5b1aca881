"""DPM-Solver++(2M): second order with one estimate a step (Lu et al., 2022)."""

from dataclasses import dataclass
from typing import ClassVar, final

import jax.numpy as jnp

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span


@final
@dataclass(frozen=True)
class DPMSolver(NamedSampler):
    """Extrapolates the estimate of x0 over steps of log(a/s), which is half of lam.

    The first step, the step to no noise and, in walks of fewer than 15 steps, the last step are of first order (DDIM).
    """

    name: ClassVar[str] = "dpm-solver"
    spacing: ClassVar[str] = "uniform-lam"

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def start(self, x: Array) -> Tree:
        """The estimate before, and the length of the step it led to."""
        return jnp.zeros_like(x), jnp.ones((), x.dtype)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """One step of the multistep rule."""
        del key
        before, length_before = memory
        here, there = span.here, span.there
        guess = estimate(x, here).x0
        decay = jnp.asarray(there.s) / there.a * here.a / here.s
        length = -jnp.log(decay)
        short = (span.number == span.total - 1) & (span.total < 15)
        first_order = (span.number == 0) | (there.s == 0) | short
        ahead = jnp.where(first_order, 0.0, length / (2 * length_before)).astype(x.dtype)
        target = (1 + ahead) * guess - ahead * before
        return there.s / here.s * x + there.a * (1 - decay) * target, (guess, length), guess


__all__ = ["DPMSolver"]
