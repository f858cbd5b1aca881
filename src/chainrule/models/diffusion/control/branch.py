"""Branches beside a frozen U-Net: the interface, and what both kinds share."""

import abc
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Tree
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.networks.unet import UNet


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
    ) -> LearnedDenoiser:
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


__all__ = ["Branch", "length", "repeated"]
