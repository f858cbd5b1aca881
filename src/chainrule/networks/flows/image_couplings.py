"""Couplings of images: one part of the numbers is scaled and shifted by what a convolutional network makes of the rest.

Glow halves the channels; RealNVP masks every other pixel of a checkerboard, or half of the channels. The network sees
what stays, so that both directions cost one pass and the change of volume is a sum of logarithms of scales. It ends in
a layer of zeros: at first scales are all the same and shifts are none.

References: Dinh, Sohl-Dickstein and Bengio, Density estimation using Real NVP, ICLR 2017; Kingma and Dhariwal, Glow:
generative flow with invertible 1x1 convolutions, NeurIPS 2018.
"""

import abc
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped
from chainrule.networks.flows.elementwise import event_shape, over_event
from chainrule.nn import Conv, Linear


class Conditioner(eqx.Module):
    """A network of images that gives two numbers for each of some channels of every pixel, at first all zeros."""

    @abc.abstractmethod
    def __call__(
        self, x: Float[Array, "batch height width inputs"], condition: Conditions
    ) -> Float[Array, "batch height width numbers"]:
        """Scales and shifts, before any bound."""


@final
class ThreeConvolutions(Conditioner):
    """Convolutions of 3x3, 1x1 and 3x3 pixels with ReLU between them, as Glow has them."""

    first: Conv
    middle: Linear
    last: Conv
    given: Linear | None

    def __init__(self, inputs: int, outputs: int, width: int, *, features: int = 0, key: Key) -> None:
        one, two, three, four = jax.random.split(key, 4)
        self.first = Conv(2, inputs, width, 3, initializer="he", key=one)
        self.middle = Linear(width, width, initializer="he", key=two)
        self.last = _zeros(Conv(2, width, 2 * outputs, 3, key=three))
        self.given = Linear(features, width, bias=False, key=four) if features else None

    def __call__(
        self, x: Float[Array, "batch height width inputs"], condition: Conditions
    ) -> Float[Array, "batch height width numbers"]:
        hidden = jax.nn.relu(self.first(x) + _said(self.given, condition))
        return self.last(jax.nn.relu(self.middle(hidden)))


@final
class _Block(eqx.Module):
    """`x + f(x)` with two convolutions of 3x3 pixels, the second at first zero."""

    first: Conv
    second: Conv

    def __init__(self, width: int, *, key: Key) -> None:
        one, two = jax.random.split(key)
        self.first = Conv(2, width, width, 3, initializer="he", key=one)
        self.second = _zeros(Conv(2, width, width, 3, key=two))

    def __call__(self, x: Float[Array, "batch height width channels"]) -> Array:
        return x + self.second(jax.nn.relu(self.first(jax.nn.relu(x))))


@final
class ResidualConvolutions(Conditioner):
    """A convolution, residual blocks, and one more convolution, as RealNVP has them."""

    first: Conv
    blocks: tuple[_Block, ...]
    last: Conv
    given: Linear | None

    def __init__(
        self, inputs: int, outputs: int, width: int, blocks: int, *, features: int = 0, key: Key
    ) -> None:
        one, two, three, four = jax.random.split(key, 4)
        self.first = Conv(2, inputs, width, 3, initializer="he", key=one)
        self.blocks = tuple(_Block(width, key=k) for k in jax.random.split(two, blocks))
        self.last = _zeros(Conv(2, width, 2 * outputs, 3, key=three))
        self.given = Linear(features, width, bias=False, key=four) if features else None

    def __call__(
        self, x: Float[Array, "batch height width inputs"], condition: Conditions
    ) -> Float[Array, "batch height width numbers"]:
        hidden = self.first(x) + _said(self.given, condition)
        for block in self.blocks:
            hidden = block(hidden)
        return self.last(jax.nn.relu(hidden))


@final
class ChannelCoupling(Bijection):
    """`b' = (b + t(a)) sigmoid(r(a) + 2)` for the second half of the channels, from data to codes; the first is `a`.

    Scales are below one, so that none explodes, and at first 0.88.

    >>> layer = ChannelCoupling((4, 4, 2), width=8, key=jax.random.key(0))
    >>> layer.inverse(jnp.ones((1, 4, 4, 2))).value[0, 0, 0]
    Array([1.       , 0.8807971], dtype=float32)
    """

    network: ThreeConvolutions
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], *, width: int, features: int = 0, key: Key) -> None:
        self.shape = event_shape("ChannelCoupling", shape)
        kept = _half("ChannelCoupling", shape)
        self.network = ThreeConvolutions(kept, shape[-1] - kept, width, features=features, key=key)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """Divided by the scale, less the shift."""
        a, b = self._halves(z)
        log_scale, shift = self._numbers(a, condition)
        value = jnp.concatenate([a, b * jnp.exp(-log_scale) - shift], axis=-1)
        return Mapped(value, -over_event(log_scale))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Plus the shift, by the scale."""
        a, b = self._halves(x)
        log_scale, shift = self._numbers(a, condition)
        value = jnp.concatenate([a, (b + shift) * jnp.exp(log_scale)], axis=-1)
        return Mapped(value, over_event(log_scale))

    def _halves(self, x: Events) -> tuple[Array, Array]:
        kept = x.shape[-1] // 2
        return x[..., :kept], x[..., kept:]

    def _numbers(self, a: Array, condition: Conditions) -> tuple[Array, Array]:
        raw, shift = jnp.split(self.network(a, condition).astype(a.dtype), 2, axis=-1)
        return jax.nn.log_sigmoid(raw + 2), shift


@final
class MaskedCoupling(Bijection):
    """`x' = (x - t(m x)) exp(-s(m x))` where the mask m is false, from data to codes; what it covers stays.

    `s` is a hyperbolic tangent times a learned size for each channel, itself below `bound`; an `additive` coupling has
    none, and keeps volumes.

    >>> mask = checkerboard((2, 2, 1))
    >>> layer = MaskedCoupling((2, 2, 1), mask, width=8, blocks=1, key=jax.random.key(0))
    >>> abs(float(layer.inverse(jnp.ones((1, 2, 2, 1))).log_det[0]))
    0.0
    """

    network: ResidualConvolutions
    size: Float[Array, " channels"]
    """How large |s| can be in each channel, before its bound."""
    mask: Bool[Array, "height width channels"]
    shape: tuple[int, ...] = eqx.field(static=True)
    bound: float = eqx.field(static=True)
    additive: bool = eqx.field(static=True)

    def __init__(
        self,
        shape: tuple[int, ...],
        mask: Bool[Array, "height width channels"],
        *,
        width: int,
        blocks: int,
        bound: float = 5.0,
        additive: bool = False,
        features: int = 0,
        key: Key,
    ) -> None:
        self.bound, self.additive = bound, additive
        self.shape, self.mask = event_shape("MaskedCoupling", shape), _parting(mask, shape)
        channels = shape[-1]
        self.network = ResidualConvolutions(channels, channels, width, blocks, features=features, key=key)
        self.size = jnp.ones(channels)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the scale, plus the shift."""
        log_scale, shift = self._numbers(z, condition)
        return Mapped(z * jnp.exp(log_scale) + shift, over_event(log_scale))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Less the shift, divided by the scale."""
        log_scale, shift = self._numbers(x, condition)
        return Mapped((x - shift) * jnp.exp(-log_scale), -over_event(log_scale))

    def _numbers(self, x: Events, condition: Conditions) -> tuple[Array, Array]:
        """Zero where the mask is."""
        mask = self.mask[None]
        raw, shift = jnp.split(self.network(jnp.where(mask, x, 0), condition).astype(x.dtype), 2, axis=-1)
        if self.additive:
            return jnp.zeros_like(x), jnp.where(mask, 0, shift)
        most = (self.bound * jnp.tanh(self.size / self.bound)).astype(x.dtype)[None, None, None]
        return jnp.where(mask, 0, most * jnp.tanh(raw)), jnp.where(mask, 0, shift)


def checkerboard(shape: tuple[int, ...], odd: bool = False) -> Bool[Array, "height width channels"]:
    """Every other pixel with all its channels; `odd`, those between.

    >>> checkerboard((2, 2, 1))[..., 0].tolist()
    [[True, False], [False, True]]
    """
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return jnp.asarray(np.broadcast_to(((rows + columns) % 2 == odd)[..., None], shape))


def half_of_channels(shape: tuple[int, ...], odd: bool = False) -> Bool[Array, "height width channels"]:
    """The first half of the channels of all pixels; `odd`, the second.

    >>> half_of_channels((1, 1, 4)).tolist()
    [[[True, True, False, False]]]
    """
    kept = _half("half_of_channels", shape)
    return jnp.asarray(np.broadcast_to((np.arange(shape[-1]) < kept) != odd, shape))


def _half(where: str, shape: tuple[int, ...]) -> int:
    if shape[-1] < 2:
        raise ArgumentError(
            f"{where}: {shape[-1]} channel has no halves",
            remedy="squeeze the image first: four channels for each",
        )
    return shape[-1] // 2


def _parting(mask: Bool[Array, "height width channels"], shape: tuple[int, ...]) -> Bool[Array, "..."]:
    """The mask, unless it does not part events of this shape in two."""
    if mask.shape != tuple(shape):
        raise ArgumentError(
            f"MaskedCoupling: a mask of shape {mask.shape} for events of shape {tuple(shape)}"
        )
    if not isinstance(mask, jax.core.Tracer) and bool(mask.all() | ~mask.any()):
        raise ArgumentError(
            f"MaskedCoupling: its mask {'keeps' if mask.all() else 'moves'} all there is, nothing by the rest",
            remedy="part events in two: checkerboard(shape), or half_of_channels(shape)",
        )
    return mask


def _said(layer: Linear | None, condition: Conditions) -> Array | float:
    """What a condition adds at every pixel."""
    if layer is None:
        return 0.0
    if condition is None:
        raise ArgumentError("this flow was built for a condition, and none is given")
    return layer(condition)[:, None, None]


def _zeros(layer: Conv) -> Conv:
    return eqx.tree_at(lambda layer: layer.weight, layer, jnp.zeros_like(layer.weight))


__all__ = [
    "ChannelCoupling",
    "Conditioner",
    "MaskedCoupling",
    "ResidualConvolutions",
    "ThreeConvolutions",
    "checkerboard",
    "half_of_channels",
]
