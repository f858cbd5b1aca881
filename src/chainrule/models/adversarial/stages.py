"""Stages of the two networks: a layer, what normalises its outputs, what a condition does to them, an activation."""

from collections.abc import Sequence
from typing import Self, TypeAlias, final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.nn import Conv, ConvTranspose, Linear, Norm, SpectralNorm, activations, upsample
from chainrule.nn.normalize import normalised


@final
class UpsampledConv(eqx.Module):
    """Nearest-neighbour upsampling by two and a convolution, which covers every pixel alike: no checkerboards.

    What is too much at the far edges is cut off.
    """

    conv: Conv
    size: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, size: tuple[int, int], *, gain: float, key: Key, bias: bool = True
    ) -> None:
        self.conv = Conv(2, inputs, outputs, 3, padding=1, gain=gain, key=key, bias=bias)
        self.size = size

    def __call__(self, x: Float[Array, "batch _ _ inputs"]) -> Float[Array, "batch _ _ outputs"]:
        """Features at twice the resolution, or one less."""
        height, width = self.size
        return self.conv(upsample(x, 2)[:, :height, :width])


Layer: TypeAlias = Linear | Conv | ConvTranspose | UpsampledConv | SpectralNorm


@final
class Stage(eqx.Module):
    """`activation((1 + a(c)) norm(layer(x)) + b(c))` for a condition c; without one, a and b are zero."""

    layer: Layer
    norm: Norm
    modulation: Linear | None
    """From the vector of a condition to a scale and a shift of every feature: a conditional normalisation."""
    activation: str = eqx.field(static=True)
    folded: tuple[int, ...] | None = eqx.field(static=True)
    """The shape that the outputs of the layer are given, for a vector that becomes a small image."""

    def __init__(
        self,
        layer: Layer,
        norm: Norm,
        activation: str,
        *,
        modulation: Linear | None = None,
        folded: tuple[int, ...] | None = None,
    ) -> None:
        self.layer, self.norm, self.modulation = layer, norm, modulation
        self.activation, self.folded = activation, folded

    def advance(self, x: Array, c: Float[Array, "batch _"] | None, training: bool) -> tuple[Array, Self]:
        """The outputs, and the stage with what training moves by rule moved on."""
        layer = self.layer
        if isinstance(layer, SpectralNorm) and training:
            h, layer = layer.advance(x)
        else:
            h = layer(x)
        h = h if self.folded is None else h.reshape(len(x), *self.folded)
        h, norm = normalised(self.norm, h, training)
        if self.modulation is not None and c is not None:
            scale, shift = jnp.split(self.modulation(c).astype(h.dtype), 2, axis=-1)
            inner = (len(h), *(1,) * (h.ndim - 2), -1)
            h = (1 + scale.reshape(inner)) * h + shift.reshape(inner)
        moved = eqx.tree_at(lambda s: (s.layer, s.norm), self, (layer, norm))
        return activations[self.activation](h), moved


def advance(
    stages: Sequence[Stage], x: Array, c: Float[Array, "batch _"] | None, training: bool
) -> tuple[Array, tuple[Stage, ...]]:
    """Stages one after the other: the outputs of the last, and all of them moved on."""
    moved = []
    for stage in stages:
        x, after = stage.advance(x, c, training)
        moved.append(after)
    return x, tuple(moved)


__all__ = ["Layer", "Stage", "UpsampledConv", "advance"]
