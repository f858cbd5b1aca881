"""The regions on which a ReLU network is affine: counted, bounded, and cut out exactly.

On a line the pieces are followed exactly (`along` and `piecewise.pieces`); on a plane each unit cuts every polygon it
crosses in two; anywhere, activation patterns of sampled points count the regions that were met. Far away along a ray
the network is one affine map, so that the softmax of its outputs tends to a corner: certainty where there are no
data.

References: Montúfar et al., 2014, arXiv:1402.1869; Hein, Andriushchenko and Bitterwolf, 2019, arXiv:1812.05720.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.nn.constructions.network import Network, affine, numbers
from chainrule.nn.constructions.piecewise import SLOPES, pieces

_THIN = 1e-9
"""Polygons that cover less than this share of the window are rounding."""


@final
@dataclass(frozen=True)
class Region:
    """A polygon on which the network is one affine map of the plane's coordinates."""

    vertices: np.ndarray
    """Corners in order, shape (corners, 2)."""
    pattern: tuple[bool, ...]
    """Which hidden units are on."""
    weight: np.ndarray
    """Shape (2, outputs)."""
    bias: np.ndarray


def along(network: Network, start: Any, direction: Any) -> Network:
    """The network on the line `start + t direction`, as a network of the one input t."""
    start, direction = np.asarray(start, dtype=np.float64), np.asarray(direction, dtype=np.float64)
    if start.shape != direction.shape or start.shape != (network.sizes[0],):
        raise ArgumentError(
            f"along: start {start.shape} and direction {direction.shape} must have the {network.sizes[0]} inputs"
        )
    first = network.layers[0]
    weight, bias = numbers(first)
    line = affine((direction @ weight)[None, :], start @ weight + bias)
    return Network([line, *network.layers[1:]], network.activations)


def count_on_line(network: Network, start: Any, direction: Any, interval: tuple[float, float]) -> int:
    """Affine pieces that an interval of a line meets, neighbours with the same map counted once.

    >>> from chainrule.nn.constructions.depth import tent
    >>> count_on_line(tent(6), [0.0], [1.0], (0.0, 1.0))
    64
    """
    low, high = interval
    breaks = pieces(along(network, start, direction)).breaks
    room = 1e-9 * (high - low)
    return int(((breaks > low + room) & (breaks < high - room)).sum()) + 1


def on_plane(
    network: Network,
    window: tuple[float, float, float, float],
    *,
    origin: Any = None,
    axes: Any = None,
    max_regions: int = 100_000,
) -> list[Region]:
    """Every region inside a window (left, right, bottom, top) of the plane `origin + s axes[0] + t axes[1]`.

    For a network of two inputs the plane is the input space unless another one is given.
    """
    left, right, bottom, top = window
    if not (left < right and bottom < top):
        raise ArgumentError(f"on_plane(window={window}): needs left < right and bottom < top")
    origin = np.zeros(network.sizes[0]) if origin is None else np.asarray(origin, dtype=np.float64)
    axes = np.eye(2) if axes is None else np.asarray(axes, dtype=np.float64)
    if origin.shape != (network.sizes[0],) or axes.shape != (2, network.sizes[0]):
        raise ArgumentError(
            f"on_plane: the network has {network.sizes[0]} inputs; origin has shape {origin.shape}, axes {axes.shape}",
            remedy="give a point and two directions of the input space",
        )
    square = np.array([[left, bottom], [right, bottom], [right, top], [left, top]], dtype=np.float64)
    smallest = _THIN * _area(square)
    found = [Region(square, (), axes, origin)]
    for layer, name in zip(network.layers, network.activations, strict=True):
        _slope(name)
        weight, bias = numbers(layer)
        moved = [Region(r.vertices, r.pattern, r.weight @ weight, r.bias @ weight + bias) for r in found]
        found = moved if name == "identity" else [cut for r in moved for cut in _cut(r, name, smallest)]
        if len(found) > max_regions:
            raise ArgumentError(
                f"on_plane: more than max_regions={max_regions:,} regions", remedy="look at a smaller window"
            )
    return found


def patterns(network: Network, x: Any) -> Bool[np.ndarray, "batch units"]:
    """Which hidden units are on at each point; rows that differ lie in different regions."""
    state = np.asarray(x, dtype=np.float64)
    on = []
    for layer, name in zip(network.layers[:-1], network.activations[:-1], strict=True):
        weight, bias = numbers(layer)
        before = state @ weight + bias[None, :]
        on.append(before > 0)
        state = before * np.where(before > 0, 1.0, _slope(name))
    return np.concatenate(on, axis=1) if on else np.zeros((len(state), 0), dtype=bool)


def count_sampled(network: Network, x: Any) -> int:
    """Number of different activation patterns among the points: a lower bound of the number of regions."""
    return len(np.unique(patterns(network, x), axis=0))


def most_regions(units: int, inputs: int) -> int:
    """The most regions that one layer of ReLU units can cut the input space into (Zaslavsky, 1975).

    >>> most_regions(5, 2)
    16
    """
    return sum(math.comb(units, j) for j in range(inputs + 1))


def reachable_regions(width: int, inputs: int, hidden_layers: int) -> int:
    """A number of regions that some network of this shape reaches (Montúfar et al., 2014); needs width >= inputs.

    >>> reachable_regions(4, 2, 3)
    176
    """
    if width < inputs or inputs < 1 or hidden_layers < 1:
        raise ArgumentError(
            f"reachable_regions(width={width}, inputs={inputs}, hidden_layers={hidden_layers}): the theorem needs "
            "width >= inputs >= 1 and a hidden layer"
        )
    return (width // inputs) ** (inputs * (hidden_layers - 1)) * most_regions(width, inputs)


@final
@dataclass(frozen=True)
class FarField:
    """What a network does far out along a ray: outputs grow like `slope t`, from `settled` on exactly."""

    settled: float
    """Distance after which no unit changes any more."""
    slope: np.ndarray
    intercept: np.ndarray
    confidence: float
    """What the largest softmax probability tends to."""


def far_field(network: Network, direction: Any) -> FarField:
    """The affine map that a ReLU network becomes along `t direction`, and the confidence it ends with."""
    direction = np.asarray(direction, dtype=np.float64)
    found = pieces(along(network, np.zeros_like(direction), direction))
    slope, intercept = found.slopes[-1], found.intercepts[-1]
    best = np.isclose(slope, slope.max(), rtol=1e-9, atol=1e-12)
    logits = intercept[best]
    share = np.exp(logits - logits.max())
    settled = max(float(found.breaks[-1]), 0.0) if len(found.breaks) else 0.0
    return FarField(settled, slope, intercept, float((share / share.sum()).max()))


def _slope(name: str) -> float:
    """Slope of an activation on the negative side."""
    if name not in SLOPES:
        raise ArgumentError(
            f"regions of a network with {name}: it is not piecewise linear and continuous",
            remedy=f"its activations must be among {', '.join(SLOPES)}",
        )
    return SLOPES[name]


def _cut(region: Region, name: str, smallest: float) -> list[Region]:
    """The parts into which the units of one layer cut a region, with the activation applied."""
    parts: list[tuple[np.ndarray, tuple[bool, ...]]] = [(region.vertices, ())]
    for unit in range(region.weight.shape[1]):
        normal, offset = region.weight[:, unit], region.bias[unit]
        parts = [
            (side, (*on, is_on))
            for vertices, on in parts
            for is_on, side in _halves(vertices, normal, offset, smallest)
        ]
    factors = [np.where(on, 1.0, SLOPES[name]) for _, on in parts]
    return [
        Region(vertices, region.pattern + on, region.weight * f[None, :], region.bias * f)
        for (vertices, on), f in zip(parts, factors, strict=True)
    ]


def _halves(
    vertices: np.ndarray, normal: np.ndarray, offset: float, smallest: float
) -> list[tuple[bool, np.ndarray]]:
    height = vertices @ normal + offset
    if (height >= 0).all() and (height > 0).any():
        return [(True, vertices)]
    if (height <= 0).all():
        return [(False, vertices)]
    halves = [(True, _clip(vertices, height)), (False, _clip(vertices, -height))]
    wide = [(is_on, half) for is_on, half in halves if len(half) >= 3 and _area(half) > smallest]
    return wide or [(bool(height.mean() > 0), vertices)]


def _clip(vertices: np.ndarray, height: np.ndarray) -> np.ndarray:
    """The part of a convex polygon where a linear function, given at its corners, is not negative."""
    kept = []
    for i in range(len(vertices)):
        j = (i + 1) % len(vertices)
        if height[i] >= 0:
            kept.append(vertices[i])
        if height[i] * height[j] < 0:
            share = height[i] / (height[i] - height[j])
            kept.append(vertices[i] + share * (vertices[j] - vertices[i]))
    return np.array(kept).reshape(-1, 2)


def _area(vertices: np.ndarray) -> float:
    following = np.roll(vertices, -1, axis=0)
    return abs(float((vertices[:, 0] * following[:, 1] - vertices[:, 1] * following[:, 0]).sum())) / 2


__all__ = [
    "FarField",
    "Region",
    "along",
    "count_on_line",
    "count_sampled",
    "far_field",
    "most_regions",
    "on_plane",
    "patterns",
    "reachable_regions",
]
