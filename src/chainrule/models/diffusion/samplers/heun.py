"""Heun's method for the probability flow in sigma (Karras et al., 2022)."""

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self, final

import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.process import Level, Process, VarianceExploding
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, to_sigma

_MOST = math.sqrt(2) - 1
"""By this share a step may raise its noise: what it adds never exceeds what is there."""


@final
@dataclass(frozen=True)
class Heun(NamedSampler):
    """The mean of the slopes at both ends of the step; a step to no noise is one of DDIM.

    `churn` raises the noise before every step, by churn/steps of itself, with fresh noise that the step then takes away
    again: errors of earlier steps are forgotten. It is kept to noise between `churn_min` and `churn_max`, and the fresh
    noise is `churn_noise` times as large as it should be, against the loss of detail (S_churn, S_tmin, S_tmax and
    S_noise of the paper). The raised level belongs to `process`, as the network knows it.
    """

    name: ClassVar[str] = "heun"
    spacing: ClassVar[str] = "uniform-lam"
    churn: Annotated[
        float,
        Field(ge=0, allow_inf_nan=False, description="noise stirred in before every step, over all steps"),
    ] = 0.0
    churn_min: Annotated[float, Field(ge=0, description="least sigma at which noise is stirred in")] = 0.0
    churn_max: Annotated[
        float | None, Field(gt=0, description="most sigma at which noise is stirred in; none: any")
    ] = None
    churn_noise: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="size of that noise, over what it should be")
    ] = 1.0
    process: Process = field(default_factory=VarianceExploding)

    @property
    def deterministic(self) -> bool:
        """Without churn."""
        return self.churn == 0

    def steps_within(self, evaluations: int) -> int:
        """Two evaluations in every step but the last."""
        return (evaluations + 1) // 2

    def for_process(self, process: Process) -> Self:
        """With churn, which needs levels of the process the network knows."""
        return replace(self, process=process) if self.churn else self

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """A step by Euler's rule, and its correction; before them, the noise that is stirred in."""
        here, there = span.here, span.there
        if self.churn:
            x, here = self._stirred(x, span, key)
        guess = estimate(x, here)
        y, sigma = to_sigma(x, here)
        length = jnp.asarray(there.s) / there.a - sigma
        plain = y + length * guess.eps

        def corrected(plain: Array) -> Array:
            return y + length * (guess.eps + estimate(there.a * plain, there).eps) / 2

        y = jax.lax.cond(there.s == 0, lambda _: guess.x0, corrected, plain)
        return there.a * y, memory, guess.x0

    def _stirred(self, x: Array, span: Span, key: Key) -> tuple[Array, Level]:
        """x with more noise, and its level."""
        y, sigma = to_sigma(x, span.here)
        share = jnp.minimum(self.churn / span.total, _MOST).astype(x.dtype)
        most = jnp.inf if self.churn_max is None else self.churn_max
        share = jnp.where((sigma >= self.churn_min) & (sigma <= most), share, 0)
        added = self.churn_noise * sigma * jnp.sqrt((1 + share) ** 2 - 1)
        raised = self.process.level(-2 * jnp.log(sigma * (1 + share)))
        return raised.a * (y + added * jax.random.normal(key, x.shape, x.dtype)), raised


__all__ = ["Heun"]
