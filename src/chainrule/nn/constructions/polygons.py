"""Polygons as networks: 1 inside, -1 outside.

A convex polygon with m sides is m sign units, one for each side and pointing inwards, and sign(sum - (m - 1)): the
sum is m inside and at most m - 2 outside. A union of convex polygons takes one more layer, and a polygon that is not
convex is the union of its triangles.

Sign is -1 at zero, so inward units leave the border out. The triangles of a polygon are closed instead (outward
units, turned around), because a point on the cut between two of them belongs to the polygon.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.nn.constructions.network import Network, affine


def convex(vertices: Any, *, closed: bool = False, units: str = "sign") -> Network:
    """The network that tells the inside of a convex polygon from its outside; the border is inside if `closed`.

    With `units="step"` everything is 0 or 1 and the threshold is m - 1/2.

    >>> import jax.numpy as jnp
    >>> triangle = convex([[0, 0], [4, 0], [0, 4]])
    >>> triangle(jnp.array([[1.0, 1.0], [3.0, 3.0], [-1.0, 5.0]]))[:, 0].tolist()
    [1.0, -1.0, -1.0]
    """
    check_choice("convex", "units", units, ["sign", "step"])
    weight, bias = _sides(_counterclockwise(_polygon(vertices)))
    m = len(bias)
    if closed:
        first, factor = affine(-weight, -bias), -1.0
        last = -(m - 1.0) if units == "sign" else 0.5
    else:
        first, factor = affine(weight, bias), 1.0
        last = -(m - 1.0) if units == "sign" else -(m - 0.5)
    return Network([first, affine(np.full((m, 1), factor), [last])], [units, units])


def union(polygons: Sequence[Any], *, closed: bool = True) -> Network:
    """The network of a union of convex polygons: one hidden unit more for each.

    >>> import jax.numpy as jnp
    >>> two = union([[[0, 0], [1, 0], [1, 1], [0, 1]], [[3, 0], [4, 0], [4, 1], [3, 1]]])
    >>> two(jnp.array([[0.5, 0.5], [3.5, 0.5], [2.0, 0.5]]))[:, 0].tolist()
    [1.0, 1.0, -1.0]
    """
    if not polygons:
        raise ArgumentError("union(polygons=[]): needs at least one polygon")
    parts = [_sides(_counterclockwise(_polygon(one))) for one in polygons]
    side = -1.0 if closed else 1.0
    weight = side * np.concatenate([w for w, _ in parts], axis=1)
    bias = side * np.concatenate([b for _, b in parts])
    inside = np.zeros((len(bias), len(parts)))
    first = 0
    for number, (_, b) in enumerate(parts):
        inside[first : first + len(b), number] = side
        first += len(b)
    threshold = [-(len(b) - 1.0) for _, b in parts]
    count = len(parts)
    layers = [affine(weight, bias), affine(inside, threshold), affine(np.ones((count, 1)), [count - 1.0])]
    return Network(layers, ["sign", "sign", "sign"])


def polygon(vertices: Any) -> Network:
    """The network of any simple polygon, its border included: the union of its triangles.

    >>> import jax.numpy as jnp
    >>> arrow = polygon([[0, 0], [2, 1], [0, 2], [1, 1]])
    >>> arrow(jnp.array([[1.5, 1.0], [0.5, 1.0]]))[:, 0].tolist()
    [1.0, -1.0]
    """
    return union(triangulate(vertices))


def triangulate(vertices: Any) -> list[np.ndarray]:
    """Triangles that cover a simple polygon, by cutting ears (Meisters, 1975)."""
    points = _simple(vertices)
    if _area(points) < 0:
        points = points[::-1]
    left = list(range(len(points)))
    triangles = []
    while len(left) > 3:
        for index in range(len(left)):
            a, b, c = (points[left[(index + shift) % len(left)]] for shift in (-1, 0, 1))
            others = points[[i for i in left if not any((points[i] == p).all() for p in (a, b, c))]]
            if _turn(a, b, c) > 0 and not _any_inside(others, a, b, c):
                triangles.append(np.stack([a, b, c]))
                del left[index]
                break
            if _turn(a, b, c) == 0:  # a vertex on a straight side
                del left[index]
                break
        else:
            raise ArgumentError(
                "polygon(vertices): the sides cross each other", remedy="list the corners in order"
            )
    last = points[left]
    return [*triangles, last] if _turn(*last) > 0 else triangles


def _polygon(vertices: Any) -> np.ndarray:
    points = np.asarray(vertices, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3 or not np.isfinite(points).all():
        raise ArgumentError(
            f"vertices of shape {points.shape}: a polygon has at least three finite corners (x, y)"
        )
    return points


def _counterclockwise(points: np.ndarray) -> np.ndarray:
    ordered = points if _area(points) > 0 else points[::-1]
    turns = [_turn(*(ordered[(i + k) % len(ordered)] for k in range(3))) for i in range(len(ordered))]
    angles = np.arctan2(*(np.roll(ordered, -1, axis=0) - ordered).T[::-1])
    winding = np.mod(np.diff(angles, append=angles[0]), 2 * np.pi).sum()
    if min(turns) <= 0 or winding > 2 * np.pi + 1e-6:
        raise ArgumentError(
            "convex(vertices): the corners do not form a strictly convex polygon in this order",
            remedy="for other polygons: constructions.polygon(vertices)",
        )
    return ordered


def _simple(vertices: Any) -> np.ndarray:
    points = _polygon(vertices)
    count = len(points)
    for i in range(count):
        for j in range(i + 1, count):
            a, b, c, d = points[i], points[(i + 1) % count], points[j], points[(j + 1) % count]
            if _turn(a, b, c) * _turn(a, b, d) < 0 and _turn(c, d, a) * _turn(c, d, b) < 0:
                raise ArgumentError(
                    f"polygon(vertices): side {i} crosses side {j}",
                    remedy="list the corners in order around it",
                )
    if _area(points) == 0:
        raise ArgumentError("polygon(vertices): its area is zero")
    return points


def _sides(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of the units that are positive on the inner side of each side."""
    along = np.roll(points, -1, axis=0) - points
    inward = np.stack([-along[:, 1], along[:, 0]])
    # Read at the same end from both sides, so that the two triangles at a cut agree about it to the last bit.
    ends = np.stack([points, np.roll(points, -1, axis=0)])
    first = np.lexsort((ends[:, :, 1], ends[:, :, 0]), axis=0)[0]
    anchor = ends[first, np.arange(len(points))]
    return inward, -(inward.T * anchor).sum(axis=1)


def _area(points: np.ndarray) -> float:
    following = np.roll(points, -1, axis=0)
    return float((points[:, 0] * following[:, 1] - points[:, 1] * following[:, 0]).sum() / 2)


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _any_inside(points: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> bool:
    return any(_turn(a, b, p) >= 0 and _turn(b, c, p) >= 0 and _turn(c, a, p) >= 0 for p in points)


__all__ = ["convex", "polygon", "triangulate", "union"]
