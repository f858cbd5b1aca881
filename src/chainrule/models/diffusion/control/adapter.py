"""Adapters (Mou et al., 2024): features of a condition, computed once, added at each scale of a frozen encoder."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.control.base import Branch, check_size, length, repeated
from chainrule.models.diffusion.networks.unet import UNetDenoiser
from chainrule.models.diffusion.process import Level
from chainrule.nn import Conv, average_pool

_HINT = 16


@final
class Adapter(eqx.Module):
    """From a picture to one map of features for each resolution; the last convolution of each starts at zero."""

    layers: tuple[tuple[Conv, Conv], ...]

    def __init__(self, channels: int, widths: Sequence[int], key: Key) -> None:
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


@final
class Adapted(Branch):
    """A U-Net with an adapter beside it; what several adapters add may be summed with weights by `with_features`."""

    base: UNetDenoiser
    adapter: Adapter
    features: tuple[Array, ...] | None
    """What is added at each resolution, computed once for all steps of a sampler."""
    target: str = eqx.field(static=True)

    def __init__(self, base: UNetDenoiser, channels: int, key: Key) -> None:
        """`channels` are those of the pictures of the condition."""
        widths = [stage.blocks[-1].convs[1].outputs for stage in base.encoder.stages]
        self.base, self.adapter = base, Adapter(channels, widths, key)
        self.features = None
        self.target = base.target

    def gates(self) -> Mapping[str, Float[Array, ""]]:
        return {f"gate_{i}": length(second) for i, (_, second) in enumerate(self.adapter.layers, start=1)}

    def shown(self, picture: Any, strength: float = 1.0) -> Self:
        return self.with_features(
            jax.tree.map(lambda f: strength * f, self.adapter(self.base.padded(jnp.asarray(picture))))
        )

    def with_features(self, features: Sequence[Array]) -> Self:
        """The same with these features added, such as a weighted sum of what several adapters say."""
        return eqx.tree_at(lambda m: m.features, self, tuple(features), is_leaf=lambda leaf: leaf is None)

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        if self.features is None:
            return self.base.predict(x, level, condition)
        c = self.base.context(level.lam, condition, len(x))
        inputs = self.base.inputs(x)
        check_size(self.features[0], inputs.shape)
        scales = [repeated(f, len(x)).astype(x.dtype) for f in self.features]
        return self.base.finish(self.base.encoder(inputs, c, scales=scales), c, x)


__all__ = ["Adapted", "Adapter"]
