"""Conservative fields: the gradient of the inner product of an input with a network's output.

A field that is a gradient has no curl, and the number it is the gradient of can be had: with it a score becomes an
energy, whose differences are differences of an unnormalised log-density.
"""

from typing import Any, final

import equinox as eqx
import jax

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.process import Level
from chainrule.networks.conditions import ConditionEncoder


@final
class Conservative(LearnedDenoiser):
    """The gradient in x of <x, F(x)>, where F is the network inside; as many entries out as in."""

    inner: LearnedDenoiser
    target: str = eqx.field(static=True)

    def __init__(self, inner: LearnedDenoiser) -> None:
        self.inner, self.target = inner, inner.target

    @property
    def condition_encoder(self) -> ConditionEncoder | None:
        return self.inner.condition_encoder

    def potential(
        self, x: Float[Array, "batch ..."], level: Level, condition: Any = None
    ) -> Float[Array, " batch"]:
        """<x, F(x)> for each example: what the output is the gradient of."""
        return (x * self.inner.predict(x, level, condition)).reshape(len(x), -1).sum(axis=1)

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        return jax.grad(lambda x: self.potential(x, level, condition).sum())(x)


__all__ = ["Conservative"]
