"""Flows of images on several scales: half of the channels leave after each, and finer scales cost no further layers.

A level squeezes the image, maps it by layers of its own, and hands out half of the channels as a code; the other half
is the image of the next level. What is handed out is a Gaussian whose mean and deviation are said by the half that
stays, so that it becomes standard normal noise: codes of all levels have one distribution, and temperature means the
same for all of them. Together they have as many numbers as the image and are kept in its shape, finest level first.

References: Dinh, Sohl-Dickstein and Bengio, Density estimation using Real NVP, ICLR 2017; Kingma and Dhariwal, Glow:
generative flow with invertible 1x1 convolutions, NeurIPS 2018.
"""

import math
from collections.abc import Callable, Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import Bijection, Conditions, Elementary, Events, LogDets, Mapped, Passes
from chainrule.networks.flows.elementwise import event_shape, over_event
from chainrule.networks.flows.squeeze import squeeze, squeezed, unsqueeze
from chainrule.nn import Conv, Linear

BOUND = 5.0
"""Logarithms of deviations stay below it."""


@final
class SplitPrior(eqx.Module):
    """The half that leaves, as noise: `(z - mean(kept)) / deviation(kept)`, by one convolution that begins at zero."""

    network: Conv

    def __init__(self, kept: int, leaving: int, *, key: Key) -> None:
        layer = Conv(2, kept, 2 * leaving, 3, key=key)
        self.network = eqx.tree_at(lambda layer: layer.weight, layer, jnp.zeros_like(layer.weight))

    def numbers(self, kept: Array) -> tuple[Array, Array]:
        """Mean and logarithm of the deviation."""
        mean, raw = jnp.split(self.network(kept).astype(kept.dtype), 2, axis=-1)
        return mean, BOUND * jnp.tanh(raw / BOUND)

    def leaving(self, kept: Array, code: Array) -> Mapped:
        """The half that left, from its code: by the deviation, plus the mean."""
        mean, spread = self.numbers(kept)
        return Mapped(code * jnp.exp(spread) + mean, over_event(spread))

    def code(self, kept: Array, leaving: Array) -> Mapped:
        """The inverse of `leaving`."""
        mean, spread = self.numbers(kept)
        return Mapped((leaving - mean) * jnp.exp(-spread), -over_event(spread))


@final
class TopPrior(Elementary):
    """The last code as noise: a mean and a deviation for each channel, which a condition may move. Both begin at zero.

    >>> abs(float(TopPrior((2, 2, 8)).inverse(jnp.ones((1, 2, 2, 8))).log_det[0]))
    0.0
    """

    mean: Float[Array, " channels"]
    log_deviation: Float[Array, " channels"]
    given: Linear | None
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], features: int = 0) -> None:
        self.shape = event_shape("TopPrior", shape)
        channels = shape[-1]
        self.mean, self.log_deviation = jnp.zeros(channels), jnp.zeros(channels)
        self.given = None
        if features:
            layer = Linear(features, 2 * channels, bias=False, key=jax.random.key(0))
            self.given = eqx.tree_at(lambda layer: layer.weight, layer, jnp.zeros_like(layer.weight))

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the deviation, plus the mean."""
        mean, spread = self._numbers(z, condition)
        return Mapped(z * jnp.exp(spread) + mean, over_event(jnp.broadcast_to(spread, z.shape)))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Less the mean, divided by the deviation."""
        mean, spread = self._numbers(x, condition)
        return Mapped((x - mean) * jnp.exp(-spread), -over_event(jnp.broadcast_to(spread, x.shape)))

    def _numbers(self, like: Array, condition: Conditions) -> tuple[Array, Array]:
        both = jnp.concatenate([self.mean, self.log_deviation])[None]
        if self.given is not None:
            if condition is None:
                raise ArgumentError("this flow was built for a condition, and none is given")
            both = both + self.given(condition)
        spread_out = both.reshape(len(both), *(1,) * (like.ndim - 2), -1).astype(like.dtype)
        mean, raw = jnp.split(spread_out, 2, axis=-1)
        return mean, BOUND * jnp.tanh(raw / BOUND)


@final
class ImageScale(eqx.Module):
    """What happens to an image on one scale: layers before it is squeezed, layers after, and what leaves."""

    before: Bijection | None
    after: Bijection | None
    """Without it the image is not squeezed."""
    prior: SplitPrior | None
    """Without it nothing stays: all of the image is code."""

    def __check_init__(self) -> None:
        if self.before is None and self.after is None:
            raise ArgumentError("ImageScale: it needs layers before squeezing, after it, or both")

    @property
    def bijections(self) -> tuple[Bijection, ...]:
        """Those that there are, from data to codes."""
        return tuple(layer for layer in (self.before, self.after) if layer is not None)


@final
class MultiScale(Bijection):
    """Levels from the finest to the coarsest; codes are kept in the shape of the image.

    >>> from chainrule.networks.flows.normalization import ActNorm
    >>> fine = ImageScale(None, ActNorm((4, 4, 4)), SplitPrior(2, 2, key=jax.random.key(0)))
    >>> flow = MultiScale((8, 8, 1), [fine, ImageScale(None, ActNorm((2, 2, 8)), None)], TopPrior((2, 2, 8)))
    >>> [code.shape for code in flow.codes(flow.inverse(jnp.ones((1, 8, 8, 1))).value)]
    [(1, 4, 4, 2), (1, 2, 2, 8)]
    """

    levels: tuple[ImageScale, ...]
    top: TopPrior
    shape: tuple[int, ...] = eqx.field(static=True)
    code_shapes: tuple[tuple[int, int, int], ...] = eqx.field(static=True)
    """Of the codes of all levels, finest first."""

    def __init__(self, shape: tuple[int, ...], levels: Sequence[ImageScale], top: TopPrior) -> None:
        self.shape, self.levels, self.top = event_shape("MultiScale", shape), tuple(levels), top
        shapes = []
        now = (shape[0], shape[1], shape[2])
        for number, level in enumerate(self.levels):
            _check_shape(number, level.before, now)
            now = now if level.after is None else squeezed(now)
            _check_shape(number, level.after, now)
            if (level.prior is None) != (number == len(self.levels) - 1):
                raise ArgumentError("MultiScale: half of the channels leaves after every level but the last")
            kept = now[2] // 2 if level.prior else 0
            shapes.append((*now[:2], now[2] - kept))
            now = (*now[:2], kept)
        _check_shape(len(shapes) - 1, top, shapes[-1])
        self.code_shapes = tuple(shapes)

    @property
    def passes(self) -> Passes:
        """The sum over the layers."""
        each = [layer.passes for level in self.levels for layer in level.bijections]
        return Passes(sum(one.forward for one in each), sum(one.inverse for one in each))

    def codes(self, z: Events) -> list[Array]:
        """The codes of all levels, finest first, from what `inverse` gives."""
        flat, found, begin = z.reshape(len(z), -1), [], 0
        for shape in self.code_shapes:
            size = math.prod(shape)
            found.append(flat[:, begin : begin + size].reshape(len(z), *shape))
            begin += size
        return found

    def joined(self, codes: Sequence[Array]) -> Events:
        """The inverse of `codes`."""
        given, wanted = [tuple(code.shape[1:]) for code in codes], list(self.code_shapes)
        if given != wanted:
            raise ArgumentError(
                f"codes of shapes {', '.join(map(str, given))}: those of this flow are {', '.join(map(str, wanted))}",
                remedy="give one code for each level, finest first, as `codes` has them",
            )
        flat = [code.reshape(len(code), -1) for code in codes]
        return jnp.concatenate(flat, axis=1).reshape(len(codes[0]), *self.shape)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """Coarsest level first."""
        codes = self.codes(z)
        x, total = self.top.forward(codes[-1], condition)
        for level, code in zip(reversed(self.levels), reversed(codes), strict=True):
            if level.prior is not None:
                leaving, log_det = level.prior.leaving(x, code)
                x, total = jnp.concatenate([x, leaving], axis=-1), total + log_det
            if level.after is not None:
                x, log_det = level.after.forward(x, condition)
                x, total = unsqueeze(x), total + log_det
            if level.before is not None:
                x, log_det = level.before.forward(x, condition)
                total = total + log_det
        return Mapped(x, total)

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Finest level first."""
        return self.normalised(x, condition, lambda layer, x: (layer.inverse(x, condition), layer))[0]

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """That of each layer, with a key of its own."""
        keys = iter(jax.random.split(key, 2 * len(self.levels)))

        def estimate(layer: Bijection, x: Array) -> tuple[Mapped, Bijection]:
            return layer.inverse_estimate(x, condition, next(keys)), layer

        return self.normalised(x, condition, estimate)[0]

    def trained_inverse(self, x: Events, condition: Conditions, key: Key) -> tuple[Mapped, Self]:
        """That of each layer, with a key of its own."""
        keys = iter(jax.random.split(key, 2 * len(self.levels)))
        return self.normalised(x, condition, lambda layer, x: layer.trained_inverse(x, condition, next(keys)))

    def started(self, x: Events, condition: Conditions) -> Self:
        """Every layer started by what the layers between it and the data make of them."""

        def start(layer: Bijection, x: Array) -> tuple[Mapped, Bijection]:
            begun = layer.started(x, condition)
            return begun.inverse(x, condition), begun

        return self.normalised(x, condition, start)[1]

    def normalised(
        self,
        x: Events,
        condition: Conditions,
        step: Callable[[Bijection, Array], tuple[Mapped, Bijection]],
    ) -> tuple[Mapped, Self]:
        """From data to codes by `step` at every layer, and the flow with the layers it gives."""
        total: LogDets = jnp.zeros(len(x), x.dtype)
        codes, levels = [], []
        for level in self.levels:
            before, after = level.before, level.after
            if before is not None:
                (x, log_det), before = step(before, x)
                total = total + log_det
            if after is not None:
                (x, log_det), after = step(after, squeeze(x))
                total = total + log_det
            levels.append(ImageScale(before, after, level.prior))
            if level.prior is None:
                x, log_det = self.top.inverse(x, condition)
                codes.append(x)
                total = total + log_det
            else:
                kept = x.shape[-1] // 2
                x, leaving = x[..., :kept], x[..., kept:]
                code, log_det = level.prior.code(x, leaving)
                codes.append(code)
                total = total + log_det
        moved = eqx.tree_at(lambda flow: flow.levels, self, tuple(levels))
        return Mapped(self.joined(codes), total), moved


def _check_shape(number: int, layer: Bijection | None, shape: tuple[int, ...]) -> None:
    if layer is not None and layer.shape != shape:
        raise ArgumentError(
            f"MultiScale: at level {number} events have shape {shape}, a layer there maps {layer.shape}"
        )


__all__ = ["ImageScale", "MultiScale", "SplitPrior", "TopPrior"]
