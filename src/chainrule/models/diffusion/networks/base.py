"""What networks that denoise have in common: classes by number, with one number more for none in particular."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.models.diffusion.base import Denoiser


class Network(Denoiser):
    """A denoiser with arrays; the number after the last class, `classes`, stands for no class in particular."""

    classes: eqx.AbstractVar[int]

    def null(self, condition: Any) -> Array:
        """The number that stands for no class in particular."""
        return jnp.full_like(jnp.asarray(condition), self.classes)


__all__ = ["Network"]
