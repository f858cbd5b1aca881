"""Ancestral sampling (Ho et al., 2020)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.models.diffusion.denoiser import DenoiserEstimate
from chainrule.models.diffusion.posterior import posterior
from chainrule.models.diffusion.process import Level, gap, per_example
from chainrule.models.diffusion.samplers.sampler import Transition


@final
@dataclass(frozen=True)
class Ancestral(Transition):
    """The posterior mean with the estimate in place of x0, and a variance.

    `small` is that of the posterior, `large` that of the step forwards; `learned` lies where the denoiser says between
    them, on a logarithmic scale.
    """

    name: ClassVar[str] = "ddpm"
    variance: Annotated[
        Literal["small", "large", "learned"],
        Field(
            description="of a step: that of the posterior, that of the step forwards, or learned between them"
        ),
    ] = "small"

    @property
    def deterministic(self) -> bool:
        """Never."""
        return False

    def moments(self, x: Array, guess: DenoiserEstimate, here: Level, there: Level) -> tuple[Array, Array]:
        mean, variance = posterior(x, guess.x0, here, there)
        if self.variance == "large":
            variance = jnp.where(there.s == 0, 0.0, gap(here, there))
        if self.variance == "learned":
            if guess.share is None:
                raise CapabilityError(
                    "variance=learned: this denoiser knows nothing of the variance of a step",
                    remedy="train with variance=learned, or use variance=small",
                )
            ratio = jnp.asarray(there.s) / here.s
            variance = per_example(gap(here, there), x) * per_example(ratio, x) ** (2 * (1 - guess.share))
            variance = jnp.where(per_example(there.s, x) == 0, 0.0, variance)
        return mean, jnp.sqrt(variance)


__all__ = ["Ancestral"]
