"""The sigma family: DDIM, ancestral sampling and beyond by one parameter (Permenter and Yuan, 2024)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, ArrayLike
from chainrule.models.diffusion.denoiser import DenoiserEstimate
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.samplers.sampler import Transition


@final
@dataclass(frozen=True)
class SigmaFamily(Transition):
    """Denoise down to sigma'' = (sigma'/sigma^mu)^(1/(1-mu)), then add noise up to sigma'.

    `mu=0` is DDIM, `mu=0.5` ancestral sampling, more is noisier.
    """

    name: ClassVar[str] = "sigma"
    mu: Annotated[float, Field(ge=0, lt=1, description="noise: 0 is DDIM, 0.5 ancestral sampling")] = 0.5

    @property
    def deterministic(self) -> bool:
        """Without noise."""
        return self.mu == 0

    def moments(self, x: Array, guess: DenoiserEstimate, here: Level, there: Level) -> tuple[Array, Array]:
        del x
        sigma, wanted = jnp.asarray(here.s) / here.a, jnp.asarray(there.s) / there.a
        # (wanted/sigma)^(1/(1-mu)) sigma is the same number and does not overflow.
        low = sigma * (wanted / sigma) ** (1 / (1 - self.mu))
        noise = jnp.sqrt(jnp.maximum(jnp.square(wanted) - jnp.square(low), 0))
        return there.a * (guess.x0 + low * guess.eps), there.a * noise


def implied_eta(mu: float, ratio: ArrayLike) -> Array:
    """The eta of DDIM that adds as much noise in a step with sigma'/sigma = `ratio`.

    >>> round(float(implied_eta(1 / 3, 0.5)), 6)  # 1/sqrt(1 + ratio)
    0.816497
    """
    r = jnp.asarray(ratio)
    return jnp.sqrt((1 - r ** (2 * mu / (1 - mu))) / (1 - jnp.square(r)))


__all__ = ["SigmaFamily", "implied_eta"]
