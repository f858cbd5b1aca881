"""Pictures of what a model drew along the way, from the same noise each time: a film, and a strip of its moments."""

import numpy as np

from chainrule.core.formatting import count
from chainrule.core.pictures import Film, Images, Lines, Picture
from chainrule.data import kinds
from chainrule.data.generated.toys import modes_of
from chainrule.models.protocol import HasFilm
from chainrule.probability.samples import ModeCoverage, mode_coverage
from chainrule.probability.samples.modes import WITHIN
from chainrule.train import Run, snapshots

_MOMENTS = 40
_STRIP = 6
"""Moments of the strip."""
_SHOWN = 10
"""Images of each moment in the strip."""
_SIDE = 192
"""Pixels of a drawn plane."""
_DATA, _DRAWN = np.array([0.72, 0.76, 0.82]), np.array([0.84, 0.30, 0.10])


def pictures(run: Run) -> list[Picture]:
    """The film and the strip; nothing for examples that cannot be shown as images or points of a plane."""
    found = snapshots.kept(run.path, _MOMENTS)
    if found is None or len(found.steps) < 2:
        return []
    if isinstance(run.model, HasFilm):
        return list(run.model.film(found.steps, found.examples, run.data))
    kind, schema = kinds.of(run.schema), run.schema
    labels = [f"step {step:,}" for step in found.steps]
    strip = np.unique(np.linspace(0, len(found.steps) - 1, _STRIP).astype(int))
    if kind.is_plane(schema):
        reached = _reached(run, found)
        labels = [
            label if one is None else f"{label}: {one.covered} of {one.modes} modes"
            for label, one in zip(labels, reached, strict=True)
        ]
        real = np.asarray(run.data.train.batch(np.arange(min(2000, len(run.data.train)))).x).reshape(-1, 2)
        planes = _planes(real, found.examples.reshape(len(found.steps), -1, 2))
        caption = "Grey: data. Red: what the same noise became at each step."
        return [
            Images(
                "moments",
                "The same noise along the way",
                planes[strip],
                [labels[i] for i in strip],
                _STRIP,
                caption,
            ),
            Film("film", "The same noise along the way", planes[:, None], labels, 1, caption=caption),
            *_modes_found(found, reached),
        ]
    if not kind.shows_pixels(schema):
        return []
    images = np.clip(found.examples, 0, 1)
    side = images.shape[2]
    few = images[strip][:, :_SHOWN]
    rows = [labels[i] if column == 0 else "" for i in strip for column in range(few.shape[1])]
    what = f"{count(images.shape[1])} vectors of noise" if images.shape[1] != 1 else "one vector of noise"
    return [
        Images(
            "moments",
            "The same noise along the way",
            few.reshape(-1, *images.shape[2:]),
            rows,
            few.shape[1],
            "Every column is one vector of noise, every row a step of training.",
            smooth=side <= 32,
            aligned=True,
        ),
        Film(
            "film",
            "The same noise along the way",
            images,
            labels,
            caption=f"What {what} became.",
            smooth=side <= 32,
        ),
    ]


def _reached(run: Run, found: snapshots.Snapshots) -> list[ModeCoverage | None]:
    """The modes that examples of each moment reach, where the data know theirs and all examples are finite."""
    known = modes_of(run.data.source)
    if known is None:
        return [None] * len(found.steps)
    return [
        mode_coverage(run.data.inverse(x).reshape(len(x), -1), known.centres, max(known.deviation, 1e-6))
        if np.isfinite(x).all()
        else None
        for x in found.examples
    ]


def _modes_found(found: snapshots.Snapshots, reached: list[ModeCoverage | None]) -> list[Picture]:
    """How many modes were reached when, and how many examples lie in one."""
    there = [(step, one) for step, one in zip(found.steps, reached, strict=True) if one is not None]
    if not there:
        return []
    steps, last = np.array([step for step, _ in there], float), there[-1][1]
    return [
        Lines(
            "modes-found",
            "Modes along the way",
            "step",
            "share",
            {
                f"modes, of {last.modes}": (steps, np.array([one.covered / one.modes for _, one in there])),
                "examples near one": (steps, np.array([one.high_quality for _, one in there])),
            },
            caption=f"A mode is reached by {last.threshold} or more of {found.examples.shape[1]} examples within "
            f"{WITHIN:g} standard deviations of its centre. In the end {last.covered} of {last.modes} are.",
        )
    ]


def _planes(real: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """A small drawing of the plane for each moment: dots of drawn points over dots of the data."""
    low, high = real.min(axis=0), real.max(axis=0)
    middle, half = (low + high) / 2, 0.6 * float((high - low).max())
    canvas = np.ones((_SIDE, _SIDE, 3))
    _dot(canvas, real, middle, half, _DATA)
    frames = np.repeat(canvas[None], len(drawn), axis=0)
    for frame, points in zip(frames, drawn, strict=True):
        _dot(frame, points, middle, half, _DRAWN)
    return frames


def _dot(canvas: np.ndarray, points: np.ndarray, middle: np.ndarray, half: float, colour: np.ndarray) -> None:
    points = points[np.isfinite(points).all(axis=1)]
    at = np.rint((points - middle) / half * (_SIDE / 2) + _SIDE / 2).astype(int)
    for down in (0, 1):
        for right in (0, 1):
            x, y = at[:, 0] + right, _SIDE - 1 - at[:, 1] + down
            inside = (x >= 0) & (x < _SIDE) & (y >= 0) & (y < _SIDE)
            canvas[y[inside], x[inside]] = colour


__all__ = ["pictures"]
