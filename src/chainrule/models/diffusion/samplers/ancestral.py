"""Ancestral sampling: draw each cleaner level from the reverse model (Ho et al., 2020)."""

from dataclasses import dataclass
from typing import Literal, final

import jax.numpy as jnp

from chainrule.core.errors import check_choice
from chainrule.core.types import Array
from chainrule.models.diffusion.base import Estimate
from chainrule.models.diffusion.posterior import posterior
from chainrule.models.diffusion.process import Level, gap
from chainrule.models.diffusion.samplers.base import Transition


@final
@dataclass(frozen=True)
class Ancestral(Transition):
    """The posterior mean with the estimate in place of x0, and its variance (`small`) or that of the step (`large`)."""

    variance: Literal["small", "large"] = "small"

    def __post_init__(self) -> None:
        check_choice("Ancestral", "variance", self.variance, ("small", "large"))

    @property
    def deterministic(self) -> bool:
        """Never."""
        return False

    def moments(self, x: Array, guess: Estimate, here: Level, there: Level) -> tuple[Array, Array]:
        mean, variance = posterior(x, guess.x0, here, there)
        if self.variance == "large":
            variance = jnp.where(there.s == 0, 0.0, gap(here, there))
        return mean, jnp.sqrt(variance)


__all__ = ["Ancestral"]
