"""What branches beside a frozen U-Net have in common: the picture they are shown, and how strongly they act."""

import abc
from collections.abc import Mapping
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Tree
from chainrule.models.diffusion.networks.base import Network
from chainrule.models.diffusion.networks.conditions import Reader
from chainrule.models.diffusion.networks.unet import UNetDenoiser


class Branch(Network):
    """A denoiser around a frozen one, shown a picture of the same size."""

    base: eqx.AbstractVar[UNetDenoiser]

    @property
    def reader(self) -> Reader | None:
        """That of the frozen denoiser."""
        return self.base.reader

    @abc.abstractmethod
    def gates(self) -> Mapping[str, Float[Array, ""]]:
        """How far each group of convolutions that started at zero has come: the length of all its numbers."""

    @abc.abstractmethod
    def shown(self, picture: Any, strength: float = 1.0) -> Self:
        """The same branch looking at this picture, one for all examples or one for each."""


def length(layers: Tree) -> Float[Array, ""]:
    """The length of all numbers in some layers, as one vector."""
    return jnp.sqrt(
        sum(jnp.square(a).sum() for a in jax.tree.leaves(eqx.filter(layers, eqx.is_inexact_array)))
    )


def check_size(picture: Array, like: tuple[int, ...]) -> None:
    """Raise unless the picture of the condition has the size of the examples."""
    if picture.ndim != 4 or picture.shape[1:3] != like[1:3]:
        raise ArgumentError(
            f"control: a condition of shape {picture.shape[1:]} for pictures of shape {like[1:]}",
            remedy="bring both to one height and width",
        )


def repeated(values: Float[Array, "some ..."], count: int) -> Float[Array, "count ..."]:
    """One for all, or one for each and then from the start again, as guidance asks twice."""
    if count % len(values):
        raise ArgumentError(
            f"control: {len(values)} conditions for {count} examples", remedy="give one, or one for each"
        )
    return jnp.tile(values, (count // len(values), *(1,) * (values.ndim - 1)))


__all__ = ["Branch", "check_size", "length", "repeated"]
