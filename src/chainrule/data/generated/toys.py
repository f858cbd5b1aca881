"""Points in the plane drawn from known distributions: small data on which a method either works or visibly does not.

All have coordinates of order one and are not rescaled, so that densities and distances mean what the distribution says.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.data.loading.options import Option, number, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

Points: TypeAlias = Float[np.ndarray, "n 2"]
Labels: TypeAlias = Int[np.ndarray, " n"]
Random: TypeAlias = np.random.Generator
Shares: TypeAlias = Float[np.ndarray, " n"]
"""How far along a curve points are, from 0 to 1."""


@final
@dataclass(frozen=True)
class Toy:
    """A distribution of points: how to draw from it, and its classes if it has any."""

    summary: str
    draw: Callable[[Random, Labels, float], Points]
    """From (random numbers, class of each point, noise) to points; without classes, the labels are all zero."""
    classes: tuple[str, ...] = ()
    noise: float | None = None
    """Default standard deviation of the noise; none if the distribution has no such setting."""
    n: int = 4000
    centres: Points | None = None
    """Of a mixture of equal Gaussians with the noise as their deviation, where they lie; none for other shapes."""
    shape: Callable[[Labels, Shares], Points] | None = None
    """Of a shape with normal noise added, its points, by their classes and how far along it they are."""
    area: float | None = None
    """Of points spread evenly and without noise, how much of the plane they fill."""

    @property
    def reader(self) -> SourceReader:
        """The distribution as a source of data."""
        options = {"n": Option(self.n, whole(10, 10**8), "number of points")}
        if self.noise is not None:
            options["noise"] = Option(self.noise, number(0), "standard deviation of the noise")
        return SourceReader("toy", "points", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        n, noise = request.options["n"], request.options.get("noise", 0.0)
        rng = np.random.default_rng(request.seed)
        labels = alternating(n, len(self.classes))
        points = self.draw(rng, labels, noise).astype(np.float32)
        if not self.classes:
            return Scan(n, n, contents=Contents("points", points))
        return Scan(n, n, contents=Contents("points", points, labels, "class", classes=self.classes))


def alternating(n: int, classes: int) -> Labels:
    """Classes that take turns, so that their sizes differ by one at most.

    >>> alternating(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return (np.arange(n) % max(1, classes)).astype(np.int32)


def _polar(radius: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _moons(labels: Labels, along: Shares) -> Points:
    arc = _polar(np.ones_like(along), np.pi * along)
    return np.where(labels[:, None] == 0, arc, [1.0, 0.5] - arc) - [0.5, 0.25]


def _rings(labels: Labels, along: Shares) -> Points:
    return _polar(0.6 * (labels + 1), 2 * np.pi * along)


def _spiral(_labels: Labels, along: Shares) -> Points:
    angle = 1.5 * np.pi * (1 + 2 * along)
    return _polar(angle / (2.25 * np.pi), angle)


def _corners(labels: Labels, second: np.ndarray) -> Points:
    return np.stack([second, second ^ labels], axis=1).astype(float)


def _with_noise(shape: Callable[[Labels, Shares], Points]) -> Callable[[Random, Labels, float], Points]:
    def draw(rng: Random, labels: Labels, noise: float) -> Points:
        points = shape(labels, rng.random(len(labels)))
        return points + noise * rng.standard_normal(points.shape)

    return draw


def _pinwheel(rng: Random, labels: Labels, noise: float) -> Points:
    # Gaussian arms, long along the radius, turned further the further out they reach.
    along = 1 + 0.3 * rng.standard_normal(len(labels))
    across = noise * rng.standard_normal(len(labels))
    turn = 2 * np.pi * labels / 5 + 0.25 * np.exp(along)
    return 1.5 * _polar(np.hypot(along, across), np.arctan2(across, along) + turn)


def _checkerboard(rng: Random, labels: Labels, _noise: float) -> Points:
    column = rng.integers(0, 4, len(labels))
    row = 2 * rng.integers(0, 2, len(labels)) + column % 2
    return np.stack([column, row], axis=1) + rng.random((len(labels), 2)) - 2.0


_RING = _polar(np.full(8, 2.0), 2 * np.pi * np.arange(8) / 8)
_GRID = np.stack(np.meshgrid(np.arange(-2.0, 3.0), np.arange(-2.0, 3.0)), axis=-1).reshape(-1, 2)


def _around(centres: Points) -> Callable[[Random, Labels, float], Points]:
    return lambda rng, labels, noise: centres[labels] + noise * rng.standard_normal((len(labels), 2))


def _xor(rng: Random, labels: Labels, noise: float) -> Points:
    # Every second point of a class takes the second of its two corners.
    corners = _corners(labels, (np.arange(len(labels)) // 2) % 2)
    return corners + noise * rng.standard_normal(corners.shape)


TOYS = {
    "moons": Toy(
        "two interleaved half circles", _with_noise(_moons), ("upper", "lower"), noise=0.05, shape=_moons
    ),
    "rings": Toy(
        "three concentric circles",
        _with_noise(_rings),
        ("inner", "middle", "outer"),
        noise=0.05,
        shape=_rings,
    ),
    "pinwheel": Toy("five curved arms", _pinwheel, tuple(f"arm {i}" for i in range(5)), noise=0.1),
    "checkerboard": Toy("the dark squares of a 4×4 board", _checkerboard, area=8.0),
    "ring": Toy(
        "eight Gaussians on a circle of radius 2; noise=0.02 is hard",
        _around(_RING),
        tuple(f"{45 * i}°" for i in range(8)),
        noise=0.1,
        centres=_RING,
        shape=lambda labels, _: _RING[labels],
    ),
    "grid": Toy(
        "Gaussians on a grid of 5×5",
        _around(_GRID),
        tuple(f"({x:g}, {y:g})" for x, y in _GRID),
        noise=0.05,
        n=5000,
        centres=_GRID,
        shape=lambda labels, _: _GRID[labels],
    ),
    "swiss-roll": Toy("a spiral", _with_noise(_spiral), noise=0.05, shape=_spiral),
    "xor": Toy(
        "the corners of the unit square, opposite ones alike",
        _xor,
        ("same", "different"),
        noise=0.1,
        n=1000,
        shape=lambda labels, along: _corners(labels, (along >= 0.5).astype(int)),
    ),
}


@final
@dataclass(frozen=True)
class Modes:
    """The modes of data whose distribution is known: equal Gaussians of one deviation."""

    centres: Points
    deviation: float


def modes_of(source: Mapping[str, Any]) -> Modes | None:
    """The modes of data that were loaded by this call (`Data.source`); none where they are not known.

    >>> len(modes_of({"name_or_path": "ring", "noise": 0.02}).centres), modes_of({"name_or_path": "moons"})
    (8, None)
    """
    toy = TOYS.get(str(source.get("name_or_path")))
    if toy is None or toy.centres is None:
        return None
    return Modes(toy.centres, float(source["noise"]))


__all__ = ["TOYS", "Labels", "Modes", "Points", "Random", "Shares", "Toy", "alternating", "modes_of"]
