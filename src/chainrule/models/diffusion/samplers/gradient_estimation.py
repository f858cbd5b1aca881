"""Gradient estimation: DDIM with a second-order extrapolation of the noise (Permenter and Yuan, 2024)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Tree
from chainrule.models.diffusion.samplers.sampler import Estimator, NamedSampler, Span, to_sigma


@final
@dataclass(frozen=True)
class GradientEstimation(NamedSampler):
    """Steps along `g eps + (1 - g) eps_before`.

    With `g=2` the method is of first order like DDIM, and better with few steps and imperfect networks; `g=1.5` (on
    smooth grids) and `g="ab2"` (Adams-Bashforth for any grid) are of second order.
    """

    name: ClassVar[str] = "gradient-estimation"
    g: Annotated[
        Annotated[float, Field(ge=1)] | Literal["ab2"],
        Field(description="weight of the last estimate of the noise; ab2: Adams-Bashforth for any grid"),
    ] = 2.0

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def start(self, x: Array) -> Tree:
        """The noise seen before, and the length of the step it led to."""
        return jnp.zeros_like(x), jnp.ones((), x.dtype)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """One extrapolated step in sigma."""
        del key
        before, length_before = memory
        guess = estimate(x, span.here)
        y, sigma = to_sigma(x, span.here)
        length = jnp.asarray(span.there.s) / span.there.a - sigma
        g = 1 + length / (2 * length_before) if self.g == "ab2" else jnp.asarray(self.g, x.dtype)
        g = jnp.where(span.number == 0, 1.0, g).astype(x.dtype)  # the first step has nothing to look back to
        y = y + length * (g * guess.eps + (1 - g) * before)
        y = jnp.where(span.there.s == 0, guess.x0, y)
        return span.there.a * y, (guess.eps, length), guess.x0


__all__ = ["GradientEstimation"]
