"""Mass on its way: two clouds morphed along the cheapest plan beside a cross-fade, and colours moved between images.

Displacement interpolation moves every bit of mass straight to its target; the mixture of both distributions fades
one out and the other in. The same plan, between palettes, gives one image the colours of another.
"""

from pathlib import Path
from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Film, Images, Lines, Scatter, Table
from chainrule.data.example_files import pixels_of
from chainrule.explain.methods.film_frames import FilmFrame
from chainrule.explain.methods.plane_points import plane_points
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.transport import (
    ColorTransfer,
    ExactTransport,
    cost_matrix,
    displacement,
    exact,
    transfer_colors,
    wasserstein,
)

_WIDTH = 240
"""Pixels to which images are made smaller at most."""


@final
class DisplacementSettings(Settings):
    """The two clouds, and the two images."""

    data: str = Field("ring", description="name or path of the first points in the plane")
    against: str = Field("moons", description="name or path of those they move to")
    load: dict[str, Any] = Field(default_factory=dict, description="options of both, e.g. load.noise=0.1")
    n: int = Field(250, ge=2, le=2000, description="points of each")
    frames: int = Field(21, ge=2, le=200, description="moments of the film")
    image: str = Field(
        "", description="file of an image that gets the colours of another (default: a drawn one)"
    )
    reference: str = Field("", description="file of the image whose colours it gets")
    colors: int = Field(64, ge=2, le=512, description="colours of each palette")
    seed: int = Field(0, ge=0, description="which points are used")


def run(settings: DisplacementSettings, listener: Listener) -> Outcome:
    """The film of both ways, distances on them, and the images before and after."""
    if bool(settings.image) != bool(settings.reference):
        raise ArgumentError("displacement: two images are needed", remedy="image=a.png reference=b.jpg")
    x, y = (_points(name, settings) for name in (settings.data, settings.against))
    plan = exact(np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)), cost_matrix(x, y))
    listener(f"plan of {len(x)} and {len(y)} points: {float(plan.cost):.5g}")
    moments = np.linspace(0, 1, settings.frames)
    distances = _distances(x, y, plan)
    images = _images(settings)
    listener("colours")
    colors = transfer_colors(*images, settings.colors, seed=settings.seed)
    total = float(wasserstein(x, y, 2))
    quarters = [distances[way][1] / total if total else 0.0 for way in ("moved", "mixed")]
    before, after = (_color_gap(one, images[1]) for one in (images[0], colors.image))
    return Outcome(
        [
            f"W_2 from {settings.data} to {settings.against} is {total:.4g}. A quarter of the way along the plan is "
            f"{distances['moved'][1]:.4g} from the start, {quarters[0]:.3f} of it: constant speed.",
            f"A quarter of the cross-fade is {distances['mixed'][1]:.4g} away, {quarters[1]:.3f} of "
            "it: no point moves, a quarter of the mass jumps.",
            f"Palettes of {len(colors.palette)} colours are {colors.cost**0.5:.3g} apart in W_2. Means and deviations "
            f"of the image's channels differed from the other's by {before:.3f}, and differ by {after:.3f} now.",
        ],
        [
            _film(x, y, plan, moments),
            _speed(distances, total),
            _before_and_after(images, colors),
            _palettes(colors),
        ],
        Table(
            "displacement-table",
            "Distance from the start",
            ["share of the way", "along the plan", "cross-fade"],
            [[float(t), float(a), float(b)] for t, a, b in zip(*distances.values(), strict=True)],
        ),
        {
            "distance": total,
            "cost": float(plan.cost),
            "gap": plan.gap,
            **{name: values.tolist() for name, values in distances.items()},
            "colors_before": before,
            "colors_after": after,
        },
    )


def _points(name: str, settings: DisplacementSettings) -> np.ndarray:
    remedy = "data=moons against=pinwheel, or tables with two columns and load.target=none"
    found = plane_points("displacement", name, settings.load, remedy)
    chosen = np.random.default_rng(settings.seed).permutation(len(found))[: settings.n]
    return found[chosen]


def _distances(x: np.ndarray, y: np.ndarray, plan: ExactTransport) -> dict[str, np.ndarray]:
    """How far both ways are from the start, at quarters of them."""
    share = np.linspace(0, 1, 5)
    even = np.full(len(x), 1 / len(x))
    both = np.concatenate([x, y])
    moved, mixed = [], []
    for t in share:
        cloud = displacement(x, y, plan.entries, float(t))
        moved.append(float(wasserstein(x, cloud.points, 2, even, cloud.weights)))
        weights = np.concatenate([(1 - t) * even, np.full(len(y), t / len(y))])
        mixed.append(float(wasserstein(x, both, 2, even, weights)))
    return {"share": share, "moved": np.array(moved), "mixed": np.array(mixed)}


def _film(x: np.ndarray, y: np.ndarray, plan: ExactTransport, moments: np.ndarray) -> Film:
    frames = []
    for t in moments:
        cloud = displacement(x, y, plan.entries, float(t))
        weights = np.asarray(cloud.weights)
        left, right = FilmFrame.around(x, y), FilmFrame.around(x, y)
        left.dots(np.asarray(cloud.points), "4", alpha=0.85 * weights / weights.max())
        right.dots(x, "1", alpha=0.85 * (1 - t))
        right.dots(y, "2", alpha=0.85 * t)
        frames.append(np.stack([left.image, right.image]))
    return Film(
        "displacement",
        "Mass that moves, and mass that fades",
        np.stack(frames),
        [f"{t:.2f} of the way" for t in moments],
        columns=2,
        seconds=6.0,
        caption="Left: displacement interpolation along the cheapest plan. Right: the mixture of both.",
    )


def _speed(distances: dict[str, np.ndarray], total: float) -> Lines:
    share = distances["share"]
    return Lines(
        "displacement-distance",
        "Distance from the start",
        "share of the way",
        "W_2",
        {"along the plan": (share, distances["moved"]), "cross-fade": (share, distances["mixed"])},
        caption=f"The plan goes at constant speed to its end, {total:.4g} away. The mixture is as far as the "
        "root of its share: none of its mass moves halfway.",
    )


def _images(settings: DisplacementSettings) -> tuple[np.ndarray, np.ndarray]:
    if not settings.image:
        return _day(), _dusk()
    first, second = (
        _small(pixels_of(Path(path).expanduser(), 3)) for path in (settings.image, settings.reference)
    )
    return first, second


def _small(pixels: np.ndarray) -> np.ndarray:
    every = max(1, max(pixels.shape[:2]) // _WIDTH)
    return np.asarray(pixels[::every, ::every], np.float64)


def _scene(sky: np.ndarray, sun: np.ndarray, hills: np.ndarray, height: float) -> np.ndarray:
    """Hills under a sky with a sun, drawn with a few functions: 120 x 160 pixels."""
    down, right = np.mgrid[0:120, 0:160] / 120.0
    image = sky[0][None, None] * (1 - down[..., None]) + sky[1][None, None] * down[..., None]
    glow = np.exp(-((right - 0.95) ** 2 + (down - height) ** 2) / 0.012)[..., None]
    image = (1 - glow) * image + glow * sun[None, None]
    for number, tone in enumerate(hills):
        line = (
            0.55
            + 0.14 * number
            + 0.08 * np.sin(5 * right + 2.1 * number)
            + 0.03 * np.sin(17 * right + number)
        )
        image = np.where((down > line)[..., None], tone[None, None] * (1.15 - 0.4 * down[..., None]), image)
    return np.clip(image, 0, 1)


def _day() -> np.ndarray:
    sky = np.array([[0.35, 0.6, 0.95], [0.8, 0.92, 1.0]])
    hills = np.array([[0.45, 0.65, 0.4], [0.3, 0.55, 0.25], [0.2, 0.4, 0.15]])
    return _scene(sky, np.array([1.0, 1.0, 0.85]), hills, 0.2)


def _dusk() -> np.ndarray:
    sky = np.array([[0.2, 0.12, 0.35], [1.0, 0.55, 0.25]])
    hills = np.array([[0.45, 0.2, 0.3], [0.28, 0.12, 0.25], [0.12, 0.06, 0.16]])
    return _scene(sky, np.array([1.0, 0.85, 0.45]), hills, 0.45)


def _color_gap(one: np.ndarray, other: np.ndarray) -> float:
    """Root of the summed squares by which means and deviations of channels differ."""
    first, second = (
        np.concatenate([image.mean(axis=(0, 1)), image.std(axis=(0, 1))]) for image in (one, other)
    )
    return float(np.linalg.norm(first - second))


def _before_and_after(images: tuple[np.ndarray, np.ndarray], colors: ColorTransfer) -> Images:
    """The three images on sheets of one size."""
    shapes = [image.shape for image in (*images, colors.image)]
    height, width = (max(shape[axis] for shape in shapes) for axis in (0, 1))
    sheets = np.ones((3, height, width, images[0].shape[-1]))
    for sheet, image in zip(sheets, (images[0], images[1], colors.image), strict=True):
        sheet[: image.shape[0], : image.shape[1]] = image
    return Images(
        "displacement-colors",
        "Colours of one image moved to those of another",
        sheets,
        ["before", "the other", "after"],
        columns=3,
        caption="The palette of the first is moved to that of the second at least cost; pixels follow the colours near "
        "theirs.",
        aligned=True,
    )


def _palettes(colors: ColorTransfer) -> Scatter:
    """First and last channel of the palette, before and after."""
    axes = [0, -1]
    return Scatter(
        "displacement-palette",
        "Where the palette went",
        "first channel",
        "last channel",
        {"before": colors.palette[:, axes], "after": colors.moved[:, axes]},
        arrows=(colors.palette[:, axes], (colors.moved - colors.palette)[:, axes]),
    )


experiment = Experiment(
    "Two clouds morphed along the cheapest plan beside a cross-fade; the colours of one image moved to another's.",
    DisplacementSettings,
    run,
    toy={"n": 10, "frames": 2, "colors": 4},
    reference="McCann, A convexity principle for interacting gases, Advances in Mathematics 128, 1997",
)

__all__ = ["DisplacementSettings", "experiment", "run"]
