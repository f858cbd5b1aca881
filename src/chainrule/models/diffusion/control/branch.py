"""ControlNet (Zhang et al., 2023): a trainable copy of the encoder, joined to the frozen network by zeros.

y = F(x; frozen) + Z2(F_copy(x + Z1(c))). Z1 and Z2 are 1x1 convolutions whose weights and biases start at zero, so that
at first nothing changes; then Z2 learns, and through it the copy and Z1.
"""

import math
from collections.abc import Mapping
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.control.base import Branch, check_size, length, repeated
from chainrule.models.diffusion.networks.unet import Encoder, Seen, UNetDenoiser
from chainrule.models.diffusion.process import Level
from chainrule.nn import Conv

_HINT = 16


@final
class Controlled(Branch):
    """A U-Net steered by a picture; without one it is the U-Net itself."""

    base: UNetDenoiser
    copy: Encoder
    hint: tuple[Conv, Conv]
    enter: Conv
    leave: tuple[Conv, ...]
    """One for each of the features that the way up is given, the middle last."""
    picture: Float[Array, "some height width channels"] | None
    strength: Array
    target: str = eqx.field(static=True)

    def __init__(self, base: UNetDenoiser, channels: int, key: Key) -> None:
        """`channels` are those of the pictures of the condition."""
        keys = jax.random.split(key, 3)
        width = base.encoder.entry.outputs
        # Arrays of its own: the copy learns, the original does not.
        self.base, self.copy = base, jax.tree.map(jnp.array, base.encoder)
        self.hint = (
            Conv(2, channels, _HINT, 3, padding=1, gain=math.sqrt(2), key=keys[0]),
            Conv(2, _HINT, width, 3, padding=1, gain=math.sqrt(2), key=keys[1]),
        )
        self.enter = _zero(width, keys[2])
        sizes = [b.convs[1].outputs for stage in base.encoder.stages for b in stage.blocks]
        sizes.append(base.encoder.middle.blocks[-1].convs[1].outputs)
        self.leave = tuple(_zero(size, keys[2]) for size in sizes)
        self.picture, self.strength = None, jnp.ones(())
        self.target = base.target

    def gates(self) -> Mapping[str, Float[Array, ""]]:
        return {"gate_in": length(self.enter), "gate_out": length(self.leave)}

    def shown(self, picture: Any, strength: float = 1.0) -> Self:
        values = (jnp.asarray(picture), jnp.asarray(float(strength)))
        return eqx.tree_at(lambda m: (m.picture, m.strength), self, values, is_leaf=lambda leaf: leaf is None)

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        if self.picture is None:
            return self.base.predict(x, level, condition)
        check_size(self.picture, x.shape)
        c = self.base.context(level.lam, condition, len(x))
        inputs = self.base.inputs(x)
        plain = self.base.encoder(inputs, c)
        picture = self.base.padded(repeated(self.picture, len(x)).astype(x.dtype))
        features = self.hint[1](jax.nn.silu(self.hint[0](picture)))
        own = self.copy(inputs, c, self.enter(jax.nn.silu(features)))
        strength = self.strength.astype(x.dtype)
        added = [strength * out(h) for out, h in zip(self.leave, (*own.skips, own.middle), strict=True)]
        skips = tuple(a + b for a, b in zip(plain.skips, added, strict=False))
        return self.base.finish(Seen(skips, plain.middle + added[-1]), c, x)


def _zero(width: int, key: Key) -> Conv:
    return Conv(2, width, width, 1, initializer="zero", key=key)


__all__ = ["Controlled"]
