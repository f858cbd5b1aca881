"""DPM-Solver++(3M): third order with one estimate a step (Lu et al., 2022)."""

from dataclasses import dataclass
from typing import ClassVar, final

import jax.numpy as jnp

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, half_lam


@final
@dataclass(frozen=True)
class DPMSolver3M(NamedSampler):
    """The parabola through three estimates of x0 over log(a/s), integrated exactly.

    The first step, the step to no noise and, in walks of fewer than 15 steps, the last step are of first order (DDIM),
    the second and, in short walks, the last but one of second order.
    """

    name: ClassVar[str] = "dpm-solver-3m"
    spacing: ClassVar[str] = "uniform-lam"

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def start(self, x: Array) -> Tree:
        """The two estimates before, and the lengths of the steps they led to."""
        nothing, one = jnp.zeros_like(x), jnp.ones((), x.dtype)
        return nothing, nothing, one, one

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """One step of the multistep rule."""
        del key
        before, earlier, length_before, length_earlier = memory
        here, there = span.here, span.there
        guess = estimate(x, here).x0
        last = there.s == 0
        length = jnp.where(last, 1.0, half_lam(there) - half_lam(here))
        left = jnp.where(
            span.total < 15, span.total - 1 - span.number, 2
        )  # steps to come, where that matters
        order = jnp.where(last, 1, jnp.minimum(jnp.minimum(span.number, left) + 1, 3))
        # Divided differences of the estimate, in units of this step.
        near, far = length_before / length, length_earlier / length
        slope, slope_before = (guess - before) / near, (before - earlier) / far
        bend = jnp.where(order > 2, (slope - slope_before) / (near + far), 0).astype(x.dtype)
        slope = jnp.where(order > 1, slope, 0).astype(x.dtype) + near.astype(x.dtype) * bend
        decay = jnp.asarray(there.s) / there.a * here.a / here.s
        gone = jnp.expm1(-length)
        # Integrals of u and u² under the decay; half of the latter, as is often seen, makes it a second-order method.
        first, second = gone / length + 1, 1 - 2 * (gone + length) / length**2
        moved = there.s / here.s * x + there.a * ((1 - decay) * guess + first * slope + second * bend)
        return moved.astype(x.dtype), (guess, before, length.astype(x.dtype), length_before), guess


__all__ = ["DPMSolver3M"]
