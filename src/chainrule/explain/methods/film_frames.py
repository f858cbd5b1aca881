"""Frames of films: points, lines and matrices as pixels, smooth at their edges.

Charts are drawn by `report` from records; a film is made of images, and these are made here.
"""

from typing import final

import numpy as np

from chainrule.core.palette import LIGHT
from chainrule.core.types import Float

Points = Float[np.ndarray, "_ 2"]
SIDE = 320
"""Pixels of a frame, both ways."""


@final
class FilmFrame:
    """A square sheet of paper over a part of the plane, upright: the second coordinate points upwards.

    >>> sheet = FilmFrame(np.zeros(2), 1.0, side=20)
    >>> sheet.dots(np.array([[0.0, 0.0]]), "1")
    >>> sheet.image.shape, bool(sheet.image.min() < 0.6)
    ((20, 20, 3), True)
    """

    def __init__(self, middle: np.ndarray, width: float, side: int = SIDE) -> None:
        self.image = np.ones((side, side, 3)) * rgb(LIGHT["paper"])[None, None]
        self._side = side
        self._corner, self._scale = np.asarray(middle, float) - width / 2, side / width

    @classmethod
    def around(cls, *clouds: Points, side: int = SIDE) -> "FilmFrame":
        """A sheet that holds all points of several clouds, with a margin."""
        every = np.concatenate(clouds)
        low, high = every.min(axis=0), every.max(axis=0)
        return cls((low + high) / 2, 1.12 * max(float((high - low).max()), 1e-9), side)

    def dots(
        self, points: Points, role: str, *, radius: float | np.ndarray = 2.4, alpha: float | np.ndarray = 0.8
    ) -> None:
        """Discs in the colour of a role, of one size or a size each, in pixels."""
        size = np.broadcast_to(np.asarray(radius, float), len(points))
        veil = np.broadcast_to(np.asarray(alpha, float), len(points))
        reach = int(np.ceil(size.max(initial=0.0))) + 1
        offsets = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2), axis=-1).reshape(-1, 2)
        at = self._pixels(points)
        cells = np.round(at).astype(int)[:, None] + offsets[None]
        cover = np.clip(size[:, None] + 0.5 - np.linalg.norm(cells - at[:, None], axis=-1), 0, 1)
        self._lay(cells.reshape(-1, 2), (veil[:, None] * cover).ravel(), role)

    def lines(self, starts: Points, ends: Points, role: str, *, alpha: float | np.ndarray = 0.8) -> None:
        """Straight lines, each with its own opacity."""
        first, last = self._pixels(starts), self._pixels(ends)
        steps = int(np.ceil(np.linalg.norm(last - first, axis=1).max(initial=0.0))) + 1
        share = np.linspace(0, 1, steps)[None, :, None]
        at = (1 - share) * first[:, None] + share * last[:, None]
        # A line shorter than the longest one is stepped along more densely: each step counts for less.
        dense = np.linalg.norm(last - first, axis=1) / max(steps - 1, 1)
        veil = np.broadcast_to(np.asarray(alpha, float), len(starts)) * np.clip(dense, 0, 1)
        base = np.floor(at).astype(int)
        part = at - base
        for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
            weight = np.prod(np.where(np.array(corner)[None, None] == 1, part, 1 - part), axis=-1)
            cells = (base + np.array(corner)[None, None]).reshape(-1, 2)
            self._lay(cells, (veil[:, None] * weight).ravel(), role)

    def _pixels(self, points: Points) -> np.ndarray:
        return (np.asarray(points, float) - self._corner[None]) * self._scale - 0.5

    def _lay(self, cells: np.ndarray, alpha: np.ndarray, role: str) -> None:
        """Veils over cells (to the right, upwards): what shines through is the product over all of them."""
        inside = (cells >= 0).all(axis=1) & (cells < self._side).all(axis=1) & (alpha > 0)
        column, row = cells[inside].T
        through = np.zeros(self.image.shape[:2])
        np.add.at(through, (self._side - 1 - row, column), np.log1p(-np.minimum(alpha[inside], 0.999)))
        seen = np.exp(through)[..., None]
        self.image = seen * self.image + (1 - seen) * rgb(LIGHT[role])[None, None]


def matrix_with_margins(
    matrix: Float[np.ndarray, "rows columns"],
    rows: Float[np.ndarray, " rows"],
    columns: Float[np.ndarray, " columns"],
    side: int = SIDE,
) -> Float[np.ndarray, "side side 3"]:
    """A matrix in shades, rows downwards, with bars of the row weights at its left and of the column weights on top.

    >>> matrix_with_margins(np.eye(3) / 3, np.full(3, 1 / 3), np.full(3, 1 / 3), side=64).shape
    (64, 64, 3)
    """
    bar = side // 5
    image = np.ones((side, side, 3)) * rgb(LIGHT["paper"])[None, None]
    room = side - bar - 2
    down, right = (np.arange(room) * count // room for count in matrix.shape)
    shade = np.sqrt(matrix / max(float(matrix.max()), 1e-300))[down][:, right][..., None]
    image[bar + 2 :, bar + 2 :] = (1 - shade) * rgb(LIGHT["grid"])[None, None] + shade * rgb(LIGHT["ink"])[
        None, None
    ]
    height = np.arange(bar)[None, :]
    for weights, which, role, turned in ((rows, down, "1", False), (columns, right, "2", True)):
        length = (weights / max(float(weights.max()), 1e-300) * (bar - 2))[which][:, None]
        filled = (height >= bar - length)[..., None]
        block = np.where(filled, rgb(LIGHT[role])[None, None], rgb(LIGHT["paper"])[None, None])
        if turned:
            image[:bar, bar + 2 :] = block.transpose(1, 0, 2)
        else:
            image[bar + 2 :, :bar] = block
    return image


def rgb(value: str) -> Float[np.ndarray, "3"]:
    """A colour like "#1e6db9" as three numbers from 0 to 1.

    >>> rgb("#ff0000").tolist()
    [1.0, 0.0, 0.0]
    """
    return np.array([int(value[i : i + 2], 16) / 255 for i in (1, 3, 5)])


__all__ = ["SIDE", "FilmFrame", "matrix_with_margins", "rgb"]
