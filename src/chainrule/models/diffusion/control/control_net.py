"""ControlNet (Zhang et al., 2023): a trainable copy of the encoder, joined to the frozen network by zeros.

y = F(x; frozen) + Z2(F_copy(x + Z1(c))). Z1 and Z2 are 1x1 convolutions whose weights and biases start at zero, so that
at first nothing changes; then Z2 learns, and through it the copy and Z1. The copy is kept as what it adds to the frozen
encoder, zero at first: it is a copy of whatever network it comes to stand beside, and decay draws it back there.
"""

import math
from collections.abc import Mapping, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.control.branch import Branch, Steered, length, repeated
from chainrule.networks.conditioning import Conditioning
from chainrule.networks.unet import UNet, UNetEncoder
from chainrule.nn import Conv

_HINT = 16


@final
class ControlNet(Branch):
    """The layers of the branch."""

    change: UNetEncoder
    """What the copy adds to every number of the frozen encoder."""
    hint: tuple[Conv, Conv]
    enter: Conv
    leave: tuple[Conv, ...]
    """One for each of the features that the way up is given, the middle last."""

    def __init__(self, base: UNet, channels: int, key: Key) -> None:
        """`channels` are those of the pictures of the condition."""
        keys = jax.random.split(key, 3)
        width = base.encoder.entry.outputs
        self.change = jax.tree.map(
            lambda a: jnp.zeros_like(a) if eqx.is_inexact_array(a) else a, base.encoder
        )
        self.hint = (
            Conv(2, channels, _HINT, 3, padding=1, gain=math.sqrt(2), key=keys[0]),
            Conv(2, _HINT, width, 3, padding=1, gain=math.sqrt(2), key=keys[1]),
        )
        self.enter = _zero(width, keys[2])
        sizes = [b.convs[1].outputs for stage in base.encoder.stages for b in stage.blocks]
        sizes.append(base.encoder.middle.blocks[-1].convs[1].outputs)
        self.leave = tuple(_zero(size, keys[2]) for size in sizes)

    def gates(self) -> Mapping[str, Float[Array, ""]]:
        return {"gate_in": length(self.enter), "gate_out": length(self.leave)}

    def beside(
        self,
        base: UNet,
        target: str,
        picture: Float[Array, "some height width channels"],
        strength: float | Array,
    ) -> "Controlled":
        factor = jnp.asarray(strength, jnp.float32)
        return Controlled(base=base, branch=self, picture=picture, strength=factor, target=target)

    def copy(self, encoder: UNetEncoder) -> UNetEncoder:
        """The encoder as this branch has it."""
        return jax.tree.map(lambda a, b: a + b if eqx.is_inexact_array(a) else a, encoder, self.change)


@final
class Controlled(Steered):
    """A U-Net steered by a picture."""

    base: UNet
    branch: ControlNet
    picture: Float[Array, "some height width channels"]
    strength: Array
    target: str = eqx.field(static=True)

    def scales(self, x: Float[Array, "batch ..."]) -> Sequence[Array]:
        del x
        return ()

    def handed_up(
        self, x: Float[Array, "batch ..."], inputs: Float[Array, "batch ..."], c: Conditioning
    ) -> Sequence[Array]:
        base, branch = self.base, self.branch
        picture = base.padded(repeated(self.picture, len(x)).astype(x.dtype))
        features = branch.hint[1](jax.nn.silu(branch.hint[0](picture)))
        own = branch.copy(base.encoder)(inputs, c, branch.enter(jax.nn.silu(features)))
        strength = self.strength.astype(x.dtype)
        return [strength * out(h) for out, h in zip(branch.leave, (*own.skips, own.middle), strict=True)]


def _zero(width: int, key: Key) -> Conv:
    return Conv(2, width, width, 1, initializer="zero", key=key)


__all__ = ["ControlNet", "Controlled"]
