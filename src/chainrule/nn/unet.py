"""A small U-Net (Ronneberger et al., 2015): halve and widen, then double again with what was seen before.

Every level is two 3x3 convolutions. On the way up, a transposed convolution doubles the size and what the same level
saw on the way down is put beside it. A conditioning vector, where there is one, scales and shifts the channels of every
level (Perez et al., 2018), which is how a denoiser is told the time and the class.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.nn.activations import activation
from chainrule.nn.convolution.layers import Conv, ConvTranspose
from chainrule.nn.linear import Linear
from chainrule.nn.normalize import Norm, norm
from chainrule.nn.pooling import max_pool


@final
class DoubleConv(eqx.Module):
    """Two 3x3 convolutions, each normalised and activated; the condition acts after the first normalisation."""

    first: Conv
    second: Conv
    norms: tuple[Norm, Norm]
    film: Linear | None
    activation: str = eqx.field(static=True)

    def __init__(
        self, inputs: int, outputs: int, *, condition: int, normalization: str, activation: str, key: Key
    ) -> None:
        keys = jax.random.split(key, 3)
        self.first = _conv(inputs, outputs, activation, keys[0])
        self.second = _conv(outputs, outputs, activation, keys[1])
        self.norms = (norm(normalization, outputs, 2), norm(normalization, outputs, 2))
        # Zero weights: at the start the condition changes nothing.
        self.film = Linear(condition, 2 * outputs, initializer="zero", key=keys[2]) if condition else None
        self.activation = activation

    def __call__(
        self, x: Float[Array, "*axes inputs"], condition: Float[Array, "*leading features"] | None
    ) -> Float[Array, "*axes outputs"]:
        """The features of this level."""
        act = activation(self.activation)
        h = self.norms[0](self.first(x))
        if self.film is not None and condition is not None:
            scale, shift = jnp.split(self.film(condition)[..., None, None, :], 2, axis=-1)
            h = h * (1 + scale) + shift
        return act(self.norms[1](self.second(act(h))))


@final
class UNet(eqx.Module):
    """Pictures to pictures of the same size, whose sides are multiples of 2 to the number of halvings.

    >>> network = UNet(1, 2, widths=(16, 32, 64), key=jax.random.key(0))
    >>> network(jnp.zeros((3, 64, 64, 1))).shape
    (3, 64, 64, 2)
    >>> sum(a.size for a in jax.tree.leaves(network))
    116770
    """

    down: tuple[DoubleConv, ...]
    up: tuple[ConvTranspose, ...]
    merge: tuple[DoubleConv, ...]
    head: Conv

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        widths: Sequence[int] = (32, 64, 128),
        condition: int = 0,
        normalization: str = "none",
        activation: str = "relu",
        key: Key,
    ) -> None:
        if normalization == "batch":
            raise ArgumentError(
                'UNet(normalization="batch"): running statistics have no place here',
                remedy='use normalization="group"',
            )
        depth = len(widths) - 1
        keys = jax.random.split(key, 3 * depth + 2)

        def double(inputs: int, outputs: int, key: Key) -> DoubleConv:
            return DoubleConv(
                inputs,
                outputs,
                condition=condition,
                normalization=normalization,
                activation=activation,
                key=key,
            )

        self.down = tuple(double(a, b, k) for a, b, k in zip([inputs, *widths], widths, keys, strict=False))
        turns = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = tuple(
            ConvTranspose(2, a, b, 2, stride=2, key=k)
            for (a, b), k in zip(turns, keys[depth + 1 :], strict=False)
        )
        self.merge = tuple(
            double(2 * b, b, k) for (_, b), k in zip(turns, keys[2 * depth + 1 :], strict=False)
        )
        self.head = Conv(2, widths[0], outputs, 1, key=keys[-1])

    def __call__(
        self,
        x: Float[Array, "*leading height width inputs"],
        condition: Float[Array, "*leading features"] | None = None,
    ) -> Float[Array, "*leading height width outputs"]:
        """The picture that comes out."""
        halvings = len(self.up)
        if any(n % 2**halvings for n in x.shape[-3:-1]):
            raise ArgumentError(
                f"UNet: sides {x.shape[-3:-1]} are not multiples of {2**halvings}",
                remedy="pad the pictures, or use fewer widths",
            )
        seen = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else max_pool(x, 2), condition)
            seen.append(x)
        for grow, block, beside in zip(self.up, self.merge, reversed(seen[:-1]), strict=True):
            x = block(jnp.concatenate([beside, grow(x)], axis=-1), condition)
        return self.head(x)


def _conv(inputs: int, outputs: int, act: str, key: Key) -> Conv:
    return Conv(2, inputs, outputs, 3, padding=1, gain=activation(act).gain, key=key)


__all__ = ["DoubleConv", "UNet"]
