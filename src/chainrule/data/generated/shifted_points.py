"""Points whose distribution moves by a known amount: pairs of domains with a known answer.

`rotated-moons` are the `moons` turned about the centre of the data, `shifted-gaussians` two normal classes that are
moved together. Of the latter everything is known in closed form: `ShiftedGaussians` says what the ratio of densities,
the divergences and the error of the source's best rule on the target are.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.data.generated.toys import TOYS, Labels, Points, Random, Toy, alternating
from chainrule.data.loading.options import Option, number, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader


@final
@dataclass(frozen=True)
class RotatedMoons:
    """The two half circles, turned."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The turned moons as a source of data."""
        options = {
            "n": Option(4000, whole(10, 10**8), "number of points"),
            "noise": Option(0.05, number(0), "standard deviation of the noise"),
            "angle": Option(35.0, number(-360), "degrees by which they are turned, counter-clockwise"),
        }
        return SourceReader("toy", "points", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        moons: Toy = TOYS["moons"]
        n, labels = request.options["n"], alternating(request.options["n"], len(moons.classes))
        points = moons.draw(np.random.default_rng(request.seed), labels, request.options["noise"])
        x = rotated(points, request.options["angle"]).astype(np.float32)
        return Scan(n, n, contents=Contents("points", x, labels, "class", classes=moons.classes))


@final
@dataclass(frozen=True)
class ShiftedGaussians:
    """Two classes N(±separation/2, I) in the plane, apart along the first axis, both moved by `shift` along it.

    The unmoved ones are the source.

    >>> known = ShiftedGaussians(separation=2.0, shift=1.0)
    >>> round(known.source_error, 4), round(known.target_error, 4), round(known.best_target_error, 4)
    (0.1587, 0.2614, 0.1587)
    """

    separation: float = 2.0
    shift: float = 1.0

    def __post_init__(self) -> None:
        if not (self.separation >= 0 and math.isfinite(self.separation) and math.isfinite(self.shift)):
            raise ArgumentError(
                f"ShiftedGaussians(separation={self.separation}, shift={self.shift}): separation must be a number "
                "of at least 0 and shift a finite one"
            )

    def draw(self, rng: Random, labels: Labels) -> Points:
        """Points of the target, one of each class that is asked for."""
        centres = np.stack([(labels - 0.5) * self.separation + self.shift, np.zeros(len(labels))], axis=1)
        return centres + rng.standard_normal(centres.shape)

    @property
    def source_error(self) -> float:
        """The error of the best rule of the source, the sign of the first coordinate, on the source."""
        return _normal_cdf(-self.separation / 2)

    @property
    def target_error(self) -> float:
        """The error of that rule on the target."""
        half = self.separation / 2
        return (_normal_cdf(-half + self.shift) + _normal_cdf(-half - self.shift)) / 2

    @property
    def best_target_error(self) -> float:
        """The error of the best rule of the target on it."""
        return self.source_error

    @property
    def class_tv(self) -> float:
        """Total variation, sup over events (at most 1), between a class of the source and that of the target."""
        return 2 * _normal_cdf(abs(self.shift) / 2) - 1

    def log_ratio(self, x: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, " n"]:
        """The logarithm of target density over source density."""
        half, at = self.separation / 2, x[:, 0]

        def log_density(moved: float) -> np.ndarray:
            return np.logaddexp(-((at - moved - half) ** 2) / 2, -((at - moved + half) ** 2) / 2)

        return np.asarray(log_density(self.shift) - log_density(0.0))

    def squared_mmd(self, scale: float = 1.0) -> float:
        """The squared maximum mean discrepancy of the two domains under an RBF kernel of this scale."""
        wide = scale**2 + 2
        lower = scale**2 / wide  # both coordinates: the kernel is convolved with N(0, 2) along each

        def mean(distance: float) -> float:
            """The mean kernel of points of two mixtures whose centres are that far apart."""
            apart = np.array([distance - self.separation, distance, distance, distance + self.separation])
            return float(lower * np.exp(-(apart**2) / (2 * wide)).mean())

        return 2 * mean(0.0) - 2 * mean(self.shift)


@final
@dataclass(frozen=True)
class GaussianPair:
    """Shifted Gaussians as a source of data."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """Two normal classes, moved."""
        options = {
            "n": Option(4000, whole(10, 10**8), "number of points"),
            "separation": Option(2.0, number(0), "distance of the two classes, in standard deviations"),
            "shift": Option(1.0, number(-1000), "by how much both are moved; 0 gives the source"),
        }
        return SourceReader("toy", "points", options, _gaussians)


def _gaussians(request: ReadRequest) -> Scan:
    n, labels = request.options["n"], alternating(request.options["n"], 2)
    known = ShiftedGaussians(request.options["separation"], request.options["shift"])
    x = known.draw(np.random.default_rng(request.seed), labels).astype(np.float32)
    return Scan(n, n, contents=Contents("points", x, labels, "class", classes=("left", "right")))


def _normal_cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def rotated(points: Points, degrees: float) -> Points:
    """Points turned counter-clockwise about their own centre.

    >>> rotated(np.array([[1.0, 0.0], [-1.0, 0.0]]), 90).round(6).tolist()
    [[0.0, 1.0], [-0.0, -1.0]]
    """
    angle, centre = math.radians(degrees), points.mean(axis=0)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    return np.asarray((points - centre) @ turn.T + centre)


SHIFTED_POINTS: dict[str, RotatedMoons | GaussianPair] = {
    "rotated-moons": RotatedMoons("the moons, turned by an angle about their centre"),
    "shifted-gaussians": GaussianPair("two normal classes, both moved; shift=0 gives the source"),
}

__all__ = [
    "SHIFTED_POINTS",
    "GaussianPair",
    "RotatedMoons",
    "ShiftedGaussians",
    "rotated",
]
