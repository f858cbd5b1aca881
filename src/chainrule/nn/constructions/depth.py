"""Depth against width: the tent map, whose composition doubles the number of pieces with every layer.

T(x) = 2 relu(x) - 4 relu(x - 1/2) folds [0, 1] over itself. Composed k times it has 2^k pieces on [0, 1], from two
units a layer; a network of one hidden layer needs 2^k - 1 units for that. And no shallow network comes close: see
`separation`.
"""

from dataclasses import dataclass
from typing import final

from chainrule.core.errors import ArgumentError
from chainrule.nn.constructions.network import Network, affine

_MOST = 50


def tent(compositions: int = 1) -> Network:
    """The tent map composed with itself so many times, two units a layer.

    >>> import jax.numpy as jnp
    >>> tent(2)(jnp.array([[0.0], [0.25], [0.5], [0.75], [1.0]]))[:, 0].tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0]
    """
    if not 1 <= compositions <= _MOST:
        raise ArgumentError(f"tent(compositions={compositions}): must lie between 1 and {_MOST}")
    first = affine([[1.0, 1.0]], [0.0, -0.5])
    fold = affine([[2.0, 2.0], [-4.0, -4.0]], [0.0, -0.5])
    last = affine([[2.0], [-4.0]], [0.0])
    return Network([first, *[fold] * (compositions - 1), last], ["relu"] * compositions + ["identity"])


@final
@dataclass(frozen=True)
class Separation:
    """A deep function, and the networks that cannot come near it."""

    compositions: int
    nodes: int
    """Of the deep network."""
    layers: int
    shallow_layers: int
    shallow_nodes: int
    distance: float
    """Least L1 distance on [0, 1] of any network with at most so many layers and nodes."""


def separation(layers: int) -> Separation:
    """Telgarsky's theorem (2016, arXiv:1602.04485) for shallow networks of this many layers, two or more.

    >>> separation(2)
    Separation(compositions=6, nodes=18, layers=12, shallow_layers=2, shallow_nodes=4, distance=0.03125)
    """
    if layers < 2:
        raise ArgumentError(f"separation(layers={layers}): the theorem holds from two layers on")
    square = layers**2
    return Separation(square + 2, 3 * square + 6, 2 * square + 4, layers, 2**layers, 1 / 32)


__all__ = ["Separation", "separation", "tent"]
