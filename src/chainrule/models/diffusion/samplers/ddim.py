"""Denoising diffusion implicit models, DDIM (Song et al., 2021)."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.models.diffusion.denoiser import DenoiserEstimate
from chainrule.models.diffusion.process import Level, gap
from chainrule.models.diffusion.samplers.sampler import Transition


@final
@dataclass(frozen=True)
class DDIM(Transition):
    """`eta=0` is deterministic; `eta=1` equals ancestral sampling."""

    name: ClassVar[str] = "ddim"
    eta: Annotated[
        float, Field(ge=0, description="noise of a step: 0 none, 1 as much as ancestral sampling")
    ] = 0.0

    @property
    def deterministic(self) -> bool:
        """Without noise."""
        return self.eta == 0

    def check(self, levels: Level) -> None:
        """The noise of a step cannot exceed that of the level it leads to."""
        a, s = (np.asarray(part) for part in levels)
        if self.eta > 1:
            here, there = Level(a[:-1], s[:-1]), Level(a[1:], s[1:])
            share = self.eta * np.sqrt(np.asarray(gap(here, there))) / here.s
            if (share > 1).any():
                step = int(np.argmax(share > 1))
                raise ArgumentError(
                    f"eta={self.eta}: step {step + 1} would add more noise than its level has",
                    remedy=f"use eta <= {self.eta / share.max():.3g}, or more steps",
                )

    def moments(self, x: Array, guess: DenoiserEstimate, here: Level, there: Level) -> tuple[Array, Array]:
        del x
        if self.deterministic:  # also upwards, where the variance of a step means nothing
            return there.a * guess.x0 + there.s * guess.eps, jnp.zeros(())
        std = self.eta * there.s / here.s * jnp.sqrt(gap(here, there))
        kept = jnp.sqrt(jnp.maximum(jnp.square(there.s) - jnp.square(std), 0))
        return there.a * guess.x0 + kept * guess.eps, std


__all__ = ["DDIM"]
