"""Pictures as data: records of what to show; `report` draws them.

A model describes its pictures with these few records; the report draws them as SVG and PNG, the studio as live
plots. A model therefore needs no plotting library, and every picture in the project looks the same. Arrays are
NumPy arrays on the host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

SMOOTH_UP_TO = 32
"""Images that were drawn and have at most so many pixels a side are enlarged smoothly."""


@final
@dataclass(frozen=True)
class Footnote:
    """A line on the picture itself, where it goes with every copy: how the numbers were come by."""

    text: str
    alarm: bool = False
    """Whether it is a warning, printed in red."""


@final
@dataclass(frozen=True)
class Lines:
    """Curves over one horizontal axis: `series` maps a label to (x, y), or to (x, y, low, high) for a band."""

    name: str
    title: str
    x_label: str
    y_label: str
    series: Mapping[str, tuple[np.ndarray, ...]]
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[tuple[float, str]] = ()
    """Vertical marks: (x, label)."""
    diagonal: bool = False
    """Draw the line y = x, for reliability curves."""
    dots: tuple[np.ndarray, np.ndarray] | None = None
    """Points (x, y) that the curves are about, such as data."""
    threads: tuple[np.ndarray, np.ndarray] | None = None
    """Many curves of no name over common x, a row each, such as draws: thin and below everything else."""
    caption: str = ""
    names: Sequence[str] = ()
    """What stands at 0, 1, ... of the horizontal axis, where these are no numbers."""
    footnote: Footnote | None = None


@final
@dataclass(frozen=True)
class Bars:
    """One or more groups of bars over named positions."""

    name: str
    title: str
    x_label: str
    y_label: str
    positions: Sequence[str]
    series: Mapping[str, np.ndarray]
    caption: str = ""
    errors: Mapping[str, np.ndarray] | None = None
    """Standard errors of the bars of a series, by its label."""
    footnote: Footnote | None = None


@final
@dataclass(frozen=True)
class Heatmap:
    """A matrix in colour, rows downwards; `numbers` writes each entry, `words` something else in its place."""

    name: str
    title: str
    x_label: str
    y_label: str
    values: np.ndarray
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    numbers: bool = False
    diverging: bool = False
    """Colour around zero instead of from low to high."""
    caption: str = ""
    footnote: Footnote | None = None
    words: Sequence[Sequence[str]] = ()
    """What is written in each entry, row by row, such as the action that is best there."""


@final
@dataclass(frozen=True)
class Mark:
    """A box drawn over an image."""

    box: tuple[float, float, float, float]
    """(x0, y0, x1, y1) in pixels of the image."""
    label: str = ""
    """What is written at its upper edge."""
    group: int = 0
    """Marks of one group have one colour."""
    dashed: bool = False


@final
@dataclass(frozen=True)
class Images:
    """A sheet of small images in [0, 1], shape (count, height, width, channels), each with an optional label."""

    name: str
    title: str
    images: np.ndarray
    labels: Sequence[str] = ()
    columns: int = 10
    caption: str = ""
    smooth: bool = False
    """Small images are enlarged smoothly, and more: for what was drawn, where no single pixel is to be read."""
    aligned: bool = False
    """What stands in a row, or below each other, belongs together: large images are made smaller, rows never broken."""
    footnote: Footnote | None = None
    marks: Sequence[Sequence[Mark]] = ()
    """Boxes over each image; none, or one list for each. Images with marks are shown larger."""


@final
@dataclass(frozen=True)
class Film:
    """Images that change together: `frames` in [0, 1] of shape (moments, count, height, width, channels)."""

    name: str
    title: str
    frames: np.ndarray
    labels: Sequence[str] = ()
    """What is to be said of each moment; none, or one for each."""
    columns: int = 10
    seconds: float = 4.0
    """How long it takes from the first moment to the last, which then stays for a while."""
    caption: str = ""
    smooth: bool = False
    """Small images are enlarged smoothly, and more: for what was drawn, where no single pixel is to be read."""


@final
@dataclass(frozen=True)
class Scatter:
    """Points in the plane by group, over an optional field (a function on a regular grid) and optional arrows."""

    name: str
    title: str
    x_label: str
    y_label: str
    groups: Mapping[str, np.ndarray]
    field: np.ndarray | None = None
    """Values on a grid over `extent`, first axis upwards."""
    extent: tuple[float, float, float, float] = (0.0, 1.0, 0.0, 1.0)
    """Left, right, bottom, top."""
    contours: Sequence[tuple[float, str]] = ()
    """Values of the field at which a line is drawn, and what is written on it; none: one line halfway up."""
    arrows: tuple[np.ndarray, np.ndarray] | None = None
    """Start points and steps."""
    diagonal: bool = False
    """Draw the line y = x, for predictions against true values."""
    words: Mapping[str, Sequence[str]] | None = None
    """What is written in place of each point of a group; groups that are not named have dots."""
    joined: bool = False
    """Join the points of a group in their order: they are a path."""
    caption: str = ""
    shades: tuple[np.ndarray, str] | None = None
    """A number for each point, in the order of the groups, that gives its colour; and what it is."""
    footnote: Footnote | None = None


@final
@dataclass(frozen=True)
class Waterfall:
    """Steps that lead from one number to another: bars that each begin where the one before ends."""

    name: str
    title: str
    x_label: str
    start: float
    names: Sequence[str]
    steps: np.ndarray
    """One for each name, in the order in which they are taken."""
    ends: tuple[str, str]
    """What the number before the first step and the one after the last are called."""
    errors: np.ndarray | None = None
    """Standard errors of the steps."""
    joined: bool = False
    """All in one line: what leads up from the left, what leads down from the right, to where they meet."""
    footnote: Footnote | None = None
    caption: str = ""


@final
@dataclass(frozen=True)
class Swarm:
    """Dots along one axis, a line of them for each name, moved apart where many have the same value."""

    name: str
    title: str
    x_label: str
    names: Sequence[str]
    values: np.ndarray
    """Shape (names, dots)."""
    shades: np.ndarray | None = None
    """A number for each dot that gives its colour, low to high within its line; not a number leaves it grey."""
    shade_label: str = ""
    footnote: Footnote | None = None
    caption: str = ""


@final
@dataclass(frozen=True)
class Polygons:
    """Polygons in the plane, each shaded by a number, with points by group on top."""

    name: str
    title: str
    x_label: str
    y_label: str
    polygons: Sequence[np.ndarray]
    """Corners in order, each of shape (corners, 2)."""
    values: np.ndarray
    """One number for each polygon: the larger, the darker."""
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    caption: str = ""


@final
@dataclass(frozen=True)
class Table:
    """Rows of text and numbers under named columns."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int]] = field(default_factory=tuple)
    caption: str = ""


@final
@dataclass(frozen=True)
class Passage:
    """A text whose pieces are shaded by a number each: the larger, the denser."""

    name: str
    title: str
    pieces: Sequence[str]
    values: np.ndarray
    """One number for each piece; not a number leaves it unshaded."""
    unit: str = ""
    caption: str = ""
    signed: bool = False
    """Colour around zero: one hue for each sign."""
    footnote: Footnote | None = None


@final
@dataclass(frozen=True)
class Slides:
    """Drawings of one thing at successive steps, for a page on which a reader steps through them."""

    name: str
    title: str
    drawings: Sequence[str]
    """Whole SVG documents that carry their own style, all of one size; at least one."""
    notes: Sequence[str]
    """What is said of each step; the first line is its title, the others keep their layout."""
    caption: str = ""


@final
@dataclass(frozen=True)
class Sounds:
    """Clips to listen to: pages have a player for each, drawings show the waveforms."""

    name: str
    title: str
    clips: Mapping[str, np.ndarray]
    """Amplitudes between -1 and 1 of shape (samples, channels), by what each is; at least one."""
    rate: int
    """Samples a second."""
    caption: str = ""


@final
@dataclass(frozen=True)
class AttentionMaps:
    """How much each token takes from each in every head of every layer; drawn is one head, pages let readers choose."""

    name: str
    title: str
    weights: np.ndarray
    """Shape (layers, heads, queries, keys); between 0 and 1."""
    queries: Sequence[str]
    keys: Sequence[str]
    shown: tuple[int, int] = (0, 0)
    """Layer and head that are shown first, counted from 0."""
    labels: Sequence[str] = ()
    """What maps are called that are no heads in layers: one for each of the second axis, the first has length 1."""
    caption: str = ""

    def label(self, layer: int, head: int) -> str:
        """What one of the maps is called."""
        return self.labels[head] if self.labels else f"layer {layer + 1}, head {head + 1}"


Picture: TypeAlias = (
    Lines
    | Bars
    | Heatmap
    | Images
    | Film
    | Scatter
    | Waterfall
    | Swarm
    | Polygons
    | Table
    | Passage
    | Slides
    | Sounds
    | AttentionMaps
)

__all__ = [
    "AttentionMaps",
    "Bars",
    "Film",
    "Footnote",
    "Heatmap",
    "Images",
    "Lines",
    "Mark",
    "Passage",
    "Picture",
    "Polygons",
    "Scatter",
    "Slides",
    "Sounds",
    "Swarm",
    "Table",
    "Waterfall",
]
