"""Networks that bring any two points closer together: every layer's norm as a linear map is kept below a bound.

The norm is a true operator norm, that of a convolution of whole images included, followed by one power iteration for
each batch of training (`chainrule.nn.SpectralNorm`). Weights are scaled only where they exceed the bound, so that a
network can also do less. The activation is a Swish divided by its steepest slope.

Reference: Behrmann, Grathwohl, Chen, Duvenaud and Jacobsen, Invertible residual networks, ICML 2019.
"""

import math
from collections.abc import Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.networks.flows.base import Conditions
from chainrule.networks.flows.chain import Held
from chainrule.nn import Conv, Linear, SpectralNorm

_STEEPEST = 1.1
"""No Swish `x sigmoid(b x)` is steeper than this."""
_LONG = 200
"""Power iterations after which a norm is taken to be known."""


@final
class NormEstimate(Held):
    """The singular vectors of one layer: what `SpectralNorm` follows, without the layer itself."""

    followed: SpectralNorm

    def __init__(self, layer: Linear | Conv, sizes: tuple[int, int] | None, key: Key) -> None:
        norm = SpectralNorm(layer, key=key, sizes=sizes, iterations=1)
        self.followed = eqx.tree_at(lambda norm: norm.layer, norm, None)
        self.followed = converged(self, layer).followed

    def of(self, layer: Linear | Conv) -> SpectralNorm:
        """Both together again."""
        whole: SpectralNorm = eqx.tree_at(
            lambda norm: norm.layer, self.followed, layer, is_leaf=lambda leaf: leaf is None
        )
        return whole

    def moved(self, layer: Linear | Conv) -> Self:
        """One power iteration on."""
        norm = self.of(layer)
        point = jnp.zeros((1, *norm.left.shape), layer.weight.dtype)
        if not isinstance(layer, Conv):
            point = jnp.zeros((1, layer.weight.shape[0]), layer.weight.dtype)
        _, further = norm.advance(point)
        vectors = (further.left, further.right)
        return eqx.tree_at(lambda one: (one.followed.left, one.followed.right), self, vectors)


@final
class Contraction(eqx.Module):
    """A network `g` with `|g(x) - g(y)| <= bound |x - y|`: dense, or of convolutions of 3x3, 1x1 and 3x3 pixels.

    A condition shifts what its first layer gives, which changes no distance.

    >>> g = Contraction((2,), width=16, depth=2, bound=0.9, key=jax.random.key(0))
    >>> bool(g.lipschitz() <= 0.9 + 1e-3)
    True
    """

    layers: tuple[Linear | Conv, ...]
    slopes: Float[Array, " hidden"]
    """Of the activations, before a softplus."""
    given: Linear | None
    estimates: tuple[NormEstimate, ...]
    bound: float = eqx.field(static=True)

    def __init__(
        self, shape: tuple[int, ...], *, width: int, depth: int, bound: float, features: int = 0, key: Key
    ) -> None:
        if not 0 < bound < 1:
            raise ArgumentError(
                f"Contraction(bound={bound:g}): only with less than 1 there is an inverse", remedy="use 0.97"
            )
        key_layers, key_norms, key_given = jax.random.split(key, 3)
        keys = jax.random.split(key_layers, depth + 1)
        image = len(shape) == 3
        sizes = (shape[-1] if image else math.prod(shape), *(width,) * depth)
        pairs = zip(sizes, (*sizes[1:], sizes[0]), strict=True)
        if image:
            self.layers = tuple(
                Conv(2, before, after, 3 if number in (0, depth) else 1, key=keys[number])
                for number, (before, after) in enumerate(pairs)
            )
        else:
            self.layers = tuple(
                Linear(before, after, key=k) for (before, after), k in zip(pairs, keys, strict=True)
            )
        over = (shape[0], shape[1]) if image else None
        self.estimates = tuple(
            NormEstimate(layer, over, k)
            for layer, k in zip(self.layers, jax.random.split(key_norms, depth + 1), strict=True)
        )
        self.slopes = jnp.full(depth, 0.5)
        self.given = Linear(features, width, bias=False, key=key_given) if features else None
        self.bound = bound

    def __call__(self, x: Array, condition: Conditions = None) -> Array:
        """g(x), in the shape of x."""
        out = x if isinstance(self.layers[0], Conv) else x.reshape(len(x), -1)
        for number, layer in enumerate(self.layers):
            out = self._scaled(number, layer)(out).astype(x.dtype)
            if number == 0 and self.given is not None:
                if condition is None:
                    raise ArgumentError("this flow was built for a condition, and none is given")
                shift = self.given(condition)
                out = out + shift.reshape(len(shift), *(1,) * (out.ndim - 2), -1).astype(x.dtype)
            if number < len(self.slopes):
                slope = jax.nn.softplus(self.slopes[number]).astype(x.dtype)
                out = out * jax.nn.sigmoid(slope * out) / _STEEPEST
        return out.reshape(x.shape)

    def moved(self) -> Self:
        """With the estimates of its norms one power iteration on."""
        pairs = zip(self.estimates, jax.lax.stop_gradient(self.layers), strict=True)
        return eqx.tree_at(lambda g: g.estimates, self, tuple(one.moved(layer) for one, layer in pairs))

    def stretch(self, estimates: Sequence[NormEstimate]) -> Scalar:
        """What it stretches distances by at most, as far as these estimates of the norms of its layers know."""
        scaled = [self._scaled(number, layer) for number, layer in enumerate(self.layers)]
        norms = [one.of(layer).largest for one, layer in zip(estimates, scaled, strict=True)]
        return jnp.stack(norms).prod()

    def lipschitz(self) -> Scalar:
        """The same with norms worked out anew: it is below one, or there need not be an inverse."""
        return self.stretch(
            [converged(one, layer) for one, layer in zip(self.estimates, self.layers, strict=True)]
        )

    def _scaled(self, number: int, layer: Linear | Conv) -> Linear | Conv:
        """A layer with a norm of no more than its share of the bound."""
        share = self.bound ** (1 / len(self.layers))
        norm = self.estimates[number].of(layer).largest
        weight = layer.weight / jnp.maximum(1, norm / share).astype(layer.weight.dtype)
        scaled: Linear | Conv = eqx.tree_at(lambda layer: layer.weight, layer, weight)
        return scaled


@eqx.filter_jit
def converged(estimate: NormEstimate, layer: Linear | Conv) -> NormEstimate:
    """The estimate after many power iterations."""
    arrays, rest = eqx.partition(estimate, eqx.is_array)

    def further(_: Array, arrays: NormEstimate) -> NormEstimate:
        return eqx.filter(eqx.combine(arrays, rest).moved(layer), eqx.is_array)

    found: NormEstimate = eqx.combine(jax.lax.fori_loop(0, _LONG, further, arrays), rest)
    return found


__all__ = ["Contraction", "NormEstimate", "converged"]
