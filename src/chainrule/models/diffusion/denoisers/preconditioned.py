"""Preconditioning of a network, for inputs and outputs of unit variance (Karras et al., 2022).

Where noise is added to data that stay as they are, the input grows with sigma. Scaled to unit variance going in, and
added to as much of the input as is worth keeping going out, the network maps numbers of one size to numbers of one
size.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.process import Level, per_example
from chainrule.networks.conditions import ConditionEncoder


@final
class Preconditioned(LearnedDenoiser):
    """x0-hat = c_skip y + c_out F(c_in y), with y = x/a, sigma = s/a and `std` that of the data.

    c_in = 1/sqrt(sigma² + std²), c_skip = std² c_in², c_out = sigma std c_in.
    """

    inner: LearnedDenoiser
    std: float = eqx.field(static=True)
    target: str = eqx.field(static=True)

    def __init__(self, inner: LearnedDenoiser, std: float) -> None:
        self.inner, self.std = inner, std
        self.target = "x0"

    @property
    def condition_encoder(self) -> ConditionEncoder | None:
        return self.inner.condition_encoder

    def attention_maps(self, x: Float[Array, "batch ..."], level: Level, condition: Any) -> Sequence[Array]:
        return self.inner.attention_maps(
            self._scale(x, level) * x / per_example(level.a, x), level, condition
        )

    def _scale(self, x: Array, level: Level) -> Array:
        return 1 / jnp.sqrt(jnp.square(per_example(level.sigma, x)) + self.std**2)

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        y, sigma = x / per_example(level.a, x), per_example(level.sigma, x)
        scale = self._scale(x, level)
        said = self.inner.predict(scale * y, level, condition)
        return self.std**2 * jnp.square(scale) * y + sigma * self.std * scale * said


__all__ = ["Preconditioned"]
