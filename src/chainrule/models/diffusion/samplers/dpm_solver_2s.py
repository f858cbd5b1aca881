"""DPM-Solver++(2S): second order with two estimates a step and nothing to remember (Lu et al., 2022)."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.process import Process, VarianceExploding
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, to_sigma


@final
@dataclass(frozen=True)
class DPMSolver2S(NamedSampler):
    """The estimate of x0 half of the way in log sigma serves for the whole step; a step to no noise is one of DDIM.

    Steps that remember nothing suit strong guidance, under which estimates change abruptly. The level between belongs
    to `process`, as the network knows it.
    """

    name: ClassVar[str] = "dpm-solver-2s"
    spacing: ClassVar[str] = "uniform-lam"
    process: Process = field(default_factory=VarianceExploding)

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def steps_within(self, evaluations: int) -> int:
        """Two evaluations in every step but the last."""
        return (evaluations + 1) // 2

    def for_process(self, process: Process) -> Self:
        """With the levels of the process the network knows."""
        return replace(self, process=process)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """To the middle by the first estimate, and all of the way by the second."""
        del key
        here, there = span.here, span.there
        guess = estimate(x, here).x0
        y, sigma = to_sigma(x, here)
        wanted = jnp.asarray(there.s) / there.a

        def by_the_middle(y: Array) -> Array:
            half = jnp.sqrt(sigma * wanted)
            middle = self.process.level(-2 * jnp.log(half))
            between = half / sigma * y + (1 - half / sigma) * guess
            better = estimate(middle.a * between, middle).x0
            return wanted / sigma * y + (1 - wanted / sigma) * better

        y = jax.lax.cond(there.s == 0, lambda _: guess, by_the_middle, y)
        return there.a * y, memory, guess


__all__ = ["DPMSolver2S"]
