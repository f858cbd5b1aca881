"""Pictures of samples beside real examples: nearest neighbours, modes, classes."""

from collections.abc import Mapping

import numpy as np

from chainrule.core.pictures import Bars, Images, Lines, Picture, Scatter, Table
from chainrule.core.quoting import plain
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.probability.samples import mode_coverage, nearest
from chainrule.probability.samples.modes import WITHIN
from chainrule.train.generation.classes import ClassNumbers
from chainrule.train.generation.features import Examples
from chainrule.train.generation.measures import OF_REAL
from chainrule.train.generation.real_examples import RealExamples
from chainrule.train.scoring import Metric

_PAIRS = 10
_BINS = 30
_POINTS = 1000


def nearest_distances(known: RealExamples, ours: np.ndarray, real: np.ndarray) -> Lines:
    """How far samples, and held-out examples, are from their nearest training examples."""
    top = float(np.quantile(np.concatenate([ours, real]), 0.995)) or 1.0
    edges = np.linspace(0, top, _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2

    def shares(values: np.ndarray) -> np.ndarray:
        return np.histogram(values, edges)[0] / len(values)

    return Lines(
        "nearest-distances",
        "Distance to the nearest training example",
        "distance",
        "share",
        {"samples": (middle, shares(ours)), "held-out examples": (middle, shares(real))},
        marks=((float(np.median(real)), "median held-out"),),
        caption=f"{len(ours):,} samples, {len(real):,} held-out and {len(known.train):,} training examples. Samples "
        "left of held-out examples are nearer to the training examples than new examples are: copies.",
    )


def closest(known: RealExamples, schema: Schema, flat: Examples) -> Picture:
    """The samples that are nearest to training examples, each with the one it is nearest to."""
    distances, numbers = nearest(flat, known.train)
    rows = np.argsort(distances[:, 0], kind="stable")[:_PAIRS]
    apart, twins = distances[rows, 0], known.train[numbers[rows, 0]]
    kind, title = kinds.of(schema), "The samples closest to training examples"
    if kind.shows_pixels(schema):
        both = np.concatenate([flat[rows], twins]).reshape(-1, *schema.shape)
        labels = [f"{d:.3g}" for d in apart] + [""] * len(rows)
        caption = "Above: samples, with their distance; below: the training example nearest to each."
        return Images("nearest", title, np.clip(both, 0, 1), labels, len(rows), caption, aligned=True)
    if kind.is_plane(schema):
        groups = {
            "training examples": known.train[:_POINTS],
            "samples": flat[:_POINTS],
            "ten closest": flat[rows],
        }
        caption = f"The closest is {apart[0]:.3g} from its nearest training example."
        return Scatter(
            "nearest",
            "Samples over training examples",
            "first coordinate",
            "second coordinate",
            groups,
            caption=caption,
        )
    cells: list[list[str | float | int]] = [
        [int(row), int(numbers[row, 0]), float(distance)] for row, distance in zip(rows, apart, strict=True)
    ]
    return Table("nearest", title, ["sample", "training example", "distance"], cells)


def modes(known: RealExamples, flat: Examples) -> list[Picture]:
    """Samples of each mode of data that are known to have some."""
    if known.modes is None:
        return []
    found = mode_coverage(flat, known.modes.centres, known.modes.deviation)
    names = [str(i + 1) for i in range(found.modes)]
    even = np.full(found.modes, len(flat) / found.modes)
    return [
        Bars(
            "modes",
            f"{found.covered} of {found.modes} modes found",
            "mode",
            "samples",
            names,
            {"samples": found.counts.astype(float), "even shares": even},
            f"Samples within {WITHIN:g} standard deviations of a centre; with {found.threshold} a mode is found.",
        )
    ]


def labels(known: RealExamples, found: Mapping[str, Metric]) -> list[Picture]:
    """What classes samples are taken for."""
    if known.train_y is None:
        return []
    names = known.schema.classes
    series = {
        word: np.asarray([found[f"label_share{suffix}.{name}"].value for name in names])
        for word, suffix in (("samples", ""), ("held-out examples", OF_REAL))
    }
    caption = "Says a classifier of the training examples."
    return [
        Bars(
            "labels",
            "What they are taken for",
            "class",
            "share",
            [plain(one) for one in names],
            series,
            caption,
        )
    ]


def of_classes(known: RealExamples, ours: ClassNumbers, real: ClassNumbers) -> list[Picture]:
    """How often samples of each class are taken for what they were asked to be, and how much of it they cover."""
    names = [plain(one) for one in known.schema.classes]
    both = {"samples": ours, "held-out examples": real}
    return [
        Bars(
            "right-classes",
            "Taken for the class they were asked to be",
            "class",
            "share",
            names,
            {name: np.nan_to_num(one.accuracy) for name, one in both.items()},
            "Says a classifier of the training examples, also of held-out ones.",
        ),
        Bars(
            "class-coverage",
            "Coverage within each class",
            "class",
            "share",
            names,
            {name: np.nan_to_num(one.coverage) for name, one in both.items()},
            "Share of training examples of a class with a sample of it nearer than their fifth neighbour; of as many "
            "held-out examples beside it. Zero where a class has five examples or fewer.",
        ),
    ]


__all__ = ["closest", "labels", "modes", "nearest_distances", "of_classes"]
