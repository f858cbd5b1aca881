"""Euler-ancestral sampling: Euler's rule down to less noise than is wanted, then fresh noise (k-diffusion)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from pydantic import Field

from chainrule.core.types import Array
from chainrule.models.diffusion.denoiser import DenoiserEstimate
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.samplers.ddim import DDIM
from chainrule.models.diffusion.samplers.sampler import Transition


@final
@dataclass(frozen=True)
class EulerAncestral(Transition):
    """Euler's rule with the noise of ancestral sampling: the step of DDIM with `eta=1`, by the name it has elsewhere.

    Down to sigma_down = sqrt(sigma'² - sigma_up²), then noise sigma_up = eta sigma' sqrt(1 - sigma'²/sigma²): the same
    numbers, as DDIM is Euler's rule in sigma.
    """

    name: ClassVar[str] = "euler-ancestral"
    eta: Annotated[
        float, Field(ge=0, le=1, description="noise of a step: 0 none, 1 as much as ancestral sampling")
    ] = 1.0

    @property
    def deterministic(self) -> bool:
        """Without noise."""
        return self.eta == 0

    def moments(self, x: Array, guess: DenoiserEstimate, here: Level, there: Level) -> tuple[Array, Array]:
        return DDIM(self.eta).moments(x, guess, here, there)


__all__ = ["EulerAncestral"]
