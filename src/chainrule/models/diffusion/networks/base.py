"""What networks that denoise have in common: a reader of conditions, and a condition that says nothing."""

import abc
from typing import Any

import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.base import Denoiser
from chainrule.models.diffusion.networks.conditions import ClassReader, Reader
from chainrule.models.diffusion.process import Level


class Network(Denoiser):
    """A denoiser with arrays."""

    @property
    @abc.abstractmethod
    def reader(self) -> Reader | None:
        """What reads its conditions, if it takes any."""

    @property
    def classes(self) -> int:
        """How many classes its conditions are; 0 for a network without conditions or with others."""
        return self.reader.none if isinstance(self.reader, ClassReader) else 0

    def null(self, condition: Any) -> Array:
        """Conditions that say nothing, as many as are given."""
        if self.reader is None:
            return jnp.asarray(condition)
        return self.reader.nothing(len(condition))

    def looks(
        self, x: Float[Array, "batch ..."], level: Level, condition: Any
    ) -> list[Float[Array, "batch rows columns heads tokens"]]:
        """Default: nothing, for a network without attention to the tokens of a condition.

        Otherwise, for each layer of such attention, how much every place takes from every token. The first token
        stands for the condition as a whole.
        """
        del x, level, condition
        return []


__all__ = ["Network"]
