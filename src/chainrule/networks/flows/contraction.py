"""Networks that bring any two points closer together: every layer's norm as a linear map is kept below a bound.

The norm is an operator norm, and what stands for it is never less: of a matrix a root of the length of a high power of
`W' W`, of a convolution the largest such number among the matrices that its kernel is at every frequency. Estimates by
power iteration, as they serve elsewhere (`chainrule.nn.SpectralNorm`), are never more, and while weights move they lie
several per cent below: with bounds this close to 1, blocks would no longer have an inverse. Weights are scaled only
where they exceed their share of the bound, so that a network can also do less. The activation is a Swish divided by its
steepest slope.

References: Behrmann, Grathwohl, Chen, Duvenaud and Jacobsen, Invertible residual networks, ICML 2019; Sedghi, Gupta and
Long, The singular values of convolutional layers, ICLR 2019; Chen et al., Residual flows, NeurIPS 2019.
"""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.networks.flows.base import Conditions
from chainrule.nn import Conv, Linear

_STEEPEST = 1.1
"""No Swish `x sigmoid(b x)` is steeper than this."""
_SQUARINGS = 6


def largest_stretch(
    weight: Float[Array, "*kernel inputs outputs"], sides: tuple[int, ...] = ()
) -> Float[Array, ""]:
    """What a linear map stretches vectors by at most: never less than its norm, and hardly more.

    With `sides` the weight is a kernel, and the map a convolution of images of these sides with zeros around them: part
    of one on a torus so large that no edge meets another, which takes every frequency by itself. With s singular values
    the result is above the norm of that map by a factor of at most `s^(1/256)`.

    >>> float(largest_stretch(jnp.diag(jnp.array([3.0, 1.0]))))
    3.0
    """
    wide = weight.astype(jnp.promote_types(weight.dtype, jnp.float32))
    if sides:
        torus = [side + size - 1 for side, size in zip(sides, weight.shape, strict=False)]
        wide = jnp.fft.rfft2(wide, s=torus, axes=(0, 1)).reshape(-1, *weight.shape[-2:])
    else:
        wide = wide[None]
    across = wide.conj().swapaxes(-1, -2)
    gram = _product(across, wide) if weight.shape[-1] <= weight.shape[-2] else _product(wide, across)
    logarithm: Array = jnp.zeros(())
    for turn in range(_SQUARINGS + 1):
        length = jnp.sqrt(jnp.maximum(jnp.square(jnp.abs(gram)).sum(axis=(1, 2)), 1e-30))
        logarithm = logarithm + jnp.log(length) / 2**turn
        gram = gram / length[:, None, None]
        gram = _product(gram, gram)
    return jnp.exp(logarithm.max() / 2).astype(weight.dtype)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


@final
class Contraction(eqx.Module):
    """A network `g` with `|g(x) - g(y)| <= bound |x - y|`: dense, or of convolutions of 3x3, 1x1 and 3x3 pixels.

    A condition shifts what its first layer gives, which changes no distance.

    >>> g = Contraction((2,), width=16, depth=2, bound=0.9, key=jax.random.key(0))
    >>> bool(g.lipschitz() <= 0.9 + 1e-6)
    True
    """

    layers: tuple[Linear | Conv, ...]
    slopes: Float[Array, " hidden"]
    """Of the activations, before a softplus."""
    given: Linear | None
    bound: float = eqx.field(static=True)
    sides: tuple[int, ...] = eqx.field(static=True)
    """Of images; empty for vectors."""

    def __init__(
        self, shape: tuple[int, ...], *, width: int, depth: int, bound: float, features: int = 0, key: Key
    ) -> None:
        if not 0 < bound < 1:
            raise ArgumentError(
                f"Contraction(bound={bound:g}): only with less than 1 there is an inverse", remedy="use 0.97"
            )
        key_layers, key_given = jax.random.split(key)
        keys = jax.random.split(key_layers, depth + 1)
        self.bound, self.sides = bound, shape[:2] if len(shape) == 3 else ()
        sizes = (shape[-1] if self.sides else math.prod(shape), *(width,) * depth)
        pairs = list(zip(sizes, (*sizes[1:], sizes[0]), strict=True))
        if self.sides:
            self.layers = tuple(
                Conv(2, before, after, 3 if number in (0, depth) else 1, key=keys[number])
                for number, (before, after) in enumerate(pairs)
            )
        else:
            self.layers = tuple(
                Linear(before, after, key=k) for (before, after), k in zip(pairs, keys, strict=True)
            )
        self.slopes = jnp.full(depth, 0.5)
        self.given = Linear(features, width, bias=False, key=key_given) if features else None

    def __call__(self, x: Array, condition: Conditions = None) -> Array:
        """g(x), in the shape of x."""
        out = x if self.sides else x.reshape(len(x), -1)
        for number, layer in enumerate(self.scaled()):
            out = layer(out).astype(x.dtype)
            if number == 0 and self.given is not None:
                if condition is None:
                    raise ArgumentError("this flow was built for a condition, and none is given")
                shift = self.given(condition)
                out = out + shift.reshape(len(shift), *(1,) * (out.ndim - 2), -1).astype(x.dtype)
            if number < len(self.slopes):
                slope = jax.nn.softplus(self.slopes[number]).astype(x.dtype)
                out = out * jax.nn.sigmoid(slope * out) / _STEEPEST
        return out.reshape(x.shape)

    def scaled(self) -> tuple[Linear | Conv, ...]:
        """The layers as they are used, none with a norm above its share of the bound."""
        share = self.bound ** (1 / len(self.layers))
        return tuple(_shrunk(layer, jnp.maximum(1, norm / share)) for layer, norm in self._norms(self.layers))

    def lipschitz(self) -> Scalar:
        """What it stretches distances by at most: the product of the norms of its layers."""
        return jnp.stack([norm for _, norm in self._norms(self.scaled())]).prod()

    def _norms(self, layers: tuple[Linear | Conv, ...]) -> list[tuple[Linear | Conv, Array]]:
        found = []
        for layer in layers:
            one_pixel = self.sides and layer.weight.shape[:2] == (1, 1)
            weight = layer.weight[0, 0] if one_pixel else layer.weight
            found.append((layer, largest_stretch(weight, () if one_pixel else self.sides)))
        return found


def _shrunk(layer: Linear | Conv, by: Array) -> Linear | Conv:
    smaller: Linear | Conv = eqx.tree_at(lambda layer: layer.weight, layer, layer.weight / by)
    return smaller


__all__ = ["Contraction", "largest_stretch"]
