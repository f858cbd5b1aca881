"""Branches beside a frozen U-Net: the interface, and what both kinds share."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Tree
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.process import Level
from chainrule.networks.conditioning import Conditioning
from chainrule.networks.conditions import ConditionEncoder
from chainrule.networks.unet import Features, UNet


class Steered(LearnedDenoiser):
    """A U-Net to whose features something is added on the way."""

    base: eqx.AbstractVar[UNet]

    @property
    def condition_encoder(self) -> ConditionEncoder | None:
        """That of the U-Net."""
        return self.base.embedding.condition

    @abc.abstractmethod
    def scales(self, x: Float[Array, "batch ..."]) -> Sequence[Array]:
        """What is added where each resolution of the encoder ends, or nothing."""

    @abc.abstractmethod
    def handed_up(
        self, x: Float[Array, "batch ..."], inputs: Float[Array, "batch ..."], c: Conditioning
    ) -> Sequence[Array]:
        """What is added to each of the features that the way up is given, the middle last, or nothing."""

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        base, inputs = self.base, self.base.inputs(x)
        c = base.embedding(level.lam, condition, len(x))
        plain = base.encoder(inputs, c, scales=self.scales(x))
        added = self.handed_up(x, inputs, c)
        if not added:
            return base.decoded(plain, c, x)
        skips = tuple(a + b for a, b in zip(plain.skips, added, strict=False))
        return base.decoded(Features(skips, plain.middle + added[-1]), c, x)


@final
class Combined(Steered):
    """A U-Net with several branches, each looking at a picture of its own; what they add is added up."""

    base: UNet
    parts: tuple[Steered, ...]
    target: str = eqx.field(static=True)

    def scales(self, x: Float[Array, "batch ..."]) -> Sequence[Array]:
        return _summed([part.scales(x) for part in self.parts])

    def handed_up(
        self, x: Float[Array, "batch ..."], inputs: Float[Array, "batch ..."], c: Conditioning
    ) -> Sequence[Array]:
        return _summed([part.handed_up(x, inputs, c) for part in self.parts])


def _summed(each: Sequence[Sequence[Array]]) -> Sequence[Array]:
    """Entry by entry, those that have any."""
    given = [one for one in each if one]
    return tuple(sum(parts[1:], start=parts[0]) for parts in zip(*given, strict=True))


class Branch(eqx.Module):
    """Layers that learn to steer a U-Net by a picture of the same size; at first they add nothing."""

    @abc.abstractmethod
    def gates(self) -> Mapping[str, Float[Array, ""]]:
        """How far each group of convolutions that started at zero has come: the length of all its numbers."""

    @abc.abstractmethod
    def beside(
        self,
        base: UNet,
        target: str,
        picture: Float[Array, "some height width channels"],
        strength: float | Array,
    ) -> Steered:
        """The U-Net with this branch looking at a picture, one for all examples or one for each."""


def length(layers: Tree) -> Float[Array, ""]:
    """The length of all numbers in some layers, as one vector."""
    return jnp.sqrt(
        sum(jnp.square(a).sum() for a in jax.tree.leaves(eqx.filter(layers, eqx.is_inexact_array)))
    )


def repeated(values: Float[Array, "some ..."], count: int) -> Float[Array, "count ..."]:
    """One for all, or one for each and then from the start again, as guidance evaluates twice."""
    if count % len(values):
        raise ArgumentError(
            f"control: {len(values)} conditions for {count} examples", remedy="give one, or one for each"
        )
    return jnp.tile(values, (count // len(values), *(1,) * (values.ndim - 1)))


__all__ = ["Branch", "Combined", "Steered", "length", "repeated"]
