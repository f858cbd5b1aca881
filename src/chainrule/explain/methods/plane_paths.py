"""Paths of layers through the information plane, and pictures of them: by step, over time, and as a film."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.spatial.distance import pdist

from chainrule.core.pictures import Film, Lines, Scatter
from chainrule.core.types import Float, Int
from chainrule.explain.methods.film_frames import FilmFrame
from chainrule.information.plane import Phases, layer_information, phases

_BANDS = 6
"""Parts of training that have a colour of their own."""
_FRAMES = 40
_MARGIN = 0.08
_COMPARED = 300


@final
@dataclass(frozen=True)
class PlanePath:
    """Where the layers of a network stand at some steps of its training, in bits."""

    steps: Int[np.ndarray, " moments"]
    layers: tuple[str, ...]
    about_input: Float[np.ndarray, "moments layers"]
    about_target: Float[np.ndarray, "moments layers"]

    def phases(self) -> dict[str, Phases]:
        """Fitting and compression of every layer, as measured."""
        return {
            name: phases(self.about_input[:, number], self.about_target[:, number])
            for number, name in enumerate(self.layers)
        }

    def rises(self) -> list[str]:
        """Layers that read more in the end than one before, about input or target: failures of the estimator."""
        found = []
        for number in range(1, len(self.layers)):
            for values in (self.about_input[-1], self.about_target[-1]):
                if values[number] > values[:number].min() + 1e-9:
                    found.append(self.layers[number])
                    break
        return found


def path_of(
    moments: Mapping[int, Mapping[str, np.ndarray]],
    targets: np.ndarray,
    *,
    estimator: str = "binning",
    bins: int = 30,
    noise: float | Mapping[str, float] = 0.1,
) -> PlanePath:
    """The path of layers whose values at each step are given; the noise is one for all of them, or one for each.

    Bins span what each layer reaches in all of the steps.
    """
    layers = tuple(next(iter(moments.values())))
    spans = {
        name: (
            min(float(values[name].min()) for values in moments.values()),
            max(float(values[name].max()) for values in moments.values()),
        )
        for name in layers
    }
    found = np.array(
        [
            [
                layer_information(
                    values[name],
                    targets,
                    estimator,
                    bins=bins,
                    limits=spans[name],
                    noise=noise[name] if isinstance(noise, Mapping) else noise,
                )
                for name in layers
            ]
            for values in moments.values()
        ]
    )
    return PlanePath(np.array(list(moments)), layers, found[..., 0], found[..., 1])


def typical_distances(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The median distance between two examples in every layer, by at most some hundreds of them.

    >>> typical_distances({"h": np.array([[0.0, 0.0], [3.0, 4.0]])})
    {'h': 5.0}
    """
    found = {}
    for name, rows in values.items():
        some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _COMPARED)).astype(int))]
        found[name] = float(np.median(pdist(np.asarray(some, np.float64))))
    return found


def by_step(name: str, title: str, path: PlanePath, how: str, caption: str = "") -> Scatter:
    """All layers in the plane, coloured by when they were there."""
    parts = [
        part for part in np.array_split(np.arange(len(path.steps)), min(_BANDS, len(path.steps))) if len(part)
    ]
    groups = {}
    for part in parts:
        label = f"until step {int(path.steps[part[-1]]):,}"
        groups[label] = np.stack([path.about_input[part].ravel(), path.about_target[part].ravel()], axis=1)
    return Scatter(
        name,
        title,
        f"I(X; h) in bits, {how}",
        f"I(h; Y) in bits, {how}",
        groups,
        caption=f"A dot for each of {len(path.layers)} layers ({', '.join(path.layers)}) at each moment. "
        f"{caption}".strip(),
    )


def over_time(name: str, title: str, path: PlanePath, how: str, *, of: str = "input") -> Lines:
    """What every layer knows about the input, or about the target, over the steps of training."""
    values = path.about_input if of == "input" else path.about_target
    what = "I(X; h)" if of == "input" else "I(h; Y)"
    return Lines(
        name,
        title,
        "steps + 1",
        f"{what} in bits, {how}",
        {layer: (path.steps + 1.0, values[:, number]) for number, layer in enumerate(path.layers)},
        log_x=True,
    )


def film(name: str, title: str, paths: Mapping[str, PlanePath], how: str) -> Film:
    """The layers of one or several networks moving through the plane, each on a sheet of its own."""
    widest = max(float(path.about_input.max()) for path in paths.values()) or 1.0
    tallest = max(float(path.about_target.max()) for path in paths.values()) or 1.0
    moments = min(len(path.steps) for path in paths.values())
    chosen = np.unique(np.linspace(0, moments - 1, min(_FRAMES, moments)).round().astype(int))
    frames = [
        np.stack([_sheet(path, int(now), (widest, tallest)) for path in paths.values()]) for now in chosen
    ]
    steps = next(iter(paths.values())).steps
    sides = ", ".join(paths)
    return Film(
        name,
        title,
        np.stack(frames),
        [f"step {int(steps[now]):,}" for now in chosen],
        columns=len(paths),
        seconds=8.0,
        caption=f"From left to right: {sides}. On every sheet I(X; h) runs to the right from 0 to {widest:.3g} bits "
        f"and I(h; Y) upwards from 0 to {tallest:.3g} bits, {how}; a colour for each layer, with the way it came.",
    )


def _sheet(path: PlanePath, now: int, ends: tuple[float, float]) -> np.ndarray:
    sheet = FilmFrame(np.array([0.5, 0.5]), 1 + 2 * _MARGIN)
    _frame(sheet)
    for number in range(len(path.layers)):
        line = np.stack(
            [path.about_input[: now + 1, number] / ends[0], path.about_target[: now + 1, number] / ends[1]],
            axis=1,
        )
        role = str(number % 6 + 1)
        sheet.lines(line[:-1], line[1:], role, alpha=0.5)
        sheet.dots(line[-1:], role, radius=6.0, alpha=0.95)
    return sheet.image


def _frame(sheet: FilmFrame) -> None:
    """The sides of the plane, and lines at its quarters."""
    for share in np.linspace(0, 1, 5):
        starts = np.array([[share, 0.0], [0.0, share]])
        ends = np.array([[share, 1.0], [1.0, share]])
        sheet.lines(starts, ends, "ink" if share == 0 else "grid", alpha=0.8)


def phase_rows(paths: Mapping[str, PlanePath]) -> list[list[str | float | int]]:
    """Rows of a table: for every network and layer both informations, and the change of I(X; h) in both phases."""
    rows: list[list[str | float | int]] = []
    for label, path in paths.items():
        for number, (name, phase) in enumerate(path.phases().items()):
            rows.append(
                [
                    label,
                    name,
                    float(path.about_input[0, number]),
                    int(path.steps[phase.plateau]),
                    phase.fitting,
                    phase.compression,
                    float(path.about_input[-1, number]),
                    float(path.about_target[-1, number]),
                ]
            )
    return rows


HEADS = (
    "layer",
    "I(X; h) at first",
    "plateau at step",
    "change until then",
    "change after it",
    "I(X; h) at last",
    "I(h; Y) at last",
)
"""Columns of `phase_rows` after the first."""

__all__ = ["HEADS", "PlanePath", "by_step", "film", "over_time", "path_of", "phase_rows", "typical_distances"]
