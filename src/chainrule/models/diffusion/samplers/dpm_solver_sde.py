"""SDE-DPM-Solver++(2M): the reverse-time SDE in second order with one estimate a step (Lu et al., 2022)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, half_lam


@final
@dataclass(frozen=True)
class DPMSolverSDE(NamedSampler):
    """Extrapolates the estimate of x0 as `dpm-solver` does, and replaces part of the noise in every step.

    `eta=1` is the reverse-time SDE, `eta=0` the flow, which is `dpm-solver` without its short last step. The first step
    and the step to no noise are of first order.
    """

    name: ClassVar[str] = "dpm-solver-sde"
    spacing: ClassVar[str] = "uniform-lam"
    eta: Annotated[float, Field(ge=0, description="noise of a step: 0 none, 1 that of the reverse SDE")] = 1.0

    @property
    def deterministic(self) -> bool:
        """Without noise."""
        return self.eta == 0

    def start(self, x: Array) -> Tree:
        """The estimate before, and the length of the step it led to."""
        return jnp.zeros_like(x), jnp.ones((), x.dtype)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """One step of the multistep rule, and its noise."""
        before, length_before = memory
        here, there = span.here, span.there
        guess = estimate(x, here).x0
        last = there.s == 0
        length = jnp.where(last, 1.0, half_lam(there) - half_lam(here))
        first_order = (span.number == 0) | last
        ahead = jnp.where(first_order, 0.0, length / (2 * length_before)).astype(x.dtype)
        target = (1 + ahead) * guess - ahead * before
        kept = jnp.exp(-self.eta * length)
        decay = jnp.where(last, 0.0, jnp.exp(-length) * kept)
        moved = there.s / here.s * kept * x + there.a * (1 - decay) * target
        if self.eta:
            fresh = there.s * jnp.sqrt(-jnp.expm1(-2 * self.eta * length))
            moved = moved + fresh * jax.random.normal(key, x.shape, x.dtype)
        return moved.astype(x.dtype), (guess, length.astype(x.dtype)), guess


__all__ = ["DPMSolverSDE"]
