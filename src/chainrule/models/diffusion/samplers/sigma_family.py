"""One parameter from DDIM over ancestral sampling to more noise than either (Permenter and Yuan, 2024)."""

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, ArrayLike
from chainrule.models.diffusion.base import Estimate
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.samplers.base import Transition


@final
@dataclass(frozen=True)
class SigmaFamily(Transition):
    """Denoise down to sigma'' = (sigma'/sigma^mu)^(1/(1-mu)), then add noise up to sigma'.

    `mu=0` is DDIM, `mu=0.5` ancestral sampling, more is noisier.
    """

    mu: float = 0.5

    def __post_init__(self) -> None:
        if not (isinstance(self.mu, int | float) and 0 <= self.mu < 1):
            raise ArgumentError(f"mu={self.mu}: mu is at least 0 (no noise) and below 1")

    @property
    def deterministic(self) -> bool:
        """Without noise."""
        return self.mu == 0

    def moments(self, x: Array, guess: Estimate, here: Level, there: Level) -> tuple[Array, Array]:
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
