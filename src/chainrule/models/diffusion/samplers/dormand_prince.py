"""Adaptive integration of the probability flow along straight lines between noise levels (Dormand and Prince, 1980)."""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.process import Process, VariancePreserving
from chainrule.models.diffusion.samplers.chord import flow
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span
from chainrule.nn.ode import dormand_prince

_MOST = 1000
"""Parts that one step is cut into at most."""


@final
@dataclass(frozen=True)
class DormandPrince(NamedSampler):
    """Cuts every step into as many as keep all entries of all samples to a tolerance.

    The network is evaluated as often as it takes, however many steps are asked for.
    """

    name: ClassVar[str] = "dormand-prince"
    tolerance: Annotated[
        float,
        Field(gt=0, lt=1, description="error that a part of a step may make, beside entries of unit size"),
    ] = 1e-3
    process: Process = field(default_factory=VariancePreserving)

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def steps_within(self, evaluations: int) -> int:
        """One, which takes as many evaluations as it needs."""
        del evaluations
        return 1

    def for_process(self, process: Process) -> Self:
        """With the levels of the process the network knows."""
        return replace(self, process=process)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """The end of the step; what does not get there is not a number, which the walk reports."""
        del key
        begin, end = jnp.zeros((), x.dtype), jnp.ones((), x.dtype)
        found = dormand_prince(
            flow(estimate, span, self.process),
            x,
            begin,
            end,
            rtol=self.tolerance,
            atol=self.tolerance,
            most=_MOST,
        )
        return jnp.where(found.reached, found.y, jnp.nan), memory, estimate(x, span.here).x0


__all__ = ["DormandPrince"]
