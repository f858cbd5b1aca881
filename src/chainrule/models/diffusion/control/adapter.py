"""Adapters (Mou et al., 2024): features of a condition, computed once, added at each scale of a frozen encoder."""

import math
from collections.abc import Mapping, Sequence
from typing import final

import equinox as eqx
import jax

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.control.branch import Branch, Steered, length, repeated
from chainrule.networks.conditioning import Conditioning
from chainrule.networks.unet import UNet
from chainrule.nn import Conv, average_pool

_HINT = 16


@final
class Adapter(Branch):
    """From a picture to one map of features for each resolution; the last convolution of each starts at zero."""

    layers: tuple[tuple[Conv, Conv], ...]

    def __init__(self, base: UNet, channels: int, key: Key) -> None:
        """`channels` are those of the pictures of the condition."""
        widths = [stage.blocks[-1].convs[1].outputs for stage in base.encoder.stages]
        keys = jax.random.split(key, 2 * len(widths))
        self.layers = tuple(
            (
                Conv(2, channels, _HINT, 3, padding=1, gain=math.sqrt(2), key=one),
                Conv(2, _HINT, width, 3, padding=1, initializer="zero", key=two),
            )
            for width, one, two in zip(widths, keys[::2], keys[1::2], strict=True)
        )

    def __call__(self, picture: Float[Array, "some height width channels"]) -> tuple[Array, ...]:
        """Features at every resolution."""
        found = []
        for number, (first, second) in enumerate(self.layers):
            small = average_pool(picture, 2**number) if number else picture
            found.append(second(jax.nn.silu(first(small))))
        return tuple(found)

    def gates(self) -> Mapping[str, Float[Array, ""]]:
        return {f"gate_{i}": length(second) for i, (_, second) in enumerate(self.layers, start=1)}

    def beside(
        self,
        base: UNet,
        target: str,
        picture: Float[Array, "some height width channels"],
        strength: float | Array,
    ) -> "Adapted":
        features = tuple(strength * f for f in self(base.padded(picture)))
        return Adapted(base=base, features=features, target=target)


@final
class Adapted(Steered):
    """A U-Net with features added at each resolution, computed once for all steps of a sampler.

    They are what an adapter says, or a weighted sum of what several say.
    """

    base: UNet
    features: tuple[Array, ...]
    target: str = eqx.field(static=True)

    def scales(self, x: Float[Array, "batch ..."]) -> Sequence[Array]:
        return [repeated(f, len(x)).astype(x.dtype) for f in self.features]

    def handed_up(
        self, x: Float[Array, "batch ..."], inputs: Float[Array, "batch ..."], c: Conditioning
    ) -> Sequence[Array]:
        del x, inputs, c
        return ()


__all__ = ["Adapted", "Adapter"]
